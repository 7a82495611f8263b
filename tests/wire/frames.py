"""Frames in the wire tests: codes, field names, errors, outcomes."""

import struct
from typing import Any, NamedTuple

from .codec import Described, Reader, Symbol, Ulong

OPEN, BEGIN, ATTACH, FLOW, TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
DISPOSITION, DETACH, END, CLOSE = 0x15, 0x16, 0x17, 0x18
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
EMPTY = 0
SASL_HEADER, AMQP_HEADER = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
ACCEPTED, REJECTED, RELEASED, MODIFIED = 0x24, 0x25, 0x26, 0x27
UNSETTLED, SETTLED, FIRST, SECOND = 0, 1, 0, 1
SENDER, RECEIVER = False, True

FIELDS = {
    OPEN: "container_id hostname max_frame_size channel_max idle_time_out"
    " outgoing_locales incoming_locales offered_capabilities desired_capabilities"
    " properties",
    BEGIN: "remote_channel next_outgoing_id incoming_window outgoing_window handle_max"
    " offered_capabilities desired_capabilities properties",
    ATTACH: "name handle role snd_settle_mode rcv_settle_mode source target unsettled "
    "incomplete_unsettled initial_delivery_count max_message_size "
    "offered_capabilities desired_capabilities properties",
    FLOW: "next_incoming_id incoming_window next_outgoing_id outgoing_window handle "
    "delivery_count link_credit available drain echo properties",
    TRANSFER: "handle delivery_id delivery_tag message_format settled more "
    "rcv_settle_mode state resume aborted batchable",
    DISPOSITION: "role first last settled state batchable",
    DETACH: "handle closed error",
    END: "error",
    CLOSE: "error",
    SASL_MECHANISMS: "mechanisms",
    SASL_INIT: "mechanism initial_response hostname",
    SASL_OUTCOME: "code additional_data",
}


class Frame(NamedTuple):
    """A received frame; fields by name, absent ones None."""

    code: int
    channel: int
    fields: dict[str, Any]
    payload: bytes
    values: list[Any]

    def __getattr__(self, name: str) -> Any:
        return self.fields.get(name)


class AmqpError(NamedTuple):
    """Condition, description and info of an error."""

    condition: str
    description: str | None
    info: Any


class LinkRefused(Exception):
    """The bus attached with null termini and detached with an error."""

    def __init__(self, attach: Frame, detach: Frame) -> None:
        self.attach, self.detach = attach, detach
        self.error = error_of(detach.error)
        super().__init__(str(self.error))


def error_of(value: Any) -> AmqpError | None:
    """A described error; it has to have all three fields and a symbol."""
    if value is None:
        return None
    assert (value.descriptor, len(value.value)) == (0x1D, 3), value
    assert isinstance(value.value[0], Symbol)
    return AmqpError(*value.value)


def outcome(code: int, *fields: Any) -> Described:
    """A delivery state."""
    return Described(Ulong(code), list(fields))


def terminus(code: int, address: str | None) -> Described:
    """A source (0x28) or target (0x29) with an address and nothing else."""
    return Described(Ulong(code), [address])


def parse_frame(raw: bytes) -> Frame:
    """The frame that the bytes hold, header included."""
    doff, _, channel = struct.unpack(">BBH", raw[4:8])
    body = raw[doff * 4 :]
    if not body:
        return Frame(EMPTY, channel, {}, b"", [])
    # pyamqp reads the third byte as the code without looking at the first two.
    assert body[:2] == b"\x00\x53", "a performative's descriptor is a small ulong"
    reader = Reader(body)
    descriptor, values = reader.read()
    names = FIELDS[int(descriptor)].split()
    # pyamqp up to 7.14 looks for fields at fixed places: none may be left out.
    assert len(values) == len(names), f"{int(descriptor):#04x} lacks fields: {values}"
    fields = dict(zip(names, values, strict=False))
    if "code" in fields:
        fields["code_field"] = fields.pop("code")
    return Frame(int(descriptor), channel, fields, reader.rest(), values)
