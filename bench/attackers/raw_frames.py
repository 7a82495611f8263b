"""Builds AMQP frames by hand, for tests and benches that attack a bus.

Each function returns the bytes of a frame and keeps no state: credit, ids and handles
are what the caller gives. `performative` takes encoded fields, for values that no
encoder would write.
"""

import struct
from typing import Final

from twinbus.amqp.codec import encode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.framing import frame
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import Attach, Begin, Open
from twinbus.amqp.sasl import SaslInit, sasl_frame
from twinbus.amqp.types import Described, UInt, ULong

BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = 0x11, 0x12, 0x13, 0x14, 0x15
DETACH, END, CLOSE = 0x16, 0x17, 0x18

_LIST: Final = struct.Struct(">BII")
_LIST_32: Final = 0xD0
_NULL: Final = b"\x40"
_UNLIMITED: Final = 0xFFFFFFFF


def performative(
    code: int, fields: list[bytes], *, channel: int = 0, payload: bytes = b""
) -> bytes:
    """A performative with encoded fields; an empty one is null."""
    body = b"".join(field or _NULL for field in fields)
    head = _LIST.pack(_LIST_32, len(body) + 4, len(fields))
    return frame(channel, b"\x00\x53" + bytes((code,)) + head + body + payload)


def raw_frame(
    code: int, fields: list[object], *, channel: int = 0, payload: bytes = b""
) -> bytes:
    """A performative by its code and encodable fields."""
    return frame(channel, encode(Described(ULong(code), fields)) + payload)


def hello(
    key_name: str = "", key: str = "", *, container_id: str = "stranger"
) -> bytes:
    """SASL PLAIN (anonymous without a name), open and one session, in one piece,
    without waiting for answers."""
    if key_name:
        response = f"\0{key_name}\0{key}".encode()
        init = SaslInit(mechanism="PLAIN", initial_response=response)
    else:
        init = SaslInit(mechanism="ANONYMOUS")
    opening = frame(0, encode_composite(Open(container_id=container_id)))
    return SASL_HEADER + sasl_frame(init) + AMQP_HEADER + opening + begin_frame()


def begin_frame(channel: int = 0) -> bytes:
    """A session with windows that never close."""
    begin = Begin(
        next_outgoing_id=0, incoming_window=_UNLIMITED, outgoing_window=_UNLIMITED
    )
    return frame(channel, encode_composite(begin))


def attach_frame(
    address: str,
    *,
    handle: int = 0,
    is_receiver: bool = False,
    name: str | None = None,
    channel: int = 0,
    settle_mode: int = 0,
) -> bytes:
    attach = Attach(
        name=name or f"link-{channel}-{handle}",
        handle=handle,
        role=is_receiver,
        snd_settle_mode=settle_mode,
        source=Source(address=address),
        target=Target(address=address),
        initial_delivery_count=None if is_receiver else 0,
    )
    return frame(channel, encode_composite(attach))


def detach_frame(handle: int = 0, *, channel: int = 0) -> bytes:
    return raw_frame(DETACH, [UInt(handle), True], channel=channel)


def credit_frame(count: int, handle: int = 0) -> bytes:
    """A receiver's credit, with an unlimited window."""
    window = [UInt(0), UInt(_UNLIMITED), UInt(0), UInt(_UNLIMITED)]
    return raw_frame(FLOW, [*window, UInt(handle), UInt(0), UInt(count)])


def window_frame(size: int) -> bytes:
    """The window of a session that has received nothing yet."""
    return raw_frame(FLOW, [UInt(0), UInt(size), UInt(0), UInt(_UNLIMITED)])


def transfer_frame(
    delivery_id: int,
    payload: bytes,
    *,
    handle: int = 0,
    more: bool = False,
    settled: bool = False,
) -> bytes:
    """A delivery, or its first part, on channel 0."""
    tag = delivery_id.to_bytes(4, "big")
    fields: list[object] = [UInt(handle), UInt(delivery_id), tag, UInt(0)]
    return raw_frame(TRANSFER, [*fields, settled, more], payload=payload)


def more_frame(payload: bytes, *, handle: int = 0, last: bool = False) -> bytes:
    """A further frame of an unfinished delivery."""
    fields: list[object] = [UInt(handle), None, None, None, None, not last]
    return raw_frame(TRANSFER, fields, payload=payload)


def disposition_frame(first: int, last: int, outcome: int = 0x24) -> bytes:
    """A receiver's unsettled disposition."""
    state = Described(ULong(outcome), [])
    return raw_frame(DISPOSITION, [True, UInt(first), UInt(last), False, state])
