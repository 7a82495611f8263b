"""The address that a client of the SDK connects to, for our own AMQP client."""

import ssl
from typing import Any, Final

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import TransportType

from twinbus.client.address import NamespaceAddress
from twinbus.client.connection_string import PLAIN_PORT, TLS_PORT
from twinbus.client.credentials import FixedToken, SharedKey, TokenSource
from twinbus.clock import Clock
from twinbus.pairing.primary_name import without_port
from twinbus.sdk_internals.clients import (
    connection_settings,
    credential_of,
    key_of,
    signature_of,
)

_WEB_PORT: Final = 443


class Endpoint:
    """Host, port and trust of a client of the SDK."""

    def __init__(self, client: Any) -> None:
        settings = connection_settings(client)
        # It has a port if the bus is not at the usual one.
        name = str(client.fully_qualified_namespace)
        self._settings = settings
        self.host = without_port(name)
        self.is_plain_amqp = (
            settings["transport_type"] is not TransportType.AmqpOverWebsocket
            and not settings["http_proxy"]
            and not settings["custom_endpoint_address"]
        )
        port = name.rpartition(":")[2]
        self.port = int(port) if port.isdecimal() else self._usual_port()

    def _usual_port(self) -> int:
        if not self.is_plain_amqp:
            return _WEB_PORT
        return TLS_PORT if self._settings["use_tls"] else PLAIN_PORT

    def tls(self) -> ssl.SSLContext | None:
        """None: plain TCP."""
        if not self._settings["use_tls"]:
            return None
        given = self._settings["ssl_context"]
        if isinstance(given, ssl.SSLContext):
            return given
        return ssl.create_default_context(cafile=self._settings["connection_verify"])


def address_of(client: Any, clock: Clock) -> NamespaceAddress | None:
    """None if only the SDK can connect: over WebSockets, through a proxy, with a
    credential that is neither a key nor a signature, or to a single entity."""
    endpoint = Endpoint(client)
    tokens = _tokens(credential_of(client), endpoint.host, clock)
    entity = connection_settings(client)["entity_name"]
    if not endpoint.is_plain_amqp or tokens is None or entity:
        return None
    return NamespaceAddress(
        host=endpoint.host, port=endpoint.port, tokens=tokens, tls=endpoint.tls()
    )


def _tokens(credential: Any, host: str, clock: Clock) -> TokenSource | None:
    if isinstance(credential, AzureNamedKeyCredential):
        return SharedKey(host, *credential.named_key, clock)
    if isinstance(credential, AzureSasCredential):
        return FixedToken(credential.signature)
    key, signature = key_of(credential), signature_of(credential)
    if key is not None:
        return SharedKey(host, *key, clock)
    return None if signature is None else FixedToken(signature)
