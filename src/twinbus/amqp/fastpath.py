"""Transfer, disposition and flow: decoded from and encoded to bytes directly.

These frames come once per message or batch. They are decoded into objects that are
reused for the next frame, without a list of fields in between. Rare parts, such as the
state of a transaction, use the generic codec.

Fields are read without checking the length first. An IndexError or struct.error means
that a field ends after the buffer; each decoder turns it into a DecodeError.
"""

import struct
from typing import Final, final

from twinbus.amqp.decoder import list_header, skip
from twinbus.amqp.encoder import NULL, encode_list, encode_uint
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.framing import FRAME_HEADER
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME, decode_state

# The value of a uint field that is null.
ABSENT: Final = -1

_U32: Final = struct.Struct(">I")
_TRUE: Final = b"\x41"
_FALSE: Final = b"\x42"
_TOO_SHORT: Final = "a frame ends inside its performative"


@final
class TransferFields:
    """The fields of one transfer; ABSENT or None if the peer did not set them."""

    def __init__(self) -> None:
        self.handle: int = ABSENT
        self.delivery_id: int = ABSENT
        self.delivery_tag: bytes | None = None
        self.message_format: int = ABSENT
        self.settled: bool = False
        self.more: bool = False
        self.aborted: bool = False
        self.state: object = None


@final
class DispositionFields:
    def __init__(self) -> None:
        self.role_is_receiver: bool = False
        self.first: int = 0
        self.last: int = 0
        self.settled: bool = False
        self.state: object = None


@final
class FlowFields:
    def __init__(self) -> None:
        self.next_incoming_id: int = ABSENT
        self.incoming_window: int = 0
        self.next_outgoing_id: int = 0
        self.outgoing_window: int = 0
        self.handle: int = ABSENT
        self.delivery_count: int = ABSENT
        self.link_credit: int = ABSENT
        self.available: int = ABSENT
        self.drain: bool = False
        self.echo: bool = False


def decode_transfer(buf: bytes, at: int, end: int, into: TransferFields) -> int:
    """Decode the field list at `at`; return where the payload starts."""
    into.delivery_id = ABSENT
    into.delivery_tag = None
    into.message_format = ABSENT
    into.settled = into.more = into.aborted = False
    into.state = None
    try:
        if buf[at] == 0xC0:
            fields_end = at + 2 + buf[at + 1]
            count = buf[at + 2]
            at += 3
        else:
            count, at, fields_end = list_header(buf, at)
        if fields_end > end or count == 0:
            raise DecodeError(_TOO_SHORT)
        if buf[at] == 0x52:
            into.handle = buf[at + 1]
            at += 2
        else:
            into.handle, at = _read_uint(buf, at)
        if count > 1:
            if buf[at] == 0x70:
                into.delivery_id = _U32.unpack_from(buf, at + 1)[0]
                at += 5
            else:
                into.delivery_id, at = _read_uint(buf, at)
        if count > 2:
            if buf[at] == 0xA0:
                start = at + 2
                at = start + buf[at + 1]
                into.delivery_tag = buf[start:at]
            else:
                at = _skip_null_tag(buf, at)
        if count > 3:
            into.message_format, at = _read_uint(buf, at)
        if count > 4:
            into.settled, at = _read_bool(buf, at)
        if count > 5:
            at = _decode_transfer_rest(buf, at, count, into)
    except (IndexError, struct.error):
        raise DecodeError(_TOO_SHORT) from None
    if at != fields_end:
        raise DecodeError("a transfer's size does not match its fields")
    return at


def _skip_null_tag(buf: bytes, at: int) -> int:
    if buf[at] != 0x40:
        raise DecodeError("a delivery-tag is not a binary of up to 32 bytes")
    return at + 1


def _decode_transfer_rest(buf: bytes, at: int, count: int, into: TransferFields) -> int:
    """The fields from `more` on; they are null or left out most of the time."""
    into.more, at = _read_bool(buf, at)
    if count > 6:
        at = skip(buf, at)
    if count > 7:
        into.state, at = _read_state(buf, at)
    if count > 8:
        at = skip(buf, at)
    if count > 9:
        into.aborted, at = _read_bool(buf, at)
    if count > 10:
        at = skip(buf, at)
    if count > 11:
        raise DecodeError("a transfer has too many fields")
    return at


def decode_disposition(buf: bytes, at: int, end: int, into: DispositionFields) -> None:
    try:
        _decode_disposition(buf, at, end, into)
    except (IndexError, struct.error):
        raise DecodeError(_TOO_SHORT) from None


def _decode_disposition(buf: bytes, at: int, end: int, into: DispositionFields) -> None:
    count, at, fields_end = list_header(buf, at)
    if fields_end > end or count < 2 or count > 6:
        raise DecodeError("a disposition has the wrong number of fields")
    into.role_is_receiver, at = _read_bool(buf, at)
    into.first, at = _read_uint(buf, at)
    if into.first < 0:
        raise DecodeError("a disposition has no first delivery")
    into.last = into.first
    into.settled = False
    into.state = None
    if count > 2:
        last, at = _read_uint(buf, at)
        if last >= 0:
            into.last = last
    if count > 3:
        into.settled, at = _read_bool(buf, at)
    if count > 4:
        into.state, at = _read_state(buf, at)
    if count > 5:
        at = skip(buf, at)
    if at != fields_end:
        raise DecodeError("a disposition's size does not match its fields")


def decode_flow(buf: bytes, at: int, end: int, into: FlowFields) -> None:
    try:
        _decode_flow(buf, at, end, into)
    except (IndexError, struct.error):
        raise DecodeError(_TOO_SHORT) from None


def _decode_flow(buf: bytes, at: int, end: int, into: FlowFields) -> None:
    count, at, fields_end = list_header(buf, at)
    if fields_end > end or count < 4 or count > 11:
        raise DecodeError("a flow has the wrong number of fields")
    into.next_incoming_id, at = _read_uint(buf, at)
    into.incoming_window, at = _read_uint(buf, at)
    into.next_outgoing_id, at = _read_uint(buf, at)
    into.outgoing_window, at = _read_uint(buf, at)
    if min(into.incoming_window, into.next_outgoing_id, into.outgoing_window) < 0:
        raise DecodeError("a flow lacks a mandatory field")
    into.handle = into.delivery_count = into.link_credit = into.available = ABSENT
    into.drain = into.echo = False
    if count > 4:
        into.handle, at = _read_uint(buf, at)
    if count > 5:
        into.delivery_count, at = _read_uint(buf, at)
    if count > 6:
        into.link_credit, at = _read_uint(buf, at)
    if count > 7:
        into.available, at = _read_uint(buf, at)
    if count > 8:
        into.drain, at = _read_bool(buf, at)
    if count > 9:
        into.echo, at = _read_bool(buf, at)
    if count > 10:
        at = skip(buf, at)
    if at != fields_end:
        raise DecodeError("a flow's size does not match its fields")


def _read_uint(buf: bytes, at: int) -> tuple[int, int]:
    code = buf[at]
    if code == 0x43:
        return 0, at + 1
    if code == 0x52:
        return buf[at + 1], at + 2
    if code == 0x70:
        value: int = _U32.unpack_from(buf, at + 1)[0]
        return value, at + 5
    if code == 0x40:
        return ABSENT, at + 1
    raise DecodeError(f"a uint was expected, not constructor {code:#04x}")


def _read_bool(buf: bytes, at: int) -> tuple[bool, int]:
    """A boolean; its default is false, as for all booleans in these frames."""
    code = buf[at]
    if code == 0x41:
        return True, at + 1
    if code == 0x42 or code == 0x40:
        return False, at + 1
    if code == 0x56:
        return buf[at + 1] == 1, at + 2
    raise DecodeError(f"a boolean was expected, not constructor {code:#04x}")


def _read_state(buf: bytes, at: int) -> tuple[object, int]:
    if buf[at] == 0x40:
        return None, at + 1
    if buf[at] == 0 and buf[at + 1] == 0x53 and buf[at + 2] == 0x24:
        at += 3
        return ACCEPTED_OUTCOME, (at + 1 if buf[at] == 0x45 else skip(buf, at))
    state, at = decode_state(buf, at)
    return (ACCEPTED_OUTCOME if state == ACCEPTED_OUTCOME else state), at


_DISPOSITION_HEAD: Final = struct.Struct(">IHH3sBBBBBIBIB")


def encode_disposition(
    channel: int,
    role_is_receiver: bool,
    first: int,
    last: int,
    settled: bool,
    state: bytes,
) -> bytes:
    """A whole disposition frame; `state` is already encoded."""
    body_size = 14 + len(state)
    if body_size > 255:
        return _encode_long_disposition(
            channel, role_is_receiver, first, last, settled, state
        )
    head = _DISPOSITION_HEAD.pack(
        body_size + 13,
        0x0200,
        channel,
        b"\x00\x53\x15",
        0xC0,
        body_size,
        6,
        0x41 if role_is_receiver else 0x42,
        0x70,
        first,
        0x70,
        last,
        0x41 if settled else 0x42,
    )
    return head + state + NULL


def _encode_long_disposition(
    channel: int,
    role_is_receiver: bool,
    first: int,
    last: int,
    settled: bool,
    state: bytes,
) -> bytes:
    fields = [
        _TRUE if role_is_receiver else _FALSE,
        encode_uint(first),
        encode_uint(last),
        _TRUE if settled else _FALSE,
        state,
        NULL,
    ]
    return _performative(channel, b"\x00\x53\x15", fields)


def encode_flow(channel: int, fields: FlowFields) -> bytes:
    """A whole flow frame."""
    items = [
        _optional(fields.next_incoming_id),
        encode_uint(fields.incoming_window),
        encode_uint(fields.next_outgoing_id),
        encode_uint(fields.outgoing_window),
    ]
    if fields.handle != ABSENT:
        items += [
            encode_uint(fields.handle),
            _optional(fields.delivery_count),
            _optional(fields.link_credit),
            _optional(fields.available),
            _TRUE if fields.drain else _FALSE,
            NULL,
            NULL,
        ]
    else:
        items += [NULL] * 7
    return _performative(channel, b"\x00\x53\x13", items)


def _optional(value: int) -> bytes:
    return NULL if value == ABSENT else encode_uint(value)


def _performative(channel: int, descriptor: bytes, fields: list[bytes]) -> bytes:
    body = descriptor + encode_list(fields)
    return FRAME_HEADER.pack(len(body) + 8, 2, 0, channel) + body
