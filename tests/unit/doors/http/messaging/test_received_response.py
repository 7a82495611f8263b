"""Received messages as responses, also those that no SDK would send."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpSequence,
    Data,
    Header,
    Message,
    Properties,
    encode_message,
)
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.doors.http.messaging.received_response import (
    messages_address,
    received_response,
)
from twinbus.doors.http.response import HttpResponse
from twinbus.operations.received_message import ReceivedMessage

ADDRESS = "http://bus/q/messages"


def response(message: Message, more: bytes = b"") -> HttpResponse:
    encoded = encode_message(message) + more
    return received_response(ReceivedMessage(encoded, 7), ADDRESS)


def test_times_that_no_calendar_has_are_shown() -> None:
    annotations: dict[object, object] = {
        Symbol("x-opt-enqueued-time"): Timestamp(1 << 62),
        Symbol("x-opt-scheduled-enqueue-time"): Timestamp(-5),
    }
    shown = response(Message(message_annotations=annotations, body=Data((b"x",))))
    broker = json.loads(shown.headers["BrokerProperties"])
    assert broker["EnqueuedTimeUtc"] == "Fri, 31 Dec 9999 23:59:59 GMT"
    assert broker["ScheduledEnqueueTimeUtc"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_times_to_live_of_both_forms() -> None:
    short = Message(header=Header(ttl=1_500), body=Data((b"",)))
    both = Properties(absolute_expiry_time=9_000_000_000, creation_time=1_000_000_000)
    for message, seconds in (
        (short, 1.5),
        (Message(properties=both, body=Data((b"",))), 8_000_000),
    ):
        broker = json.loads(response(message).headers["BrokerProperties"])
        assert broker["TimeToLive"] == seconds


NO_TEXT = b"\xa1\x01\xff"


@pytest.mark.parametrize(
    "unreadable",
    [
        # Annotations, properties, application properties; and a header.
        b"\x00\x53\x72\xc1\x06\x02" + NO_TEXT + b"\xa1\x00",
        b"\x00\x53\x73\xc0\x04\x01" + NO_TEXT,
        b"\x00\x53\x74\xc1\x06\x02" + NO_TEXT + b"\xa1\x00",
        b"\x00\x53\x74\xc1\x04\x02\x45\x45\x41",
        b"\x00\x53\x70\xc0\x02\x01\x99",
    ],
)
def test_what_cannot_be_read_is_left_out(unreadable: bytes) -> None:
    encoded = unreadable + encode_message(Message(body=Data((b"well",))))
    shown = received_response(ReceivedMessage(encoded, 7), ADDRESS)
    assert (shown.status, shown.body) == (200, b"well")
    assert json.loads(shown.headers["BrokerProperties"])["SequenceNumber"] == 7


def test_state_that_a_sender_has_made_up_is_none() -> None:
    annotations: dict[object, object] = {Symbol("x-opt-message-state"): 77}
    shown = response(Message(message_annotations=annotations, body=Data((b"",))))
    assert json.loads(shown.headers["BrokerProperties"])["State"] == "Active"


def test_body_that_cannot_be_read_is_handed_over_as_it_is() -> None:
    deep = b"\x45"
    for _ in range(200):
        deep = b"\xd0" + (len(deep) + 4).to_bytes(4, "big") + b"\0\0\0\1" + deep
    shown = response(Message(), b"\x00\x53\x77" + deep)
    assert shown.headers["x-twinbus-body"] == "encoded"
    assert shown.body == deep


def test_message_without_a_body_has_an_empty_one() -> None:
    shown = response(Message(properties=Properties(message_id="m")))
    assert shown.body == b""
    assert "x-twinbus-body" not in shown.headers


def test_sequences_are_one_array() -> None:
    shown = response(Message(body=AmqpSequence(([1, 2], ["three"]))))
    assert json.loads(shown.body) == [1, 2, "three"]


def test_address_is_encoded() -> None:
    assert messages_address("http://b", "a b/$x?") == "http://b/a%20b/$x%3F/messages"


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=4))
def test_data_of_any_size_is_joined(chunks: list[bytes]) -> None:
    assert response(Message(body=Data(tuple(chunks)))).body == b"".join(chunks)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
    )
)
def test_any_value_becomes_a_body(value: object) -> None:
    shown = response(Message(), b"\x00\x53\x77" + encode(value))
    if isinstance(value, str):
        assert shown.body.decode() == value
    else:
        assert json.loads(shown.body) == value
