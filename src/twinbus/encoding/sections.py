"""Finds the sections of an encoded message without decoding them.

A section is a described value. SDKs write its descriptor as `00 53 code`, and the
Python SDK reads no other form. If a sender used another valid form, the message is
rewritten once, on arrival, so that all other code finds the short form.
"""

from typing import Final

from twinbus.amqp.codec import decode, skip
from twinbus.amqp.errors import DecodeError
from twinbus.encoding.layout import DELIVERY_ANNOTATIONS, FOOTER, HEADER

_SYMBOLS: Final = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}


def section_code(raw: bytes, at: int) -> int:
    """Code of the section that starts at `at`, or 0 if it is not in short form."""
    if at + 3 >= len(raw) or raw[at] != 0 or raw[at + 1] != 0x53:
        return 0
    code = raw[at + 2]
    return code if HEADER <= code <= FOOTER else 0


def check_binary(raw: bytes, at: int) -> None:
    """Raises DecodeError if the value at `at` is not binary, as required for data."""
    if raw[at] != 0xA0 and raw[at] != 0xB0:
        raise DecodeError("a data section is not binary")


def canonical(raw: bytes) -> bytes:
    """The same message with all descriptors in short form, and delivery annotations in
    their place: the Python SDK puts them at the end.

    Raises DecodeError if the bytes are not a message.
    """
    parts: list[bytes] = []
    annotations_at = 0
    at = 0
    while at < len(raw):
        if raw[at] != 0:
            raise DecodeError("a message section has no descriptor")
        descriptor, value_at = decode(raw, at + 1)
        code = _SYMBOLS.get(descriptor) if isinstance(descriptor, str) else descriptor
        if not isinstance(code, int) or not HEADER <= code <= FOOTER:
            raise DecodeError("a message has a section that the standard does not know")
        end = skip(raw, value_at)
        section = bytes((0, 0x53, code)) + raw[value_at:end]
        if code == DELIVERY_ANNOTATIONS:
            parts.insert(annotations_at, section)
        else:
            parts.append(section)
        if code == HEADER:
            annotations_at = len(parts)
        at = end
    return b"".join(parts)


def find_sections(raw: bytes) -> dict[int, tuple[int, int]]:
    """Start and end of each section's value; for repeated body sections the start of
    the first and the end of the last."""
    found: dict[int, tuple[int, int]] = {}
    at = 0
    while at < len(raw):
        code = section_code(raw, at)
        if code == 0:
            raise DecodeError("a message section has no known descriptor")
        end = skip(raw, at + 3)
        start = found[code][0] if code in found else at + 3
        found[code] = (start, end)
        at = end
    return found
