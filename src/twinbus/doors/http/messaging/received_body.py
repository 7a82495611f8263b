"""The body of a received message as the body of a response.

| body of the message       | body of the response                 | `x-twinbus-body` |
|---------------------------|--------------------------------------|------------------|
| data                      | its bytes                            |                  |
| a value: text or bytes    | the text in UTF-8, or the bytes      | `value`          |
| another value             | JSON                                 | `value`          |
| sequences                 | a JSON array with all their items    | `sequence`       |
| what cannot be read       | the encoded body                     | `encoded`        |
| none                      | empty                                |                  |
"""

import json
from typing import NamedTuple

from twinbus.amqp.codec import decode
from twinbus.amqp.errors import DecodeError
from twinbus.doors.http.messaging.custom_headers import plain_value
from twinbus.encoding.layout import AMQP_SEQUENCE, AMQP_VALUE, DATA
from twinbus.encoding.sections import section_code


class ReceivedBody(NamedTuple):
    """The body of a response."""

    content: bytes
    # Empty for data.
    kind: str = ""
    # It was made JSON here.
    is_json: bool = False


def received_body(encoded: bytes, sections: dict[int, tuple[int, int]]) -> ReceivedBody:
    """`sections`: where the sections of the encoded message are."""
    if DATA in sections:
        return ReceivedBody(_data(encoded, *sections[DATA]))
    for code, kind in ((AMQP_VALUE, "value"), (AMQP_SEQUENCE, "sequence")):
        if code in sections:
            start, end = sections[code]
            try:
                return _decoded(encoded, start, end, kind)
            except (DecodeError, RecursionError):
                return ReceivedBody(encoded[start:end], "encoded")
    return ReceivedBody(b"")


def _data(encoded: bytes, start: int, end: int) -> bytes:
    """The bytes of all data sections."""
    parts: list[bytes] = []
    at = start
    while at < end:
        is_wide = encoded[at] == 0xB0
        first = at + (5 if is_wide else 2)
        size = int.from_bytes(encoded[at + 1 : first], "big")
        parts.append(encoded[first : first + size])
        # The next one follows after its descriptor.
        at = first + size + 3
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decoded(encoded: bytes, start: int, end: int, kind: str) -> ReceivedBody:
    """Raises DecodeError."""
    if kind == "value":
        value = decode(encoded, start)[0]
        if isinstance(value, str):
            return ReceivedBody(value.encode(), kind)
        if isinstance(value, bytes):
            return ReceivedBody(bytes(value), kind)
        return ReceivedBody(_json(value), kind, is_json=True)
    items: list[object] = []
    at = start
    while at < end:
        value, at = decode(encoded, at)
        items += value if isinstance(value, list) else [value]
        # The next one follows after its descriptor, if there is one.
        if at < end and section_code(encoded, at) == AMQP_SEQUENCE:
            at += 3
    return ReceivedBody(_json(items), kind, is_json=True)


def _json(value: object) -> bytes:
    return json.dumps(plain_value(value)).encode()
