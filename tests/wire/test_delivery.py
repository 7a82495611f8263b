"""SB-W-5xx: deliveries from the bus: sections and types, credit, drain, frames."""

import uuid
from datetime import timedelta

import pytest

from .codec import (
    Array,
    Byte,
    Described,
    Double,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from .frames import ACCEPTED, TRANSFER, outcome
from .management import Management, uuids
from .message import (
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    SEQUENCE,
    VALUE,
    data_message,
    message,
    section,
    value_message,
)

EVERY_TYPE = {
    "null": None,
    "boolean": True,
    "ubyte": Ubyte(200),
    "ushort": Ushort(60_000),
    "uint": Uint(4_000_000_000),
    "ulong": Ulong(2**63),
    "byte": Byte(-100),
    "short": Short(-30_000),
    "int": Int(-2_000_000_000),
    "long": Long(-(2**62)),
    "float": Float(1.5),
    "double": Double(1e300),
    "timestamp": Timestamp(1_700_000_000_123),
    "uuid": uuid.UUID(int=2**127 + 5),
    "binary": b"\x00\xff",
    "string": "schön",
    "symbol": Symbol("sym"),
    "timespan": Described(Symbol("com.microsoft:timespan"), Long(36_000_000_000)),
    "offset": Described(Symbol("com.microsoft:datetime-offset"), Long(638_000_000)),
    "uri": Described(Symbol("com.microsoft:uri"), "http://host/path"),
}


def _receive(peer, queue, payload):
    peer.sender(queue).send(payload)
    (delivery,) = peer.receiver(queue).take()
    return delivery


def test_header_is_there_with_delivery_count_zero(peer, queue):
    """SB-W-501 a header on every delivery, sent or not; Java reads it blindly."""
    received = _receive(peer, queue, data_message("x")).message
    assert received.codes[0] == HEADER
    assert received.raw[:3] == b"\x00\x53\x70"
    assert received.header["delivery_count"] == 0
    assert received.header["ttl"] is None


def test_header_fields_are_kept(peer, queue):
    """SB-W-502 durable and priority as sent; the sender's count is not taken."""
    header = {"durable": True, "priority": Ubyte(9), "delivery_count": Uint(7)}
    received = _receive(peer, queue, data_message("x", header=header)).message
    assert received.header["durable"] is True
    assert received.header["priority"] == 9
    assert received.header["delivery_count"] == 0


def test_time_to_live_is_in_header_and_properties(peer, queue):
    """SB-W-503 finite ttl: uint in the header, absolute expiry = enqueued + ttl."""
    payload = data_message("x", header={"ttl": Uint(60_000)})
    received = _receive(peer, queue, payload).message
    assert received.header["ttl"] == 60_000
    assert type(received.header["ttl"]) is Uint
    expiry = received.properties["absolute_expiry_time"]
    assert type(expiry) is Timestamp
    enqueued = received.annotations[Symbol("x-opt-enqueued-time")]
    assert expiry == enqueued + 60_000


def test_annotations_have_the_right_types(bus, peer, queue):
    """SB-W-504 each annotation of the bus with its AMQP type, keys as symbols."""
    annotations = _receive(peer, queue, data_message("x")).message.annotations
    assert all(isinstance(key, Symbol) for key in annotations)
    types = {str(key): type(value) for key, value in annotations.items()}
    assert types["x-opt-sequence-number"] is Long
    assert types["x-opt-enqueued-time"] is Timestamp
    assert types["x-opt-locked-until"] is Timestamp
    if "x-opt-enqueue-sequence-number" in types:
        assert types["x-opt-enqueue-sequence-number"] is Long
    if "x-opt-message-state" in types:
        assert types["x-opt-message-state"] is Int
    assert "x-opt-lock-token" not in types
    until = annotations[Symbol("x-opt-locked-until")]
    now = int(bus.now().timestamp() * 1000)
    assert now < until <= now + timedelta(minutes=5) / timedelta(milliseconds=1)


def test_annotations_of_the_sender_are_kept_and_not_believed(peer, queue):
    """SB-W-505 foreign annotations stay; forged ones of the bus are replaced."""
    annotations = {
        "x-opt-partition-key": "pk",
        "x-opt-mine": Int(5),
        "x-opt-sequence-number": Long(4711),
        "x-opt-enqueued-time": Timestamp(1),
        "x-opt-locked-until": Timestamp(1),
    }
    received = _receive(peer, queue, data_message("x", annotations=annotations)).message
    assert received.annotations[Symbol("x-opt-partition-key")] == "pk"
    assert received.annotations[Symbol("x-opt-mine")] == 5
    assert type(received.annotations[Symbol("x-opt-mine")]) is Int
    assert received.sequence_number == 1
    assert received.annotations[Symbol("x-opt-enqueued-time")] > 1
    assert received.annotations[Symbol("x-opt-locked-until")] > 1


def test_sections_come_in_the_order_of_the_standard(peer, queue):
    """SB-W-506 header first, then annotations, properties, body, footer."""
    payload = data_message(
        "x",
        annotations={"x-opt-mine": "a"},
        properties={"message_id": "m"},
        application_properties={"k": "v"},
        footer={Symbol("f"): "v"},
    )
    codes = _receive(peer, queue, payload).message.codes
    assert codes == sorted(codes)
    assert codes.count(HEADER) == codes.count(MESSAGE_ANNOTATIONS) == 1


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_application_property_keeps_type_and_value(peer, queue, name):
    """SB-W-507 an application property of every type, described ones of .NET too."""
    value = EVERY_TYPE[name]
    payload = data_message("x", application_properties={name: value})
    seen = _receive(peer, queue, payload).message.application_properties[name]
    assert seen == value
    assert type(seen) is type(value)


@pytest.mark.parametrize(
    "message_id",
    ["text", uuid.UUID(int=3), Ulong(0), Ulong(2**63), b"\x00\xff", ""],
    ids=repr,
)
def test_ids_keep_their_type(peer, queue, message_id):
    """SB-W-508 message and correlation ids of type string, uuid, ulong, binary."""
    properties = {"message_id": message_id, "correlation_id": message_id}
    payload = data_message("x", properties=properties)
    received = _receive(peer, queue, payload).message
    for name in properties:
        assert received.properties[name] == message_id
        assert type(received.properties[name]) is type(message_id)


def test_all_properties_are_kept(peer, queue):
    """SB-W-509 every field of the properties section, with its type."""
    properties = {
        "message_id": "m",
        "user_id": b"u",
        "to": "t",
        "subject": "s",
        "reply_to": "r",
        "correlation_id": "c",
        "content_type": Symbol("text/plain"),
        "content_encoding": Symbol("gzip"),
        "creation_time": Timestamp(1_700_000_000_000),
        "group_id": "g",
        "group_sequence": Uint(9),
        "reply_to_group_id": "rg",
    }
    seen = _receive(peer, queue, data_message("x", properties=properties)).message
    for name, value in properties.items():
        assert seen.properties[name] == value
        assert type(seen.properties[name]) is type(value)


@pytest.mark.parametrize(
    ("code", "values"),
    [
        (DATA, [b""]),
        (DATA, [b"a", b"", b"c"]),
        (SEQUENCE, [[Int(1), "two"], [None, True]]),
        (VALUE, [None]),
        (VALUE, [Long(0)]),
        (VALUE, [False]),
        (VALUE, [{"map": [Int(1), {"deep": Symbol("er")}]}]),
        (VALUE, [Array(0x71, [Int(1), Int(2)])]),
        (VALUE, ["x" * 70_000]),
        (VALUE, [b"binary in a value"]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_body_sections_are_kept_as_they_are(peer, queue, code, values):
    """SB-W-510 data, sequence and value bodies, null and empty ones included."""
    payload = message(b"".join(section(code, value) for value in values))
    received = _receive(peer, queue, payload).message
    assert received.body == [(code, value) for value in values]
    assert [type(value) for _, value in received.body] == [type(v) for v in values]


def test_delivery_tag_is_the_lock_token_in_little_endian(peer, queue):
    """SB-W-511 the tag's 16 bytes are a .NET GUID; management takes it as uuid."""
    delivery = _receive(peer, queue, data_message("x"))
    assert len(delivery.tag) == 16
    token = uuid.UUID(bytes_le=delivery.tag)
    answer = Management(peer, queue).call("renew-lock", {"lock-tokens": uuids(token)})
    assert answer.status == 200


def test_receive_and_delete_transfers_are_settled(peer, queue):
    """SB-W-512 settled on the wire; no lock, no tag, no lock annotation."""
    sender = peer.sender(queue)
    for _ in range(3):
        sender.send(data_message("x"))
    deliveries = peer.destructive_receiver(queue).take(3)
    assert all(delivery.settled for delivery in deliveries)
    assert {delivery.tag for delivery in deliveries} == {b""}
    for delivery in deliveries:
        assert Symbol("x-opt-locked-until") not in delivery.message.annotations
    assert Management(peer, queue).peek_texts() == []


def test_disposition_of_a_settled_delivery_is_ignored(peer, queue):
    """SB-W-513 Java and .NET settle again what was received and deleted."""
    peer.sender(queue).send(data_message("x"))
    receiver = peer.destructive_receiver(queue)
    (delivery,) = receiver.take()
    receiver.settle(delivery.delivery_id, outcome(ACCEPTED), settled=True)
    peer.sender(queue).send(data_message("y"))
    (delivery,) = receiver.take()
    assert delivery.message.text == "y"


def test_no_delivery_without_credit(peer, queue):
    """SB-W-514 no credit, no transfer; then exactly as many as there is credit."""
    sender = peer.sender(queue)
    for number in range(5):
        sender.send(data_message(str(number)))
    receiver = peer.receiver(queue)
    peer.nothing_more(TRANSFER)
    assert [d.message.text for d in receiver.take(2)] == ["0", "1"]
    peer.nothing_more(TRANSFER)


def test_lowered_credit_is_honoured(peer, queue):
    """SB-W-515 credit set from 10 to 0 while nothing is there: nothing comes later."""
    receiver = peer.receiver(queue)
    receiver.flow(10)
    receiver.flow(0)
    # An answered request on the same session shows that the flows were read.
    Management(peer, queue).peek_texts()
    peer.sender(queue).send(data_message("x"))
    peer.nothing_more(TRANSFER)
    (delivery,) = receiver.take()
    assert delivery.message.text == "x"


def test_drain_delivers_what_is_there_and_ends_with_credit_zero(peer, queue):
    """SB-W-516 drain with 10 credits and 3 messages: 3 transfers, then the answer."""
    sender = peer.sender(queue)
    for number in range(3):
        sender.send(data_message(str(number)))
    receiver = peer.receiver(queue)
    receiver.flow(10, drain=True)
    assert [receiver.next().message.text for _ in range(3)] == ["0", "1", "2"]
    flow = receiver.drained()
    assert flow.delivery_count == 10
    peer.sender(queue).send(data_message("late"))
    peer.nothing_more(TRANSFER)


def test_drain_of_an_empty_queue_is_answered_at_once(peer, queue):
    """SB-W-517 nothing there: the credit is used up without a transfer."""
    receiver = peer.receiver(queue)
    receiver.flow(5, drain=True)
    assert receiver.drained().delivery_count == 5


def test_drain_without_credit_does_no_harm(peer, queue):
    """SB-W-518 Python drains with credit 0 when it closes."""
    receiver = peer.receiver(queue)
    receiver.flow(0, drain=True)
    peer.sender(queue).send(data_message("x"))
    (delivery,) = receiver.take()
    assert delivery.message.text == "x"


def test_large_message_is_cut_to_the_frame_size_of_the_client(connect, queue):
    """SB-W-519 a client with frames of 4 KB gets 100 KB in frames of 4 KB."""
    peer = connect(max_frame_size=4096)
    body = bytes(range(256)) * 400
    delivery = _receive(peer, queue, data_message(body))
    assert delivery.message.body == [(DATA, body)]
    assert delivery.frame_count >= len(body) // 4096


def test_value_message_is_delivered_to_two_links_by_turns(connect, queue):
    """SB-W-520 two connections with credit get different messages."""
    one, two = connect(), connect()
    sender = one.sender(queue)
    for number in range(2):
        sender.send(value_message(Int(number)))
    first = one.receiver(queue).take()[0].message
    second = two.receiver(queue).take()[0].message
    assert {first.only(VALUE), second.only(VALUE)} == {0, 1}
