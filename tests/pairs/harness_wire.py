"""The messages that clients sent through a proxy, for tests of the wire."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from wire.codec import Reader
from wire.frames import ATTACH, TRANSFER, parse_frame

from .harness_proxy import Proxy

_HEADER, _PROPERTIES, _BODIES = 0x70, 0x73, (0x75, 0x76, 0x77)
_TTL, _CONTENT_TYPE = 2, 6


class Said(NamedTuple):
    """A message that a client sent in one frame, and where to."""

    path: str
    content_type: str | None
    ttl_ms: int | None
    body: Any


def messages_said(proxy: Proxy) -> list[Said]:
    """Small messages to entities, in the order of each connection."""
    return [one for stream in list(proxy.requests) for one in _messages(bytes(stream))]


def _messages(stream: bytes) -> Iterator[Said]:
    targets: dict[int, str] = {}
    for raw in _frames(stream):
        if raw[5] != 0:
            continue
        frame = parse_frame(raw)
        if frame.code == ATTACH and not frame.role and frame.target is not None:
            targets[frame.handle] = str(frame.target.value[0])
        elif frame.code == TRANSFER and not frame.more:
            path = targets.get(frame.handle, "$cbs")
            if "$" not in path:
                yield _said(path, frame.payload)


def _frames(stream: bytes) -> Iterator[bytes]:
    while len(stream) >= 8:
        is_header = stream.startswith(b"AMQP")
        size = 8 if is_header else struct.unpack_from(">I", stream)[0]
        if len(stream) < size:
            return
        if not is_header:
            yield stream[:size]
        stream = stream[size:]


def _said(path: str, payload: bytes) -> Said:
    reader = Reader(payload)
    sections: dict[int, Any] = {}
    while not reader.at_end:
        section = reader.read()
        sections[int(section.descriptor)] = section.value
    body = next((sections[code] for code in _BODIES if code in sections), None)
    return Said(
        path.rpartition("/")[2] if "://" in path else path,
        _field(sections.get(_PROPERTIES), _CONTENT_TYPE),
        _field(sections.get(_HEADER), _TTL),
        body,
    )


def _field(fields: list[Any] | None, index: int) -> Any:
    return fields[index] if fields is not None and len(fields) > index else None
