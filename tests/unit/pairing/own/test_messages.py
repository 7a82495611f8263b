"""Messages as bytes: parsed on arrival, restored as they were before their detour."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import (
    Byte,
    Char,
    Decimal64,
    Described,
    Float32,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from twinbus.encoding.batch import read_batch
from twinbus.pairing.detour import (
    KEY_ADDED,
    PARTITION_KEY,
    PATH,
    RESTORED_FROM,
    SCHEDULED,
    SEND_ID,
    SESSION_ID,
    TIME_TO_LIVE,
    Detour,
    diverted_properties,
)
from twinbus.pairing.own.messages import (
    OwnMessage,
    envelope,
    is_deferred,
    read_payload,
    restored,
)

NOW = 1_700_000_000_000
BUS: dict[object, object] = {
    Symbol("x-opt-sequence-number"): 7,
    Symbol("x-opt-enqueued-time"): Timestamp(NOW),
    Symbol("x-opt-locked-until"): Timestamp(NOW + 60_000),
}

VALUES = st.one_of(
    st.text(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-128, 127).map(Byte),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(Float32),
    st.binary(),
    st.uuids(),
    st.none(),
    st.integers(-(2**62), 2**62).map(Timestamp),
    st.binary(min_size=8, max_size=8).map(Decimal64),
)
NAMES = st.one_of(
    st.text(min_size=1, max_size=10),
    st.sampled_from((PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED)),
    st.sampled_from((PATH, SESSION_ID)).map(lambda name: f"x-twinbus-own-{name}"),
)


def arrived(message: Message, detour: Detour) -> OwnMessage:
    """The message after its way through a backlog queue."""
    own = {str(name): value for name, value in _own(message).items()}
    diverted = diverted_properties(own, detour)
    if detour.scheduled_at is not None:
        diverted[SCHEDULED] = Timestamp(detour.scheduled_at)
    annotations = {**BUS, **(message.message_annotations or {})}
    header = message.header or Header()
    found = read_payload(
        encode_message(
            replace(
                message,
                header=replace(header, ttl=None, delivery_count=3),
                message_annotations=annotations,
                application_properties={**diverted},
            )
        )
    )
    found.restored_from = "7@1@site-b/queue"
    return found


def _own(message: Message) -> dict[object, object]:
    return message.application_properties or {}


def back(message: Message, detour: Detour) -> Message:
    return decode_message(restored(arrived(message, detour), NOW))


def test_all_that_a_detour_took_comes_back() -> None:
    detour = Detour(
        path="orders",
        session_id="s",
        time_to_live_ms=5_000,
        scheduled_at=NOW + 1,
    )
    sent = Message(
        header=Header(durable=True, priority=9),
        message_annotations={
            Symbol(SEND_ID): b"\x01",
            Symbol("x-opt-partition-key"): "s",
        },
        properties=Properties(message_id=UUID(int=1), subject="subject"),
        application_properties={"a": Char("x")},
        body=Data((b"one", b"two")),
    )
    found = back(sent, detour)
    assert found.header == Header(durable=True, priority=9, ttl=5_000)
    assert found.properties == replace(sent.properties, group_id="s")
    assert found.application_properties == {"a": "x"}
    assert found.body == sent.body
    assert found.message_annotations == {
        SEND_ID: b"\x01",
        "x-opt-partition-key": "s",
        RESTORED_FROM: "7@1@site-b/queue",
        "x-opt-scheduled-enqueue-time": NOW + 1,
    }


def test_partition_key_of_the_detour_is_removed() -> None:
    sent = Message(
        message_annotations={
            Symbol(PARTITION_KEY): "s",
            Symbol(KEY_ADDED): True,
            Symbol("x-opt-own"): 1,
        },
        body=Data((b"one",)),
    )
    found = back(sent, Detour(path="orders", session_id="s"))
    annotations = found.message_annotations
    assert annotations == {"x-opt-own": 1, RESTORED_FROM: "7@1@site-b/queue"}


def test_what_was_not_there_is_not_there_afterwards() -> None:
    found = back(Message(body=AmqpValue(None)), Detour(path="orders"))
    assert found.header == Header()
    assert found.properties is None
    assert found.application_properties is None
    assert found.message_annotations == {RESTORED_FROM: "7@1@site-b/queue"}
    assert found.body == AmqpValue(None)


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.binary())
def test_application_properties_keep_their_values_and_types(
    own: dict[object, object], body: bytes
) -> None:
    found = back(
        Message(application_properties=own, body=Data((body,))), Detour(path="orders")
    )
    assert _types(found.application_properties or {}) == _types(own)
    assert found.body == Data((body,))


def _types(values: dict[object, object]) -> dict[object, bytes]:
    return {str(name): encode(value) for name, value in values.items()}


def test_a_life_longer_than_a_header_can_say_is_told_by_two_times() -> None:
    year_ms = 365 * 86_400_000
    found = back(Message(), Detour(path="orders", time_to_live_ms=year_ms))
    assert found.header == Header(ttl=2**32 - 1)
    assert found.properties is not None
    assert found.properties.creation_time == NOW
    assert found.properties.absolute_expiry_time == NOW + year_ms


def test_a_timespan_of_dot_net_is_a_time_to_live() -> None:
    timespan = Described(Symbol("com.microsoft:timespan"), 30 * 10_000_000)
    message = read_payload(
        encode_message(
            Message(
                message_annotations=BUS,
                application_properties={PATH: "orders", TIME_TO_LIVE: timespan},
            )
        )
    )
    assert message.detour == Detour(path="orders", time_to_live_ms=30_000)


def test_a_message_without_a_path_says_so() -> None:
    message = read_payload(encode_message(Message(message_annotations=BUS)))
    assert message.fault is not None
    assert message.fault.reason == "MissingPath"
    assert (message.sequence_number, message.enqueued_at) == (7, NOW)


def test_what_is_no_message_of_a_bus_is_an_error() -> None:
    with pytest.raises(DecodeError):
        read_payload(encode_message(Message(body=Data((b"",)))))


@pytest.mark.parametrize(("state", "is_so"), [(0, False), (1, True), (2, False)])
def test_deferred_messages_are_told_by_their_state(state: int, is_so: bool) -> None:
    annotations = {**BUS, Symbol("x-opt-message-state"): Int(state)}
    # A body that looks like it.
    body = Data((b"x-opt-message-state" + encode(Int(1)),))
    payload = encode_message(Message(message_annotations=annotations, body=body))
    assert is_deferred(payload) is is_so
    assert read_payload(payload).is_deferred is is_so


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=5))
def test_an_envelope_is_read_as_its_messages(bodies: list[bytes]) -> None:
    encoded = [encode_message(Message(body=Data((body,)))) for body in bodies]
    found = read_batch(b"".join(map(envelope, encoded)))
    assert [message.raw for message in found] == encoded


def test_values_of_the_application_are_not_looked_at() -> None:
    sent = Message(
        message_annotations=BUS,
        application_properties={PATH: "orders", "own": "##"},
        body=Data((b"x",)),
    )
    # Some clients send bytes as a text, whatever they are.
    payload = encode_message(sent).replace(b"##", b"\xff\x00")
    message = read_payload(payload)
    assert message.detour == Detour(path="orders")
    message.restored_from = "7@1@south/queue"
    assert b"\xa1\x02\xff\x00" in restored(message, NOW)
