"""Where a connection arrived, as far as that says which namespace is meant."""

import ssl
from dataclasses import dataclass
from typing import Any, Final, Protocol

_ASKED_NAME: Final = "twinbus_asked_name"
"""Attribute of a connection's TLS object: the name in SNI, which Python does not keep
on the side of the server."""

HTTP_HOST: Final = "http_host"
"""Extra information of a transport inside of a WebSocket: the header `Host`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedAt:
    """What is known before the client has sent anything of its protocol."""

    # The port of the listener; 0: not known.
    port: int = 0
    # Host names that the client asked for: in SNI, and over WebSockets in `Host`.
    hosts: tuple[str, ...] = ()


class Transport(Protocol):
    """The part of a transport that is needed here."""

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


def arrived_at(transport: Transport) -> ArrivedAt:
    """Of a connection that was just made."""
    own = transport.get_extra_info("sockname")
    tls = transport.get_extra_info("ssl_object")
    names = (getattr(tls, _ASKED_NAME, None), transport.get_extra_info(HTTP_HOST))
    port = own[1] if isinstance(own, tuple) and len(own) > 1 else 0
    return ArrivedAt(port=port, hosts=tuple(str(name) for name in names if name))


def note_names(context: ssl.SSLContext) -> None:
    """Keep the name in SNI of each connection of this context."""
    context.sni_callback = _note_name


def _note_name(tls: object, name: str | None, context: ssl.SSLContext) -> None:
    setattr(tls, _ASKED_NAME, name)
