"""Any property and any body: its text and its type give back the same value."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import AmqpValue, Data, decode_message, encode_message
from twinbus.amqp.messaging import Message as Sent
from twinbus.amqp.types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Encoded,
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
from twinbus.broker.message import Message
from twinbus.encoding.columns import MessageColumns
from twinbus.encoding.typed_texts import encoded_value


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    half = 1 << (bits - 1)
    return st.integers(-half, half - 1) if signed else st.integers(0, 2 * half - 1)


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.uuids(),
    st.floats(),
    st.floats(width=32).map(Float32),
    st.text("abc xyz", max_size=300).map(Symbol),
    st.characters(exclude_categories=["Cs"]).map(Char),
    integers(8, signed=False).map(UByte),
    integers(16, signed=False).map(UShort),
    integers(32, signed=False).map(UInt),
    integers(64, signed=False).map(ULong),
    integers(8, signed=True).map(Byte),
    integers(16, signed=True).map(Short),
    integers(32, signed=True).map(Int),
    integers(64, signed=True),
    integers(64, signed=True).map(Timestamp),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
VALUES = st.one_of(
    PLAIN,
    PLAIN.map(lambda value: Described(Symbol("com.example:any"), value)),
    st.lists(PLAIN, max_size=3),
    st.dictionaries(st.text(max_size=5), PLAIN, max_size=3),
)


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=8))
def test_properties_survive_as_texts_and_types(properties: dict[str, object]) -> None:
    # Encoded as given: a NaN is not equal to itself, but its bytes are.
    encoded = {name: encode(value) for name, value in properties.items()}
    given_bytes: dict[str, object] = {n: Encoded(raw) for n, raw in encoded.items()}
    message = Sent(application_properties=given_bytes, body=Data((b"",)))
    columns = MessageColumns(["application_properties", "application_property_types"])
    columns.extend([Message(encode_message(message), 0, 0, 0)], [1])
    [texts] = columns.columns["application_properties"]
    [types] = columns.columns["application_property_types"]
    assert isinstance(texts, list)
    assert types is None or isinstance(types, list)
    named = dict(types or [])
    found = {
        name: encoded_value(named.get(name, "string"), text) for name, text in texts
    }
    assert found == encoded


@given(VALUES)
def test_a_body_is_of_a_type_that_gives_it_back_or_says_that_none_does(
    value: object,
) -> None:
    raw = encode_message(Sent(body=AmqpValue(value)))
    columns = MessageColumns(["body", "amqp_types"])
    columns.extend([Message(raw, 0, 0, 0)], [1])
    [body], [types] = columns.columns["body"], columns.columns["amqp_types"]
    assert isinstance(types, list)
    [(name, kind)] = types
    assert name == "body"
    if kind == "value":
        # Values with parts, and NaN.
        assert isinstance(value, list | dict | Described) or value != value
    elif kind == "value:null":
        assert value is None and body is None
    elif isinstance(value, bytes):
        assert body == value
    else:
        assert isinstance(body, bytes)
        simple = kind.removeprefix("value:")
        assert decode_message(raw).body == AmqpValue(value)
        assert encoded_value(simple, body.decode()) == encode(value)
