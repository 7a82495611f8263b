"""A message is received equal to what was sent, and mostly as the same bytes."""

from dataclasses import replace

from azure.servicebus._pyamqp._decode import decode_payload
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.messaging import Message as AmqpMessage
from twinbus.amqp.types import (
    Byte,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from twinbus.broker.message import NO_ANNEX, Message
from twinbus.encoding.batch import read_batch
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import EXTENSIONS, bare_offset
from twinbus.encoding.outgoing import encode_delivery
from twinbus.errors import ArgumentError, MessageSizeExceeded

NOW = 1_800_000_000_000
NUMBER = 42

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
symbols = st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 255).map(UByte),
    st.integers(0, 65_535).map(UShort),
    st.integers(0, (1 << 32) - 1).map(UInt),
    st.integers(0, (1 << 64) - 1).map(ULong),
    st.integers(-128, 127).map(Byte),
    st.integers(-32_768, 32_767).map(Short),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1).map(Timestamp),
    st.floats(allow_nan=False),
    st.binary(max_size=300),
    st.uuids(),
    texts,
    symbols,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=6,
)
maybe_texts = st.none() | texts
headers = st.builds(
    Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | st.integers(0, 255),
    ttl=st.none() | st.integers(0, (1 << 32) - 1),
    delivery_count=st.none() | st.integers(0, 9),
)
properties = st.builds(
    Properties,
    message_id=st.none() | texts | st.uuids() | st.binary(max_size=9),
    to=maybe_texts,
    subject=maybe_texts,
    content_encoding=maybe_texts.filter(lambda text: text is None or text.isascii()),
    absolute_expiry_time=st.none() | st.integers(0, 1 << 62),
    group_id=maybe_texts,
)
bodies = st.one_of(
    st.lists(st.binary(max_size=300), min_size=1, max_size=3).map(
        lambda parts: Data(tuple(parts))
    ),
    st.lists(st.lists(values, max_size=3), min_size=1, max_size=3).map(
        lambda lists: AmqpSequence(tuple(lists))
    ),
    values.map(AmqpValue),
)
messages = st.builds(
    AmqpMessage,
    header=st.none() | headers,
    delivery_annotations=st.none() | st.dictionaries(symbols, values, max_size=3),
    message_annotations=st.none() | st.dictionaries(symbols, values, max_size=3),
    properties=st.none() | properties,
    application_properties=st.none() | st.dictionaries(texts, scalars, max_size=5),
    body=bodies,
    footer=st.none() | st.dictionaries(symbols, values, max_size=2),
)


def accepted(sent: AmqpMessage) -> Message:
    message = read_message(encode_message(sent))
    message.enqueued_at = NOW
    message.expires_at = NOW + message.ttl_ms if message.ttl_ms else 0
    return message


@given(messages, st.sampled_from([0, NOW + 1]))
def test_bare_message_comes_out_as_it_went_in(
    sent: AmqpMessage, locked_until: int
) -> None:
    message = accepted(sent)
    payload = encode_delivery(message, NUMBER, locked_until)
    bare = message.raw[bare_offset(message.layout) :]
    if message.ttl_ms == 0:
        assert payload.endswith(bare)
    found = decode_message(payload)
    expected = sent.properties
    if message.expires_at:
        expected = replace(
            expected or Properties(), absolute_expiry_time=message.expires_at
        )
    assert found.properties == expected
    assert encode(found.application_properties) == encode(sent.application_properties)
    assert encode_message(AmqpMessage(body=found.body)) == encode_message(
        AmqpMessage(body=sent.body)
    )
    assert encode(found.footer) == encode(sent.footer)
    kept = {k: v for k, v in (sent.message_annotations or {}).items()}
    annotations = found.message_annotations or {}
    assert encode({key: annotations[key] for key in kept}) == encode(kept)
    assert annotations["x-opt-sequence-number"] == NUMBER
    assert ("x-opt-locked-until" in annotations) == bool(locked_until)


@given(messages, st.dictionaries(texts, scalars, min_size=1, max_size=4), texts)
def test_woven_properties_are_those_of_a_dictionary(
    sent: AmqpMessage, modified: dict[str, object], reason: str
) -> None:
    message = accepted(sent)
    message.annex = replace(
        NO_ANNEX,
        modified={name: encode(value) for name, value in modified.items()},
        dead_letter_reason=reason,
    )
    found = decode_message(encode_delivery(message, NUMBER, 0))
    before = sent.application_properties or {}
    new = {**modified, "DeadLetterReason": reason}
    kept = {name: value for name, value in before.items() if name not in new}
    assert encode(found.application_properties) == encode({**kept, **new})
    assert encode(found.footer) == encode(sent.footer)


@given(messages)
def test_the_python_sdk_reads_the_same(sent: AmqpMessage) -> None:
    message = accepted(sent)
    found = decode_payload(memoryview(encode_delivery(message, NUMBER, 0)))
    assert found.message_annotations[b"x-opt-sequence-number"] == NUMBER
    assert found.header.delivery_count == 0
    if isinstance(sent.body, Data):
        assert [bytes(part) for part in found.data] == list(sent.body.chunks)
    expected = {k.encode() for k in (sent.application_properties or {})}
    assert set(found.application_properties or {}) == expected


@given(st.lists(messages, min_size=1, max_size=4))
def test_batches_come_apart_into_the_messages_they_were_made_of(
    sent: list[AmqpMessage],
) -> None:
    encoded = [encode_message(message) for message in sent]
    envelope = encode_message(AmqpMessage(body=Data(tuple(encoded))))
    assert [message.raw for message in read_batch(envelope)] == encoded


@given(messages, st.data())
def test_damaged_messages_are_refused_or_can_be_delivered(
    sent: AmqpMessage, data: st.DataObject
) -> None:
    raw = bytearray(encode_message(sent))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        message = read_message(bytes(raw), EXTENSIONS)
    except (ArgumentError, MessageSizeExceeded):
        return
    message.annex = replace(NO_ANNEX, dead_letter_reason="damaged")
    for expires_at in (0, NOW):
        message.expires_at = expires_at
        assert encode_delivery(message, NUMBER, NOW)


@given(st.binary(max_size=100))
def test_noise_is_refused_or_can_be_delivered(raw: bytes) -> None:
    for noise in (raw, b"\x00\x53" + raw):
        try:
            message = read_message(noise, EXTENSIONS)
        except (ArgumentError, MessageSizeExceeded):
            continue
        message.annex = NO_ANNEX
        message.expires_at = NOW
        assert encode_delivery(message, NUMBER, NOW)
