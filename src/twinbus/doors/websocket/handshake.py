"""The handshake: which request becomes a WebSocket, and what others are told.

A key is not part of it: like any AMQP connection, this one shows it inside, to `$cbs`
or by SASL, or is closed after a while.

Browsers let every page open a WebSocket to every address, and ask nobody before. No
page gets anything from that without a key, but keys of test machines are often well
known. So a request of a page (browsers, and they alone, must name its `Origin`) is
accepted from pages of the same host and port, and of those that are listed.
"""

import base64
import binascii
import hashlib
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response

PATH: Final = "$servicebus/websocket"

_SUBPROTOCOLS: Final = ("AMQPWSB10", "amqp")
"""The first is the service's; the second is that of the standard (AMQP WebSocket
Binding 1.0), which samples for Go use."""

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION: Final = "13"
_NONCE_BYTES: Final = 16

ANY_ORIGIN: Final = "*"
_PORTS: Final = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


def is_meant_by(request: HttpRequest) -> bool:
    """The request is for AMQP over WebSockets, or would like to be."""
    return request.path.lower() == PATH


def answer_to(request: HttpRequest, origins: Collection[str]) -> HttpResponse:
    """101 if the connection becomes a WebSocket now, otherwise why it does not."""
    headers = request.headers
    if request.method != "GET":
        return text_response(405, "A WebSocket begins with GET.")
    is_upgrade = "websocket" in _words(headers.get("upgrade", "").lower())
    if not is_upgrade or "upgrade" not in _words(headers.get("connection", "").lower()):
        text = "Here is AMQP over WebSockets: send Upgrade: websocket."
        return _with_headers(text_response(426, text), {"upgrade": "websocket"})
    if headers.get("sec-websocket-version") != _VERSION:
        text = f"Sec-WebSocket-Version has to be {_VERSION}."
        known = {"sec-websocket-version": _VERSION, "upgrade": "websocket"}
        return _with_headers(text_response(426, text), known)
    nonce = headers.get("sec-websocket-key", "")
    if not _is_nonce(nonce):
        return text_response(400, "Sec-WebSocket-Key has to be 16 bytes in Base64.")
    offered = _words(headers.get("sec-websocket-protocol", ""))
    chosen = [name for name in offered if name in _SUBPROTOCOLS]
    if not chosen:
        known_names = " or ".join(_SUBPROTOCOLS)
        return text_response(400, f"Sec-WebSocket-Protocol has to name {known_names}.")
    if _is_foreign(headers.get("origin"), headers.get("host", ""), origins):
        return text_response(403, _foreign(headers["origin"]))
    return HttpResponse(
        status=101,
        # Written as in the RFC: some clients compare letter by letter.
        headers={
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": _proof(nonce),
            "Sec-WebSocket-Protocol": chosen[0],
        },
    )


def _with_headers(response: HttpResponse, headers: dict[str, str]) -> HttpResponse:
    return HttpResponse(
        status=response.status,
        body=response.body,
        headers={**response.headers, **headers},
    )


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",")]


def _is_nonce(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _NONCE_BYTES
    except (binascii.Error, ValueError):
        return False


def _proof(nonce: str) -> str:
    """That the request was understood (RFC 6455 4.2.2)."""
    digest = hashlib.sha1(nonce.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def _is_foreign(origin: str | None, host: str, listed: Collection[str]) -> bool:
    """The request comes from a page of another place, which is not listed."""
    if origin is None or ANY_ORIGIN in listed:
        return False
    if origin.lower() in (one.lower().rstrip("/") for one in listed):
        return False
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return True
    usual = _PORTS.get(parts.scheme)
    if usual is None or not parts.netloc:
        return True
    return parts.netloc.removesuffix(usual) != host.lower().removesuffix(usual)


def _foreign(origin: str) -> str:
    return (
        f"A page of {origin[:200]} may not connect. Add it to websocket_origins "
        "(--websocket-origins) if it is yours."
    )
