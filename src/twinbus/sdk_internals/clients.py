"""How an application's client of the SDK was made.

The SDK keeps the arguments of its clients to itself. A pair needs them to connect to
the same namespace in the same way.
"""

from typing import Any

from azure.servicebus._base_handler import (
    ServiceBusSASTokenCredential,
    ServiceBusSharedKeyCredential,
)
from azure.servicebus.aio._base_handler_async import (
    ServiceBusSASTokenCredential as AsyncSASTokenCredential,
)
from azure.servicebus.aio._base_handler_async import (
    ServiceBusSharedKeyCredential as AsyncSharedKeyCredential,
)


def entity_of(client: Any) -> str | None:
    """The EntityPath of its connection string: it may use no other entity."""
    return client._entity_name or None


def endpoint_of(client: Any) -> tuple[str, str]:
    """Where a client connects to: two clients of one namespace have the same."""
    return (
        client.fully_qualified_namespace.lower(),
        str(client._custom_endpoint_address or "").lower(),
    )


def connection_settings(client: Any) -> dict[str, Any]:
    """The arguments with which another client connects in the same way."""
    config = client._config
    return {
        "transport_type": config.transport_type,
        "http_proxy": config.http_proxy,
        "user_agent": config.user_agent,
        "logging_enable": config.logging_enable,
        "use_tls": config.use_tls,
        "custom_endpoint_address": client._custom_endpoint_address,
        "connection_verify": client._connection_verify,
        "ssl_context": client._ssl_context,
        "entity_name": client._entity_name,
    }


def credential_of(client: Any) -> Any:
    """The credential a client was given; never shown, logged or copied."""
    return client._credential


def key_of(credential: Any) -> tuple[str, str] | None:
    """Name and value of the key in a connection string."""
    if isinstance(credential, ServiceBusSharedKeyCredential | AsyncSharedKeyCredential):
        return credential.policy, credential.key
    return None


def signature_of(credential: Any) -> str | None:
    """The shared access signature in a connection string."""
    if isinstance(credential, ServiceBusSASTokenCredential | AsyncSASTokenCredential):
        token: Any = credential.token
        return token.decode() if isinstance(token, bytes) else str(token)
    return None


def asynchronous_key(credential: Any) -> Any | None:
    """The asynchronous form of a credential from a connection string."""
    if isinstance(credential, ServiceBusSharedKeyCredential):
        return AsyncSharedKeyCredential(credential.policy, credential.key)
    if isinstance(credential, ServiceBusSASTokenCredential):
        return AsyncSASTokenCredential(credential.token, credential.expiry)
    return None


def close_with(client: Any, part: Any) -> None:
    """Have `part.close()` called when the client is closed, as for its senders.

    A client has no other sign of its end. It holds its parts weakly.
    """
    client._handlers.add(part)
