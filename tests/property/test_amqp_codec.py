"""Every AMQP type is decoded as it was encoded, with its type."""

import math
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import decode, encode, skip
from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

texts = st.text(st.characters(exclude_categories=["Cs"]))
symbols = st.text(st.characters(max_codepoint=127)).map(Symbol)
longs = st.integers(-(2**63), 2**63 - 1)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2**8 - 1).map(UByte),
    st.integers(0, 2**16 - 1).map(UShort),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    longs,
    longs.map(Timestamp),
    st.floats(width=32, allow_nan=False).map(Float32),
    st.floats(allow_nan=False),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    st.uuids(),
    st.binary(max_size=300),
    texts,
    symbols,
)

arrays = st.one_of(
    st.lists(symbols).map(lambda items: AmqpArray(0xB3, list(items))),
    st.lists(texts).map(lambda items: AmqpArray(0xB1, list(items))),
    st.lists(st.integers(0, 2**32 - 1).map(UInt)).map(
        lambda items: AmqpArray(0x70, list(items))
    ),
    st.lists(longs).map(lambda items: AmqpArray(0x81, list(items), Symbol("d"))),
    st.lists(st.booleans()).map(lambda items: AmqpArray(0x56, list(items))),
)

values = st.recursive(
    scalars | arrays,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(texts, st.uuids(), st.binary()), inner),
        st.builds(Described, st.one_of(symbols, st.just(ULong(5))), inner),
    ),
    max_leaves=30,
)


def same(one: object, other: object) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return same(list(one), list(other))
    if isinstance(one, Described) and isinstance(other, Described):
        return same([one.descriptor, one.value], [other.descriptor, other.value])
    if isinstance(one, AmqpArray) and isinstance(other, AmqpArray):
        return one == other and same(one.items, other.items)
    return one == other


@given(values)
def test_every_value_comes_back_with_its_type(value: object) -> None:
    data = encode(value)
    decoded, end = decode(data, 0)
    assert same(decoded, value)
    assert end == len(data)


@given(values, st.binary(max_size=5), st.binary(max_size=5))
def test_a_value_is_found_and_skipped_anywhere(
    value: object, before: bytes, behind: bytes
) -> None:
    data = before + encode(value) + behind
    decoded, end = decode(data, len(before))
    assert same(decoded, value)
    assert end == len(data) - len(behind)
    assert skip(data, len(before)) == end


@given(st.floats())
def test_doubles_come_back_bit_for_bit_or_not_a_number(value: float) -> None:
    decoded, _ = decode(encode(value), 0)
    assert isinstance(decoded, float)
    assert decoded == value or (math.isnan(decoded) and math.isnan(value))


identifiers = st.one_of(
    st.none(), texts, st.uuids(), st.binary(), st.integers(0, 2**64 - 1).map(ULong)
)
annotations = st.none() | st.dictionaries(symbols, values, max_size=3)
bodies = st.one_of(
    st.none(),
    st.lists(st.binary(), min_size=1).map(lambda chunks: Data(tuple(chunks))),
    st.lists(st.lists(values), min_size=1, max_size=2).map(
        lambda lists: AmqpSequence(tuple(lists))
    ),
    values.map(AmqpValue),
)
messages = st.builds(
    Message,
    header=st.none()
    | st.builds(
        Header, durable=st.none() | st.booleans(), ttl=st.integers(0, 2**32 - 1)
    ),
    delivery_annotations=annotations,
    message_annotations=annotations,
    properties=st.none()
    | st.builds(Properties, message_id=identifiers, correlation_id=identifiers),
    application_properties=st.none() | st.dictionaries(texts, scalars, max_size=3),
    body=bodies,
    footer=annotations,
)


@given(messages)
def test_every_message_comes_back(message: Message) -> None:
    decoded = decode_message(encode_message(message))
    assert decoded == message
    if message.properties is not None:
        assert decoded.properties is not None
        sent, received = message.properties, decoded.properties
        assert same(received.message_id, sent.message_id)
        assert same(received.correlation_id, sent.correlation_id)


def test_the_example_of_the_standard() -> None:
    """AMQP 1.0 part 1, figure 1.5: a described book."""
    book = Described(
        Symbol("example:book:list"),
        ["AMQP for & by Dummies", ["Rob J. Godfrey", "Rafael H. Schloming"], None],
    )
    assert decode(encode(book), 0)[0] == book
    assert isinstance(decode(encode(UUID(int=1)), 0)[0], UUID)
