"""Batches: one transfer whose body holds many encoded messages.

The envelope (message format 0x80013700) is an AMQP message with one data section for
each message. Its other sections are copies for routing, and not part of any message.
"""

from collections.abc import Sequence
from typing import Final

from twinbus.amqp.codec import skip
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Message
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import DATA
from twinbus.encoding.sections import check_binary, section_code
from twinbus.errors import ArgumentError
from twinbus.limits import PROPERTIES_BYTES

BATCH_FORMAT: Final = 0x80013700

_DATA_SECTION: Final = b"\x00\x53\x75\xb0"
"""The descriptor of a data section, and the code of binary with a size of 4 bytes."""


def read_batch(
    raw: bytes, offered: int = 0, properties_bytes: int = PROPERTIES_BYTES
) -> list[Message]:
    """The messages of an envelope, in order, each read by `read_message`. Raises
    ArgumentError, MessageSizeExceeded."""
    try:
        encoded = _data_sections(raw)
    except DecodeError as error:
        raise ArgumentError(f"The batch is malformed: {error}.") from None
    if not encoded:
        raise ArgumentError("The batch has no messages in it.")
    return [read_message(one, offered, properties_bytes) for one in encoded]


def data_bytes(raw: bytes) -> int:
    """The size of a valid envelope without its other sections."""
    found = at = 0
    while at < len(raw):
        end = skip(raw, at + 3)
        if section_code(raw, at) == DATA:
            found += end - at
        at = end
    return found


def encode_batch(encoded: Sequence[bytes]) -> bytes:
    """The envelope of these messages."""
    parts: list[bytes] = []
    for raw in encoded:
        parts.append(_DATA_SECTION + len(raw).to_bytes(4, "big"))
        parts.append(raw)
    return b"".join(parts)


def _data_sections(raw: bytes) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    while at < len(raw):
        code = section_code(raw, at)
        if code == 0:
            raise DecodeError("a section of the envelope has no known descriptor")
        end = skip(raw, at + 3)
        if code == DATA:
            check_binary(raw, at + 3)
            wide = raw[at + 3] == 0xB0
            found.append(raw[at + (8 if wide else 5) : end])
        at = end
    return found
