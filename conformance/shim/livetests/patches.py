"""Every change to the SDK that the tests run with. Nothing else of it is touched.

1. AMQP clients keep the port and speak plain AMQP where the server does.
2. WebSocket clients go to SB_WS_ENDPOINT; without one they become AMQP clients. With
   SB_WS_ONLY=1 all clients are WebSocket clients.
3. Administration clients go to SB_HTTP_ENDPOINT, by http:// if it says so.
4. TLS goes to the server's port: the SDK has 5671 fixed.
5. A private certificate authority is trusted: certifi names a bundle that has it.
6. What tests replace in the SDK's transports and leave behind is put back after each.

1 to 3 act only on the namespace of SB_CONNECTION_STRING; every other goes through the
SDK as it is.
"""

import functools
import os
from typing import Any

from .target import Target, note, target

_USUAL_TLS_PORT = 5671
_PARSER = "parse_received_message"


def apply() -> None:
    """Patch the SDK in this process, once."""
    from azure.servicebus import ServiceBusClient, aio
    from azure.servicebus.aio import management as aio_management
    from azure.servicebus.management import ServiceBusAdministrationClient

    for client in (ServiceBusClient, aio.ServiceBusClient):
        _patch_amqp_client(client)
    for client in (
        ServiceBusAdministrationClient,
        aio_management.ServiceBusAdministrationClient,
    ):
        _patch_administration_client(client)
    put_back()
    _patch_websockets()
    if target().has_tls and target().port != _USUAL_TLS_PORT:
        _patch_tls_port(target().port)
    if bundle := os.environ.get("SB_CA_BUNDLE"):
        _patch_certifi(bundle)


def _namespace(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The namespace, given by place or by name, and the arguments after it."""
    if args:
        return args[0], list(args[1:])
    return kwargs.pop("fully_qualified_namespace", None), []


def _patch_amqp_client(client: Any) -> None:
    original = client.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        namespace, rest = _namespace(args, kwargs)
        if namespace is None:
            original(self, *rest, **kwargs)
            return
        if target().is_meant_by(namespace):
            _lead_to(target(), kwargs)
        original(self, namespace, *rest, **kwargs)

    client.__init__ = __init__


def _lead_to(server: Target, kwargs: dict[str, Any]) -> None:
    """Change a client's arguments so that it reaches the server."""
    from azure.servicebus import TransportType

    if not server.has_tls:
        kwargs["use_tls"] = False
    if server.is_ws_only:
        kwargs["transport_type"] = TransportType.AmqpOverWebsocket
    if kwargs.get("transport_type") != TransportType.AmqpOverWebsocket:
        return
    if server.ws is None:
        kwargs["transport_type"] = TransportType.Amqp
        note("WebSocket replaced by AMQP: SB_WS_ENDPOINT is not set")
    else:
        kwargs["use_tls"] = server.ws.scheme == "wss"


def _patch_websockets() -> None:
    """The port: with the SDK's own argument for it, refused tokens and certificates
    raise other errors than without."""
    from azure.servicebus._pyamqp._transport import WebSocketTransport
    from azure.servicebus._pyamqp.aio._transport_async import WebSocketTransportAsync

    for transport in (WebSocketTransport, WebSocketTransportAsync):
        _patch_websocket_port(transport)


def _patch_websocket_port(transport: Any) -> None:
    original = transport.__init__

    @functools.wraps(original)
    def __init__(self: Any, host: str, *args: Any, **kwargs: Any) -> None:
        original(self, host, *args, **kwargs)
        name, _, path = host.partition("/")
        ws = target().ws
        if ws is not None and name == ws.hostname and not kwargs.get("custom_endpoint"):
            # Of the transport without and of the one with asyncio.
            self._host = f"{ws.netloc}/{path}"
            self.port = ws.port

    transport.__init__ = __init__


def _patch_administration_client(client: Any) -> None:
    original = client.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        namespace, rest = _namespace(args, kwargs)
        server = target()
        if not server.is_meant_by(namespace):
            original(self, namespace, *rest, **kwargs)
            return
        original(self, server.http.netloc, *rest, **kwargs)
        # Addresses of ForwardTo are made from it.
        self.fully_qualified_namespace = namespace
        if server.http.scheme == "http":
            self._impl._client._base_url = "http://{endpoint}"

    client.__init__ = __init__


def put_back() -> None:
    """Undo what a test did to the transports, which all tests of a process share."""
    for transport, original in _parsers():
        if original is not None:
            transport.parse_received_message = original
        elif _PARSER in vars(transport):
            delattr(transport, _PARSER)


@functools.cache
def _parsers() -> tuple[tuple[Any, Any], ...]:
    """The transports, with what each parses messages by before any test ran; None
    where that is inherited."""
    from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
    from azure.servicebus.aio._transport._pyamqp_transport_async import (
        PyamqpTransportAsync,
    )

    transports = (PyamqpTransport, PyamqpTransportAsync)
    return tuple((item, vars(item).get(_PARSER)) for item in transports)


def _patch_tls_port(port: int) -> None:
    from azure.servicebus._pyamqp import _connection
    from azure.servicebus._pyamqp.aio import _connection_async

    for module in (_connection, _connection_async):
        if hasattr(module, "SECURE_PORT"):
            module.SECURE_PORT = port


def _patch_certifi(bundle: str) -> None:
    import certifi

    certifi.where = lambda: bundle
