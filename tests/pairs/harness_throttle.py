"""Makes an entity that refuses sends look throttled.

The server really refuses (the entity is set to `SendDisabled`), so nothing is accepted;
on the way to the client the condition becomes server-busy. Other entities and errors
are not changed.
"""

import struct
from typing import Any

from wire.codec import Described, Symbol, Ulong, encode
from wire.frames import DETACH, DISPOSITION, Frame, parse_frame

BUSY = "com.microsoft:server-busy"
_DISABLED = b"com.microsoft:entity-disabled"


def throttled(frame: bytes) -> bytes:
    """The frame, with a refusal of a disabled entity said as server-busy."""
    if _DISABLED not in frame:
        return frame
    parsed = parse_frame(frame)
    if parsed.code not in (DISPOSITION, DETACH):
        return frame
    return _frame(parsed, [_as_busy(value) for value in parsed.values])


def _as_busy(value: Any) -> Any:
    if isinstance(value, Described):
        return Described(value.descriptor, _as_busy(value.value))
    if isinstance(value, list):
        return [_as_busy(item) for item in value]
    if isinstance(value, Symbol) and value.encode() == _DISABLED:
        return Symbol(BUSY)
    return value


def _frame(parsed: Frame, values: list[Any]) -> bytes:
    body = encode(Described(Ulong(parsed.code), values)) + parsed.payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, parsed.channel) + body
