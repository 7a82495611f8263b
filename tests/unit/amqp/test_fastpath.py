"""The hot frames agree with the generic codec, byte for byte and field for field."""

import pytest

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.errors import AmqpError, DecodeError
from twinbus.amqp.fastpath import (
    ABSENT,
    DispositionFields,
    FlowFields,
    TransferFields,
    decode_disposition,
    decode_flow,
    decode_transfer,
    encode_disposition,
    encode_flow,
)
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    Accepted,
    Modified,
    encode_rejected,
)
from twinbus.amqp.transactions import TransactionalState
from twinbus.amqp.types import Described, Symbol, UInt, ULong

WIDE_ACCEPTED = b"\x00\x80" + bytes(7) + b"\x24\xc0\x01\x00"


def transfer(fields: list[object], payload: bytes = b"") -> tuple[TransferFields, int]:
    data = encode(fields) + payload
    into = TransferFields()
    return into, decode_transfer(data, 0, len(data), into)


def test_a_short_transfer() -> None:
    fields, at = transfer([UInt(1), UInt(300), b"tag", UInt(0), True], b"payload")
    assert (fields.handle, fields.delivery_id, fields.delivery_tag) == (1, 300, b"tag")
    assert (fields.message_format, fields.settled, fields.more) == (0, True, False)
    assert at == len(encode([UInt(1), UInt(300), b"tag", UInt(0), True]))


def test_a_transfer_with_all_its_fields() -> None:
    state = Described(ULong(0x34), [b"txn", Described(ULong(0x24), [])])
    fields, _ = transfer(
        [UInt(0), UInt(1), b"", UInt(9), None, True, UInt(0), state, True, True, False]
    )
    assert fields.state == TransactionalState(txn_id=b"txn", outcome=Accepted())
    assert (fields.message_format, fields.settled) == (9, False)
    assert (fields.more, fields.aborted) == (True, True)


def test_a_continuation_has_only_a_handle() -> None:
    fields, _ = transfer([UInt(2)])
    assert fields.handle == 2
    assert (fields.delivery_id, fields.delivery_tag) == (ABSENT, None)


def test_booleans_may_be_written_with_a_byte() -> None:
    data = b"\xc0\x08\x05\x43\x43\xa0\x00\x43\x56\x01"
    into = TransferFields()
    assert decode_transfer(data, 0, len(data), into) == len(data)
    assert into.settled


def test_fields_of_the_frame_before_are_forgotten() -> None:
    into = TransferFields()
    state = Described(ULong(0x24), [])
    first = encode([UInt(0), UInt(1), b"t", UInt(5), True, True, None, state])
    decode_transfer(first, 0, len(first), into)
    second = encode([UInt(0)])
    decode_transfer(second, 0, len(second), into)
    assert (into.delivery_id, into.message_format) == (ABSENT, ABSENT)
    assert (into.settled, into.more, into.state) == (False, False, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x45",
        b"\x40",
        b"\xc0\x01\x00",
        b"\xc0\x03\x01\x43",
        encode(["handle"]),
        encode([UInt(0), "id"]),
        encode([UInt(0), UInt(0), "tag"]),
        encode([UInt(0), UInt(0), b"x" * 256]),
        encode([UInt(0), UInt(0), b"", UInt(0), UInt(0)]),
        encode([UInt(0)] + [None] * 11),
        b"\xc0\x03\x01\x43\x43",
        b"\xc0\x04\x02\x43\x70\x00",
        b"\xc0\x06\x03\x43\x43\xa0\xff\x00",
    ],
)
def test_malformed_transfers_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_transfer(data, 0, len(data), TransferFields())


def test_a_transfer_may_not_reach_into_the_next_frame() -> None:
    data = encode([UInt(0), UInt(1), b"tag"])
    with pytest.raises(DecodeError):
        decode_transfer(data + b"next frame", 0, len(data) - 1, TransferFields())


def disposition(fields: list[object]) -> DispositionFields:
    data = encode(fields)
    into = DispositionFields()
    decode_disposition(data, 0, len(data), into)
    return into


def test_dispositions_and_their_defaults() -> None:
    short = disposition([True, UInt(7)])
    assert (short.role_is_receiver, short.first, short.last) == (True, 7, 7)
    assert (short.settled, short.state) == (False, None)
    modified = Described(ULong(0x27), [True])
    full = disposition([False, UInt(1), UInt(2), True, modified, True])
    assert (full.first, full.last, full.settled) == (1, 2, True)
    assert full.state == Modified(delivery_failed=True)


@pytest.mark.parametrize("accepted", [ACCEPTED, b"\0\x53\x24\xc0\1\0", WIDE_ACCEPTED])
def test_accepted_is_one_shared_object(accepted: bytes) -> None:
    state, _ = decode(accepted, 0)
    into = disposition([True, UInt(7), None, True, state])
    assert into.state is ACCEPTED_OUTCOME
    body = b"\x41\x43\x40\x41" + accepted
    data = bytes((0xC0, len(body) + 1, 5)) + body
    decode_disposition(data, 0, len(data), into)
    assert into.state is ACCEPTED_OUTCOME


@pytest.mark.parametrize(
    "data",
    [
        encode([True]),
        encode([True, None]),
        encode([True, UInt(1), None, None, None, None, None]),
        encode([UInt(1), UInt(1)]),
        b"\xc0\x03\x02\x41\x70",
        b"\xc0\x04\x02\x41\x43\x43",
    ],
)
def test_malformed_dispositions_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_disposition(data, 0, len(data), DispositionFields())


@pytest.mark.parametrize(
    "state", [ACCEPTED, encode_rejected(AmqpError("a", "b" * 300))]
)
def test_a_written_disposition_reads_back(state: bytes) -> None:
    frame = encode_disposition(3, True, 5, 0xFFFFFFFF, True, state)
    assert int.from_bytes(frame[:4]) == len(frame)
    assert frame[4:11] == b"\x02\x00\x00\x03\x00\x53\x15"
    into = DispositionFields()
    decode_disposition(frame, 11, len(frame), into)
    assert (into.role_is_receiver, into.settled) == (True, True)
    assert (into.first, into.last) == (5, 0xFFFFFFFF)


def test_a_written_flow_reads_back() -> None:
    flow = FlowFields()
    flow.next_incoming_id, flow.incoming_window = 1, 5000
    flow.next_outgoing_id, flow.outgoing_window = 2, 0xFFFFFFFF
    flow.handle, flow.delivery_count, flow.link_credit = 7, 300, 1000
    flow.drain = True
    frame = encode_flow(1, flow)
    into = FlowFields()
    decode_flow(frame, 11, len(frame), into)
    assert (into.next_incoming_id, into.incoming_window) == (1, 5000)
    assert (into.handle, into.delivery_count, into.link_credit) == (7, 300, 1000)
    assert (into.available, into.drain, into.echo) == (ABSENT, True, False)


def test_a_flow_of_the_session_has_no_handle() -> None:
    flow = FlowFields()
    frame = encode_flow(1, flow)
    into = FlowFields()
    decode_flow(frame, 11, len(frame), into)
    assert (into.next_incoming_id, into.handle) == (ABSENT, ABSENT)


def test_a_flow_with_all_its_fields() -> None:
    numbers: list[object] = [UInt(n) for n in range(8)]
    data = encode([*numbers, True, True, {Symbol("p"): 1}])
    into = FlowFields()
    decode_flow(data, 0, len(data), into)
    assert (into.available, into.drain, into.echo) == (7, True, True)


@pytest.mark.parametrize(
    "data",
    [
        encode([UInt(1)] * 3),
        encode([None] * 4),
        encode([UInt(1)] * 12),
        encode([UInt(1)] * 8 + [UInt(1)]),
        b"\xc0\x05\x04\x43\x43\x43\x70",
        b"\xc0\x06\x04\x43\x43\x43\x43\x43",
    ],
)
def test_malformed_flows_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_flow(data, 0, len(data), FlowFields())
