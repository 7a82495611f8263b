"""What rules read of an encoded message."""

from uuid import UUID

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import Data, Header, Properties, encode_message
from twinbus.amqp.messaging import Message as AmqpMessage
from twinbus.amqp.types import Symbol, Timestamp, ULong
from twinbus.broker.message import Annex
from twinbus.encoding.incoming import read_message
from twinbus.encoding.message_view import EncodedView
from twinbus.encoding.rule_values import Opaque
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.rules.system_properties import NAMES
from twinbus.rules.values import MISSING, Duration, Instant

PROPERTIES = Properties(
    message_id="m",
    to="t",
    subject="s",
    reply_to="r",
    correlation_id="c",
    content_type="text/plain",
    group_id="g",
    reply_to_group_id="rg",
)


def view_of(sent: AmqpMessage, annex: Annex | None = None) -> EncodedView:
    message = read_message(encode_message(sent))
    message.enqueued_at = 1_000
    message.delivery_count = 2
    message.annex = annex
    if message.ttl_ms:
        message.expires_at = message.enqueued_at + message.ttl_ms
    return EncodedView(message, 42, bytes)


def test_properties_have_the_names_of_the_service() -> None:
    view = view_of(AmqpMessage(properties=PROPERTIES, body=Data((b"x",))))
    found = {
        name: view.system(name)
        for name in (
            *("messageid", "to", "label", "replyto", "correlationid", "contenttype"),
            *("sessionid", "replytosessionid"),
        )
    }
    assert list(found.values()) == ["m", "t", "s", "r", "c", "text/plain", "g", "rg"]


def test_annotations_are_system_properties() -> None:
    annotations = {
        "x-opt-partition-key": "p",
        "x-opt-via-partition-key": "v",
        "x-opt-scheduled-enqueue-time": Timestamp(9_000),
    }
    view = view_of(AmqpMessage(message_annotations=dict(annotations)))
    assert view.system("partitionkey") == "p"
    assert view.system("viapartitionkey") == "v"
    assert view.system("scheduledenqueuetimeutc") == Instant(9_000)


def test_the_bus_tells_what_it_knows() -> None:
    view = view_of(
        AmqpMessage(header=Header(ttl=500), body=Data((b"x",))),
        Annex(enqueued_sequence_number=7, dead_letter_source="q"),
    )
    assert view.system("sequencenumber") == 42
    assert view.system("enqueuedsequencenumber") == 7
    assert view.system("enqueuedtimeutc") == Instant(1_000)
    assert view.system("timetolive") == Duration(500)
    assert view.system("expiresatutc") == Instant(1_500)
    assert view.system("deliverycount") == 2
    assert view.system("size") == len(view.message.raw)
    assert view.system("state") == 0
    assert view.system("deadlettersource") == "q"


def test_every_system_property_can_be_asked_of_an_empty_message() -> None:
    view = view_of(AmqpMessage())
    found = {name: view.system(name) for name in NAMES}
    assert {name for name, value in found.items() if value is not None} == {
        *("sequencenumber", "enqueuedsequencenumber", "enqueuedtimeutc", "size"),
        *("expiresatutc", "timetolive", "deliverycount", "state"),
    }
    assert found["timetolive"] == Duration(DURATION_MS_UNLIMITED)
    assert found["enqueuedsequencenumber"] == 42


@pytest.mark.parametrize(
    ("message_id", "text"),
    [
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ULong(7), "7"),
        (b"\x01\xff", "01ff"),
    ],
)
def test_identifiers_are_texts(message_id: object, text: str) -> None:
    view = view_of(AmqpMessage(properties=Properties(message_id=message_id)))
    assert view.system("messageid") == text


def test_application_properties_have_no_case_and_the_first_counts() -> None:
    properties = {"Region": "eu", "REGION": "us", "n": None, 5: "odd"}
    view = view_of(AmqpMessage(application_properties=dict(properties)))
    assert view.user("region") == "eu"
    assert view.user("region") == "eu"
    assert view.user("n") is None
    assert view.user("missing") is MISSING
    assert view.user("5") is MISSING


def test_property_that_cannot_be_decoded_is_there_and_hides_no_other() -> None:
    entries = b"\xa1\x01a\xa1\x01\xff\xa1\x01\xff\x54\x01\xa1\x01b\x54\x05"
    raw = bytes((0, 0x53, 0x74, 0xC1, len(entries) + 1, 6)) + entries
    view = EncodedView(read_message(raw), 1, bytes)
    assert isinstance(view.user("a"), Opaque)
    assert view.user("b") == 5


def test_system_property_that_cannot_be_decoded_is_left_open() -> None:
    raw = b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01\xff"
    view = EncodedView(read_message(raw), 1, bytes)
    assert view.system("to") is None


def test_what_settlements_wrote_goes_before_what_was_sent() -> None:
    annex = Annex(
        modified={"Region": encode("us")},
        dead_letter_reason="why",
        dead_letter_description="because",
    )
    sent = AmqpMessage(application_properties={"region": "eu", "a": 1})
    view = view_of(sent, annex)
    assert view.user("region") == "us"
    assert view.user("a") == 1
    assert view.user("deadletterreason") == "why"
    assert view.user("deadlettererrordescription") == "because"


def test_entropy_is_asked_for() -> None:
    message = read_message(encode_message(AmqpMessage()))
    asked: list[int] = []

    def entropy(count: int) -> bytes:
        asked.append(count)
        return bytes([len(asked)]) * count

    view = EncodedView(message, 1, entropy)
    assert view.entropy() != view.entropy()
    assert asked == [16, 16]


def test_symbols_are_texts() -> None:
    sent = AmqpMessage(application_properties={"a": Symbol("x")})
    assert view_of(sent).user("a") == "x"
