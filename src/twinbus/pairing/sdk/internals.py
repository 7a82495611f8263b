"""All that is touched of the SDK and is not its public interface, each with its reason.

Tested with azure-servicebus 7.14 and 7.15. When a release of the SDK moves something,
this is the file that changes, and no other.
"""

import asyncio
import contextlib
import logging
from typing import Any, Final

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._base_handler import (
    ServiceBusSASTokenCredential,
    ServiceBusSharedKeyCredential,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus._common.utils import transform_outbound_messages
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.aio._base_handler_async import (
    ServiceBusSASTokenCredential as AsyncSASTokenCredential,
)
from azure.servicebus.aio._base_handler_async import (
    ServiceBusSharedKeyCredential as AsyncSharedKeyCredential,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage

_log = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""For a peer to answer the end of a link; then the socket is closed."""

BATCH_BYTES_STANDARD: Final = 256 * 1024
"""What the SDK takes for the size of a batch where no link has told it."""


# --- messages -------------------------------------------------------------------


def as_messages(messages: Any) -> list[ServiceBusMessage]:
    """One message or many, in any form that `send_messages` takes.

    The SDK's own function, because it alone knows all the forms, and what to raise for
    the others.
    """
    converted = transform_outbound_messages(
        messages, ServiceBusMessage, PyamqpTransport.to_outgoing_amqp_message
    )
    return converted if isinstance(converted, list) else [converted]


def messages_of(batch: ServiceBusMessageBatch) -> list[ServiceBusMessage]:
    """A batch cannot be taken apart otherwise, and a diverted one must be."""
    return list(batch._messages)


def message_of(raw: AmqpAnnotatedMessage) -> ServiceBusMessage:
    """A message around a raw one, as the SDK makes it of an AmqpAnnotatedMessage.

    The public constructor takes bodies of data only.
    """
    return ServiceBusMessage(
        body=None,
        message=PyamqpTransport.to_outgoing_amqp_message(raw),
        raw_amqp_message=raw,
    )


def binary_value(value: bytes) -> dict[Any, Any]:
    """Bytes that are sent as such: the SDK takes those among properties for texts."""
    return {TYPE: AMQPTypes.binary, VALUE: value}


def encoding_of(raw: AmqpAnnotatedMessage) -> str:
    """Only kept privately, and needed where a copy is made."""
    return str(raw._encoding)


# --- errors ---------------------------------------------------------------------


def condition_of(error: AzureError) -> str:
    """The AMQP error condition; otherwise only part of a text."""
    condition = getattr(error, "_condition", None)
    value = getattr(condition, "value", condition)
    return value.decode() if isinstance(value, bytes) else str(value or "")


def token_status_of(error: BaseException | None) -> int | None:
    """What `$cbs` answered, if that is what failed.

    The SDK raises an authentication error for every answer, 404 for an entity that
    does not exist among them; the status is in the error that it wraps.
    """
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


# --- links ----------------------------------------------------------------------


async def open_link(link: Any, timeout_seconds: float) -> None:
    """Open a sender or receiver and no more: `async with` has no time-out."""
    await link._do_retryable_operation(
        link._open, timeout=timeout_seconds, operation_requires_timeout=True
    )


def batch_bytes_of(sender: ServiceBusSender) -> int | None:
    """How large a batch may be, once the link is open."""
    return int(sender._max_batch_size_on_link) or None


async def request(
    sender: ServiceBusSender,
    operation: str,
    body: dict[str, Any],
    timeout_seconds: float,
) -> Any:
    """A management request that the SDK has no method for: the value of its answer."""
    return await sender._mgmt_request_response_with_retry(
        operation.encode(), body, mgmt_handlers.default, timeout=timeout_seconds
    )


def remember_connection(link: Any) -> None:
    """Have `close_link` find the connection of a sender or receiver in any case.

    A link that fails or is cancelled while it opens forgets its connection, and leaves
    the socket open.
    """
    create = link._create_handler

    def create_and_remember(auth: Any) -> None:
        create(auth)
        link._twinbus_client = link._handler

    link._create_handler = create_and_remember


async def close_link(link: Any, timeout_seconds: float = CLOSE_SECONDS) -> None:
    """Close a sender or receiver; after that time, its socket.

    Its own close waits for its peer, and up to a second for the task that keeps the
    connection alive. When it is cancelled, or has failed before, the socket stays open.
    """
    client = getattr(link, "_twinbus_client", None) or link._handler
    try:
        async with asyncio.timeout(timeout_seconds):
            await _end_keep_alive(client)
            await link.close()
    except Exception as error:
        _log.debug("a link was not closed in order: %s", error)
    finally:
        link._handler = None
        await _abort(client)


async def abort(link: Any) -> None:
    """Close the socket of a sender or receiver, without a word to its peer."""
    client = getattr(link, "_twinbus_client", None) or link._handler
    link._handler = None
    await _abort(client)


async def _abort(client: Any) -> None:
    await _end_keep_alive(client)
    connection = getattr(client, "_connection", None)
    if connection is not None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await connection._transport.close()


async def _end_keep_alive(client: Any) -> None:
    keep_alive = getattr(client, "_keep_alive_thread", None)
    if keep_alive is not None:
        client._keep_alive_thread = None
        keep_alive.cancel()
        await asyncio.gather(keep_alive, return_exceptions=True)


# --- clients --------------------------------------------------------------------


def entity_of(client: Any) -> str | None:
    """The EntityPath of its connection string: it may use no other entity."""
    return client._entity_name or None


def endpoint_of(client: Any) -> tuple[str, str]:
    """Where a client connects to: two with the same are of one namespace."""
    return (
        client.fully_qualified_namespace.lower(),
        str(client._custom_endpoint_address or "").lower(),
    )


def connection_settings(client: Any) -> dict[str, Any]:
    """What a twin must be given to connect as the client does.

    The SDK keeps its arguments to itself.
    """
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


def asynchronous_key(credential: Any) -> Any | None:
    """The asynchronous form of the SDK's own two credentials, of connection strings."""
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
