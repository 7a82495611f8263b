"""The frames that open and close connections, sessions and links, as frozen values.

Open, Begin, Attach, Detach, End and Close use the generic codec. Flow, Transfer and
Disposition, one per message or batch, are in fastpath.py. All of them, and errors, are
written with all fields: Python's client up to 7.14 reads fields at fixed positions,
even if the list is shorter.
"""

from dataclasses import dataclass
from typing import Final

from twinbus.amqp.composite import (
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    MAP,
    STRING,
    SYMBOL,
    SYMBOLS,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    composite,
    descriptor_code,
    from_described,
)
from twinbus.amqp.decoder import decode, field_offsets
from twinbus.amqp.errors import AmqpError, DecodeError
from twinbus.amqp.types import Described, ULong

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

SENDER_UNSETTLED: Final = 0
SENDER_SETTLED: Final = 1
SENDER_MIXED: Final = 2
RECEIVER_FIRST: Final = 0
RECEIVER_SECOND: Final = 1

_UINT_MAX: Final = 0xFFFFFFFF

composite(
    0x1D,
    "amqp:error:list",
    keeps_nulls=True,
    condition=SYMBOL,
    description=STRING,
    info=FIELDS,
)(AmqpError)

_HOT_CODES: Final = {
    "amqp:flow:list": FLOW,
    "amqp:transfer:list": TRANSFER,
    "amqp:disposition:list": DISPOSITION,
}


@composite(
    OPEN,
    "amqp:open:list",
    keeps_nulls=True,
    container_id=STRING,
    hostname=STRING,
    max_frame_size=UINT,
    channel_max=USHORT,
    idle_time_out=UINT,
    outgoing_locales=SYMBOLS,
    incoming_locales=SYMBOLS,
    offered_capabilities=SYMBOLS,
    desired_capabilities=SYMBOLS,
    properties=FIELDS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    container_id: str
    hostname: str | None = None
    max_frame_size: int = _UINT_MAX
    channel_max: int = 65535
    idle_time_out: int | None = None
    outgoing_locales: tuple[str, ...] | None = None
    incoming_locales: tuple[str, ...] | None = None
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[object, object] | None = None


@composite(
    BEGIN,
    "amqp:begin:list",
    keeps_nulls=True,
    remote_channel=USHORT,
    next_outgoing_id=UINT,
    incoming_window=UINT,
    outgoing_window=UINT,
    handle_max=UINT,
    offered_capabilities=SYMBOLS,
    desired_capabilities=SYMBOLS,
    properties=FIELDS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = _UINT_MAX
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[object, object] | None = None


@composite(
    ATTACH,
    "amqp:attach:list",
    keeps_nulls=True,
    name=STRING,
    handle=UINT,
    role=BOOLEAN,
    snd_settle_mode=UBYTE,
    rcv_settle_mode=UBYTE,
    source=COMPOSITE,
    target=COMPOSITE,
    unsettled=MAP,
    incomplete_unsettled=BOOLEAN,
    initial_delivery_count=UINT,
    max_message_size=ULONG,
    offered_capabilities=SYMBOLS,
    desired_capabilities=SYMBOLS,
    properties=FIELDS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """`role` is True if the sender of the attach is the receiver of the link."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = SENDER_MIXED
    rcv_settle_mode: int = RECEIVER_FIRST
    source: object | None = None
    target: object | None = None
    unsettled: dict[object, object] | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] | None = None
    desired_capabilities: tuple[str, ...] | None = None
    properties: dict[object, object] | None = None


@composite(
    DETACH,
    "amqp:detach:list",
    keeps_nulls=True,
    handle=UINT,
    closed=BOOLEAN,
    error=COMPOSITE,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    handle: int
    closed: bool = False
    error: object | None = None


@composite(END, "amqp:end:list", keeps_nulls=True, error=COMPOSITE)
@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    error: object | None = None


@composite(CLOSE, "amqp:close:list", keeps_nulls=True, error=COMPOSITE)
@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    error: object | None = None


def read_descriptor(buf: bytes, at: int) -> tuple[int, int]:
    """Code of the performative at `at`; its descriptor may be a number or a symbol."""
    if at >= len(buf) or buf[at] != 0:
        raise DecodeError("a frame does not start with a performative")
    descriptor, at = decode(buf, at + 1)
    code = descriptor_code(descriptor)
    if code < 0:
        code = _HOT_CODES.get(str(descriptor), -1)
    if code < 0:
        raise DecodeError(f"unknown performative {descriptor!r}")
    return code, at


def decode_performative(code: int, body: bytes) -> object:
    """Decode a field list as the performative with this code."""
    fields, _ = decode(body, 0)
    return from_described(Described(ULong(code), fields))


def decode_attach(body: bytes) -> tuple[Attach, bytes, bytes]:
    """An attach and the bytes of its source and target, which a reply may echo."""
    attach = decode_performative(ATTACH, body)
    assert isinstance(attach, Attach)
    offsets = field_offsets(body, 0)
    return attach, _field(body, offsets, 5), _field(body, offsets, 6)


def _field(buf: bytes, offsets: list[int], index: int) -> bytes:
    if index + 1 >= len(offsets):
        return b"\x40"
    return buf[offsets[index] : offsets[index + 1]]


def error_of(value: object) -> AmqpError | None:
    """The error field of a detach, end or close, if it is valid."""
    return value if isinstance(value, AmqpError) else None
