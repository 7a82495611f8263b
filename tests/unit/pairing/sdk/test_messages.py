"""Copies, stamps and diversions of the SDK's messages.

For an application, a restored message must be the same as the one that the SDK would
have sent: both are encoded by the SDK, the diverted one is restored by our engine, and
both are decoded by the SDK.
"""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.types import Long, Symbol, Timestamp
from twinbus.encoding.maps import changed_map
from twinbus.encoding.sections import find_sections
from twinbus.pairing.detour import (
    KEY_ADDED,
    OWN_PREFIX,
    PATH,
    RESTORED_FROM,
    SCHEDULED,
    SEND_ID,
    SESSION_ID,
    TIME_TO_LIVE,
    Detour,
)
from twinbus.pairing.own.messages import read_payload, restored
from twinbus.pairing.sdk.messages import (
    detour_of,
    divert,
    outgoing_copy,
    send_id_of,
    stamp,
)
from twinbus.sdk_internals.messages import as_messages

DUE = datetime(2030, 5, 17, 12, 30, 15, 250_000, tzinfo=UTC)
DUE_MS = 1_905_251_415_250
ANNOTATIONS_SECTION = 0x72


# --- what is seen of a message ------------------------------------------------------


def encoded(message: ServiceBusMessage) -> bytes:
    [outgoing] = as_messages(message)
    return bytes(PyamqpTransport.encode_message(outgoing))


def decoded(payload: bytes) -> AmqpAnnotatedMessage:
    return AmqpAnnotatedMessage(message=decode_payload(memoryview(payload)))


def in_backlog(payload: bytes) -> bytes:
    """As a backlog queue delivers it: with a number and a time."""
    start, end = find_sections(payload)[ANNOTATIONS_SECTION]
    own = {
        encode(Symbol("x-opt-sequence-number")): encode(Long(7)),
        encode(Symbol("x-opt-enqueued-time")): encode(Timestamp(1)),
    }
    annotations = changed_map(payload[start:end], frozenset(), own)
    return payload[:start] + annotations + payload[end:]


def after_a_detour(message: ServiceBusMessage, path: str = "orders") -> bytes:
    """Diverted, received by the syphon, restored."""
    received = read_payload(in_backlog(encoded(divert(message, path))))
    assert received.fault is None
    return restored(received, now=0)


def seen(payload: bytes) -> dict[str, Any]:
    """Everything that an application can see, but what says when it was made."""
    raw = decoded(payload)
    properties = dict(raw.properties or {})
    # The SDK writes these anew whenever it sends a message that expires.
    for name in ("creation_time", "absolute_expiry_time"):
        properties.pop(name, None)
    annotations = dict(raw.annotations or {})
    annotations.pop(RESTORED_FROM.encode(), None)
    header = dict(raw.header or {})
    is_value = raw.body_type is AmqpMessageBodyType.VALUE
    return {
        "body": raw.body if is_value else list(raw.body),
        "body_type": raw.body_type,
        "time_to_live": header.get("time_to_live"),
        "priority": header.get("priority"),
        "properties": {k: v for k, v in properties.items() if v is not None},
        "annotations": annotations,
        "application_properties": raw.application_properties or {},
        "footer": raw.footer,
    }


# --- the property -------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = texts.filter(bool) | st.sampled_from(
    [PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED, OWN_PREFIX + PATH, OWN_PREFIX]
)
values = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(allow_nan=False),
    st.uuids(),
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)).map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
    ),
    st.none(),
)
bodies = st.one_of(
    st.fixed_dictionaries({"data_body": st.lists(st.binary(min_size=1), min_size=1)}),
    st.fixed_dictionaries({"value_body": st.one_of(texts, st.integers(0, 99))}),
    st.fixed_dictionaries(
        {"sequence_body": st.lists(st.lists(texts, min_size=1), min_size=1)}
    ),
)


@st.composite
def messages(draw) -> ServiceBusMessage:
    raw = AmqpAnnotatedMessage(
        **draw(bodies),
        application_properties=draw(st.dictionaries(names, values, max_size=4)),
        annotations=draw(
            st.dictionaries(st.just("x-opt-own") | st.just(b"x-own"), values)
        ),
        header={
            "time_to_live": draw(st.none() | st.integers(1, 2**32 - 2)),
            "priority": draw(st.none() | st.integers(0, 9)),
        },
        properties={
            "message_id": draw(st.none() | texts.filter(bool)),
            "group_id": draw(st.none() | texts.filter(bool)),
            "reply_to_group_id": draw(st.none() | texts.filter(bool)),
            "subject": draw(st.none() | texts.filter(bool)),
            "correlation_id": draw(st.none() | texts.filter(bool)),
            "content_type": draw(st.none() | st.just("text/plain")),
        },
    )
    [message] = as_messages(raw)
    if draw(st.booleans()):
        message.scheduled_enqueue_time_utc = DUE
    if draw(st.booleans()):
        raw.annotations["x-opt-partition-key"] = "key"
    return outgoing_copy(message)


@given(messages())
def test_a_message_is_the_same_after_a_detour(message: ServiceBusMessage) -> None:
    stamp(message, b"\x01" * 16, "an id")
    assert seen(after_a_detour(message)) == seen(encoded(message))


@given(messages())
def test_in_the_backlog_it_neither_expires_nor_waits_nor_has_a_session(
    message: ServiceBusMessage,
) -> None:
    diverted = decoded(encoded(divert(message, "orders")))
    assert not diverted.header or diverted.header.time_to_live is None
    assert not diverted.properties or diverted.properties.group_id is None
    assert not diverted.properties or diverted.properties.absolute_expiry_time is None
    assert b"x-opt-scheduled-enqueue-time" not in (diverted.annotations or {})


# --- single facts -------------------------------------------------------------------


def full_message() -> ServiceBusMessage:
    return ServiceBusMessage(
        b"body",
        application_properties={"colour": "red", PATH: "own", "number": 5},
        session_id="s1",
        message_id="m1",
        scheduled_enqueue_time_utc=DUE,
        time_to_live=timedelta(minutes=5),
        partition_key="s1",
        subject="subject",
    )


def test_a_diverted_message_has_the_properties_of_p9() -> None:
    diverted = divert(full_message(), "orders")
    assert diverted.application_properties == {
        "colour": "red",
        "number": 5,
        OWN_PREFIX + PATH: "own",
        PATH: "orders",
        SESSION_ID: "s1",
        TIME_TO_LIVE: "PT5M",
        SCHEDULED: DUE,
    }
    assert (diverted.session_id, diverted.time_to_live) == (None, None)
    assert diverted.scheduled_enqueue_time_utc is None
    assert (diverted.partition_key, diverted.message_id) == ("s1", "m1")


def test_a_diverted_message_says_where_it_belongs() -> None:
    assert detour_of(divert(full_message(), "orders")) == Detour(
        path="orders", session_id="s1", time_to_live_ms=300_000, scheduled_at=DUE_MS
    )


def test_a_diverted_message_may_get_a_partition_key() -> None:
    plain = ServiceBusMessage("x", session_id="s")
    assert divert(plain, "orders").partition_key is None
    diverted = divert(plain, "orders", key="s")
    assert diverted.partition_key == "s"
    annotations = diverted.raw_amqp_message.annotations or {}
    assert annotations[KEY_ADDED.encode()] is True
    own = ServiceBusMessage("x", session_id="s", partition_key="s")
    found = divert(own, "orders", key="s").raw_amqp_message.annotations or {}
    assert KEY_ADDED.encode() not in found


def test_diverting_leaves_the_message_as_it_is() -> None:
    message = full_message()
    before = seen(encoded(message))
    divert(message, "orders")
    assert seen(encoded(message)) == before


def test_the_time_of_a_schedule_call_is_the_one_that_counts() -> None:
    assert detour_of(divert(full_message(), "orders", 5_000)).scheduled_at == 5_000


def test_a_naive_scheduled_time_is_utc() -> None:
    message = ServiceBusMessage(
        "x", scheduled_enqueue_time_utc=DUE.replace(tzinfo=None)
    )
    assert detour_of(divert(message, "orders")).scheduled_at == DUE_MS


def test_a_life_longer_than_the_header_holds_is_kept() -> None:
    # As other SDKs send it: all ones in the header, and two times.
    message = ServiceBusMessage("x")
    raw = message.raw_amqp_message
    raw.header.time_to_live = 2**32 - 1
    raw.properties.creation_time = 1_000
    raw.properties.absolute_expiry_time = 1_000 + 60 * 86_400_000
    assert detour_of(divert(message, "q")).time_to_live_ms == 60 * 86_400_000


def test_a_stamp_replaces_an_old_one_and_keeps_the_message_id() -> None:
    message = ServiceBusMessage("x", message_id="own")
    message.raw_amqp_message.annotations = {SEND_ID: b"old", "x-opt-a": 1}
    stamp(message, b"new", "made")
    assert send_id_of(message) == b"new"
    assert message.message_id == "own"
    assert message.raw_amqp_message.annotations == {
        SEND_ID.encode(): b"new",
        "x-opt-a": 1,
    }


@pytest.mark.parametrize(("made", "expected"), [("made", "made"), (None, None)])
def test_a_message_without_an_id_gets_one_if_it_is_to(made, expected) -> None:
    # The SDK gives an id to every ServiceBusMessage, and none to this.
    [message] = as_messages(AmqpAnnotatedMessage(data_body=b"x"))
    stamp(message, b"id", made)
    assert message.message_id == expected


def test_the_application_keeps_its_own_message() -> None:
    raw = AmqpAnnotatedMessage(data_body=b"x", application_properties={"a": 1})
    [message] = as_messages(raw)
    copy = outgoing_copy(message)
    stamp(copy, b"id", "made")
    copy.application_properties["b"] = 2
    assert (raw.properties, raw.annotations) == (None, None)
    assert raw.application_properties == {"a": 1}


def test_what_was_restored_and_is_sent_again_is_another_message() -> None:
    message = ServiceBusMessage("x")
    message.raw_amqp_message.annotations = {RESTORED_FROM.encode(): b"1@2@source"}
    assert outgoing_copy(message).raw_amqp_message.annotations == {}


def test_a_received_message_is_diverted_as_it_would_be_sent() -> None:
    payload = encoded(full_message())
    [received] = as_messages(decoded(payload))
    diverted = divert(received, "orders")
    assert detour_of(diverted).session_id == "s1"
    assert detour_of(diverted).scheduled_at == DUE_MS
    assert diverted.application_properties[OWN_PREFIX + PATH] == "own"
    assert diverted.application_properties["colour"] == "red"


def test_a_binary_property_of_another_client_is_in_nobodys_way() -> None:
    message = ServiceBusMessage("x", application_properties={PATH: "orders"})
    message.raw_amqp_message.application_properties[b"sum"] = b"\xff\x00"
    assert detour_of(message) == Detour(path="orders")


@pytest.mark.parametrize(
    "message",
    [
        {"body": "text", "subject": "s"},
        ServiceBusMessage("text", subject="s"),
        AmqpAnnotatedMessage(data_body=b"text", properties={"subject": "s"}),
    ],
    ids=["mapping", "message", "annotated"],
)
def test_all_forms_of_messages_become_copies(message) -> None:
    for form in (message, [message], (one for one in [message])):
        [copy] = [outgoing_copy(one) for one in as_messages(form)]
        assert (str(copy), copy.subject) == ("text", "s")


def test_uuids_and_numbers_are_message_ids_too() -> None:
    message = ServiceBusMessage("x")
    message.raw_amqp_message.properties.message_id = uuid.UUID(int=5)
    stamp(message, b"id", "made")
    assert message.message_id == uuid.UUID(int=5)
