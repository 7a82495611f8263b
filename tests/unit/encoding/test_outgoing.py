"""What a receiver gets: the sender's message, and what the bus adds."""

from dataclasses import replace
from uuid import UUID

import pytest
from azure.servicebus._pyamqp._decode import decode_payload

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Header,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.messaging import Message as AmqpMessage
from twinbus.amqp.types import Int, Short, Symbol, Timestamp, UByte
from twinbus.broker.message import ACTIVE, DEFERRED, NO_ANNEX, SCHEDULED, Message
from twinbus.broker.row_id import base_of
from twinbus.encoding.incoming import read_message
from twinbus.encoding.outgoing import DeliveryEncoder, encode_delivery

NOW = 1_800_000_000_000
NUMBER = 3 << 48 | 77
PLAIN = AmqpMessage(properties=Properties(message_id="id"), body=Data((b"hello",)))


def accepted(sent: AmqpMessage) -> Message:
    """The message as a fragment has it."""
    message = read_message(encode_message(sent))
    message.enqueued_at = NOW
    if message.ttl_ms:
        message.expires_at = NOW + message.ttl_ms
    return message


def delivered(message: Message, locked_until: int = 0) -> AmqpMessage:
    payload = encode_delivery(message, NUMBER, locked_until)
    # The Python SDK reads it too, and does so with a decoder of its own.
    assert decode_payload(memoryview(payload)) is not None
    return decode_message(payload)


def own_annotations(**others: object) -> dict[str, object]:
    return {
        "x-opt-sequence-number": NUMBER,
        "x-opt-message-state": 0,
        "x-opt-enqueued-time": NOW,
        **{f"x-opt-{name.replace('_', '-')}": value for name, value in others.items()},
    }


def test_plain_message_is_the_senders_between_header_and_annotations() -> None:
    message = accepted(PLAIN)
    payload = encode_delivery(message, NUMBER, 0)
    assert payload.endswith(message.raw)
    found = decode_message(payload)
    assert found.header == Header(delivery_count=0)
    assert found.message_annotations == own_annotations()
    bare = replace(
        found, header=None, delivery_annotations=None, message_annotations=None
    )
    assert bare == PLAIN


def test_types_of_annotations_are_those_that_sdks_read() -> None:
    for sent in (PLAIN, replace(PLAIN, message_annotations={Symbol("a"): 1})):
        annotations = delivered(accepted(sent), NOW + 1).message_annotations
        assert annotations is not None
        types = {str(key): type(value) for key, value in annotations.items()}
        types.pop("a", None)
        assert types == {
            "x-opt-sequence-number": int,
            "x-opt-message-state": Int,
            "x-opt-enqueued-time": Timestamp,
            "x-opt-locked-until": Timestamp,
        }
        assert all(type(key) is Symbol for key in annotations)


def test_lock_is_told_only_where_there_is_one() -> None:
    found = delivered(accepted(PLAIN), NOW + 30_000)
    assert found.message_annotations == own_annotations(locked_until=NOW + 30_000)


@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_receivers_are_told_no_more_than_by_the_service(
    annotations: dict[object, object] | None,
) -> None:
    message = accepted(replace(PLAIN, message_annotations=annotations))
    payload = DeliveryEncoder(NOW + 1).encode(message, NUMBER, bytes(16))
    found = decode_message(payload).message_annotations or {}
    assert {str(key) for key in found} - {"a"} == {
        *("x-opt-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until"),
    }


@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_message_of_a_topic_tells_the_number_it_had_there(
    annotations: dict[object, object] | None,
) -> None:
    message = accepted(replace(PLAIN, message_annotations=annotations))
    message.body_id = base_of(5) + 77
    found = decode_message(DeliveryEncoder(NOW).encode(message, NUMBER))
    told = found.message_annotations or {}
    assert told["x-opt-enqueue-sequence-number"] == 77
    assert told["x-opt-sequence-number"] == NUMBER


@pytest.mark.parametrize(
    "header",
    [
        Header(durable=False),
        Header(durable=True),
        Header(priority=4),
        Header(priority=0, durable=False),
    ],
)
def test_header_says_what_the_sender_said(header: Header) -> None:
    found = delivered(accepted(replace(PLAIN, header=header))).header
    assert found == replace(header, delivery_count=0)


@pytest.mark.parametrize("delivery_count", [0, 1, 255, 256, 2_147_483_647])
@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_header_keeps_priority_and_counts_deliveries(
    delivery_count: int, annotations: dict[object, object] | None
) -> None:
    sent = replace(
        PLAIN,
        header=Header(durable=True, priority=9, delivery_count=5),
        message_annotations=annotations,
    )
    message = accepted(sent)
    message.delivery_count = delivery_count
    assert delivered(message).header == Header(
        durable=True, priority=9, delivery_count=delivery_count
    )


def test_headers_do_not_get_mixed_up_however_many_there_were() -> None:
    for count in range(1_200):
        message = accepted(replace(PLAIN, header=Header(ttl=1 + count % 7)))
        message.delivery_count = count
        header = delivered(message).header
        assert header is not None
        assert (header.delivery_count, header.ttl) == (count, 1 + count % 7)


def test_encoder_of_a_batch_follows_the_enqueued_time() -> None:
    encoder = DeliveryEncoder(0)
    for enqueued_at in (NOW, NOW, NOW + 1, NOW):
        message = accepted(PLAIN)
        message.enqueued_at = enqueued_at
        found = decode_message(encoder.encode(message, 1)).message_annotations
        assert found is not None and found["x-opt-enqueued-time"] == enqueued_at


# --- time to live ---------------------------------------------------------------

FULL = Properties(
    message_id="id",
    user_id=b"u",
    to="t",
    subject="s",
    reply_to="r",
    correlation_id=7,
    content_type="text",
    content_encoding="zip",
    absolute_expiry_time=5,
    creation_time=6,
    group_id="g",
    group_sequence=1,
    reply_to_group_id="h",
)


@pytest.mark.parametrize(
    "properties",
    [
        None,
        Properties(),
        Properties(message_id="id"),
        Properties(content_encoding="zip"),
        Properties(absolute_expiry_time=5),
        Properties(creation_time=6),
        FULL,
        replace(FULL, subject="s" * 300),
    ],
)
@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_time_to_live_is_told_in_header_and_properties(
    properties: Properties | None, annotations: dict[object, object] | None
) -> None:
    sent = AmqpMessage(
        header=Header(ttl=5_000),
        message_annotations=annotations,
        properties=properties,
        application_properties={"a": Short(1)},
        body=AmqpValue("x"),
        footer={Symbol("f"): 1},
    )
    found = delivered(accepted(sent))
    assert found.header is not None and found.header.ttl == 5_000
    expected = replace(properties or Properties(), absolute_expiry_time=NOW + 5_000)
    if expected.creation_time is not None:
        # Clients take the difference of the two for the time to live.
        expected = replace(expected, creation_time=NOW)
    assert found.properties == expected
    assert found.application_properties == {"a": 1}
    assert (found.body, found.footer) == (sent.body, sent.footer)


def test_time_to_live_of_a_message_without_sections_is_told() -> None:
    message = read_message(b"")
    message.ttl_ms, message.expires_at = 9, NOW + 9
    found = delivered(message)
    assert found.properties == Properties(absolute_expiry_time=NOW + 9)


def test_time_to_live_past_32_bits_is_told_in_the_properties_alone() -> None:
    message = accepted(PLAIN)
    message.ttl_ms = 1 << 32
    message.expires_at = NOW + message.ttl_ms
    found = delivered(message)
    assert found.header is not None and found.header.ttl is None
    assert found.properties is not None
    assert found.properties.absolute_expiry_time == NOW + (1 << 32)
    assert found.properties.creation_time == NOW


def test_senders_own_expiry_is_kept_where_the_bus_has_none() -> None:
    sent = replace(PLAIN, properties=FULL)
    assert delivered(accepted(sent)).properties == FULL


# --- annotations ----------------------------------------------------------------


@pytest.mark.parametrize("key_type", [Symbol, str])
def test_senders_cannot_forge_what_the_bus_says(key_type: type[str]) -> None:
    forged = [*own_annotations(locked_until=1, deadletter_source=1)]
    sent = replace(
        PLAIN,
        message_annotations={
            **{key_type(name): "forged" for name in forged},
            Symbol("x-opt-partition-key"): "kept",
        },
    )
    found = delivered(accepted(sent))
    assert found.message_annotations == own_annotations(partition_key="kept")


@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_delivery_annotations_are_passed_on_but_for_a_forged_token(
    annotations: dict[object, object] | None,
) -> None:
    given = {Symbol("x-opt-lock-token"): "forged", Symbol("b"): UByte(2)}
    sent = replace(PLAIN, delivery_annotations=given, message_annotations=annotations)
    message = accepted(sent)
    assert delivered(message).delivery_annotations == {"b": 2}
    token = bytes(range(16))
    found = decode_message(encode_delivery(message, NUMBER, NOW, token))
    assert found.delivery_annotations == {
        "b": 2,
        "x-opt-lock-token": UUID(bytes_le=token),
    }


@pytest.mark.parametrize("annotations", [None, {Symbol("a"): 1}])
def test_lock_token_is_the_uuid_of_the_delivery_tag(
    annotations: dict[object, object] | None,
) -> None:
    token = bytes(range(16))
    message = accepted(replace(PLAIN, message_annotations=annotations))
    found = decode_message(encode_delivery(message, NUMBER, NOW, token))
    assert found.delivery_annotations == {"x-opt-lock-token": UUID(bytes_le=token)}


@pytest.mark.parametrize("state", [ACTIVE, DEFERRED, SCHEDULED])
def test_state_is_told(state: int) -> None:
    message = accepted(PLAIN)
    message.state = state
    found = delivered(message).message_annotations
    assert found == {**own_annotations(), "x-opt-message-state": state}


def test_many_annotations_take_the_wide_form() -> None:
    many = {Symbol(f"key-{number}"): number for number in range(100)}
    sent = replace(PLAIN, message_annotations=many)
    found = delivered(accepted(sent)).message_annotations
    assert found == {**many, **own_annotations()}


# --- what settlements and dead-lettering wrote ----------------------------------


def test_dead_letter_tells_reason_source_and_first_number() -> None:
    message = accepted(replace(PLAIN, application_properties={"a": UByte(1)}))
    message.annex = replace(
        NO_ANNEX,
        dead_letter_reason="why",
        dead_letter_description="because",
        dead_letter_source="orders",
        enqueued_sequence_number=5,
    )
    found = delivered(message)
    assert found.application_properties == {
        "a": 1,
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "because",
    }
    assert found.message_annotations == {
        **own_annotations(deadletter_source="orders"),
        "x-opt-enqueue-sequence-number": 5,
    }
    bare = replace(
        found,
        header=None,
        delivery_annotations=None,
        message_annotations=None,
        application_properties=None,
    )
    assert bare == PLAIN


def test_dead_letter_without_texts_changes_no_property() -> None:
    message = accepted(replace(PLAIN, application_properties={"DeadLetterReason": "x"}))
    message.annex = replace(NO_ANNEX, dead_letter_source="orders")
    assert delivered(message).application_properties == {"DeadLetterReason": "x"}


def test_modified_properties_replace_and_add_with_their_types() -> None:
    sent = {"kept": Short(1), "changed": Short(2)}
    message = accepted(replace(PLAIN, application_properties=sent))
    modified = {"changed": encode(UByte(3)), "new": encode(Timestamp(4))}
    message.annex = replace(NO_ANNEX, modified=modified)
    found = delivered(message).application_properties
    assert found is not None
    assert [(key, type(value), value) for key, value in found.items()] == [
        ("kept", Short, 1),
        ("changed", UByte, 3),
        ("new", Timestamp, 4),
    ]


def test_modified_properties_come_where_there_were_none() -> None:
    message = accepted(AmqpMessage(body=AmqpValue("x")))
    message.annex = replace(NO_ANNEX, modified={"new": b"\x41"})
    found = delivered(message)
    assert found.application_properties == {"new": True}
    assert (found.properties, found.body) == (None, AmqpValue("x"))


def test_proton_reads_the_same() -> None:
    proton = pytest.importorskip("proton")
    message = accepted(
        replace(
            PLAIN,
            header=Header(ttl=5_000),
            message_annotations={Symbol("x-opt-partition-key"): "k"},
            application_properties={"a": 1},
        )
    )
    message.annex = replace(NO_ANNEX, dead_letter_reason="why")
    found = proton.Message()
    found.decode(encode_delivery(message, NUMBER, NOW + 1))
    assert found.id == "id" and bytes(found.body) == b"hello"
    assert found.properties == {"a": 1, "DeadLetterReason": "why"}
    assert found.annotations["x-opt-sequence-number"] == NUMBER
    assert found.annotations["x-opt-locked-until"] == NOW + 1
    assert found.annotations["x-opt-partition-key"] == "k"
    assert found.ttl == 5.0


def test_encoded_values_are_decodable_alone() -> None:
    payload = encode_delivery(accepted(PLAIN), NUMBER, 0)
    at = 0
    while at < len(payload):
        _, at = decode(payload, at)
    assert at == len(payload)
