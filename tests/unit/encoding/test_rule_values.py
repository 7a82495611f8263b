"""Conversion between AMQP values and values of rules."""

from uuid import UUID

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.types import (
    Byte,
    Char,
    Decimal64,
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
from twinbus.encoding.rule_values import (
    Opaque,
    amqp_of_typed,
    amqp_value,
    rule_value,
    typed_of_amqp,
)
from twinbus.errors import ArgumentError
from twinbus.rules.typed_value import typed_value
from twinbus.rules.values import Duration, Instant


def to_rule(value: object) -> object:
    encoded = encode(value)
    return rule_value(b"..." + encoded + b"...", 3, 3 + len(encoded))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        (True, True),
        ("a", "a"),
        (Symbol("a"), "a"),
        (Char("a"), "a"),
        *((kind(5), 5) for kind in (UByte, UShort, UInt, ULong, Byte, Short, Int, int)),
        (0.5, 0.5),
        (Float32(0.5), 0.5),
        (b"a", b"a"),
        (UUID(int=1), UUID(int=1)),
        (Timestamp(5), Instant(5)),
        (Described(Symbol("com.microsoft:timespan"), 600_000_000), Duration(60_000)),
        (
            Described(Symbol("com.microsoft:datetime-offset"), 621_355_968_000_010_000),
            Instant(1),
        ),
        (Described(Symbol("com.microsoft:uri"), "http://a"), "http://a"),
    ],
)
def test_amqp_values_are_plain_to_rules(value: object, found: object) -> None:
    assert to_rule(value) == found
    assert type(to_rule(value)) is type(found)


def test_integers_beyond_a_long_keep_their_value() -> None:
    assert to_rule(ULong(2**64 - 1)) == 2**64 - 1


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, Decimal64(bytes(8)), Described(Symbol("x"), 1)]
)
def test_what_rules_have_no_type_for_is_carried_as_it_is(value: object) -> None:
    found = to_rule(value)
    assert isinstance(found, Opaque)
    assert amqp_value(found, None) == Encoded(encode(value))


def test_what_cannot_be_decoded_is_carried_as_it_is() -> None:
    broken = b"\xa1\x01\xff"
    found = rule_value(broken, 0, len(broken))
    assert isinstance(found, Opaque)
    assert found.encoded == broken


@pytest.mark.parametrize(
    ("value", "existing", "found"),
    [
        (5, Int(1), Int(5)),
        (1 << 31, Int(1), 1 << 31),
        (5, UByte(1), UByte(5)),
        (-5, UByte(1), -5),
        (5, None, 5),
        (5, "text", 5),
        (1 << 63, None, ULong(1 << 63)),
        (0.5, Float32(1), Float32(0.5)),
        (1e300, Float32(1), 1e300),
        (0.5, None, 0.5),
        ("a", Symbol("b"), Symbol("a")),
        ("ä", Symbol("b"), "ä"),
        ("a", "b", "a"),
        (True, 1, True),
        (None, 1, None),
        (Instant(5), None, Timestamp(5)),
        (
            Duration(60_000),
            None,
            Described(Symbol("com.microsoft:timespan"), 600_000_000),
        ),
    ],
)
def test_value_takes_the_amqp_type_that_is_there_if_it_fits(
    value: object, existing: object, found: object
) -> None:
    result = amqp_value(value, existing)
    assert result == found
    assert type(result) is type(found)


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        ("a", "string", "a"),
        (Symbol("a"), "string", "a"),
        (True, "boolean", "true"),
        (Int(5), "int", "5"),
        (UByte(5), "unsignedByte", "5"),
        (5, "long", "5"),
        (0.5, "double", "0.5"),
        (Timestamp(0), "dateTime", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_values_of_requests_keep_their_type(
    value: object, type_name: str, text: str
) -> None:
    assert typed_of_amqp(value) == typed_value(type_name, text)


def test_value_of_a_request_that_rules_have_no_type_for_is_refused() -> None:
    with pytest.raises(ArgumentError, match="string, boolean"):
        typed_of_amqp([1])


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("string", "a", "a"),
        ("int", "5", Int(5)),
        ("long", "5", 5),
        ("unsignedShort", "5", UShort(5)),
        ("float", "0.5", Float32(0.5)),
        ("double", "0.5", 0.5),
        ("boolean", "true", True),
        ("dateTime", "1970-01-01T00:00:01", Timestamp(1000)),
    ],
)
def test_values_of_rules_are_told_in_their_type(
    type_name: str, text: str, value: object
) -> None:
    found = amqp_of_typed(typed_value(type_name, text))
    assert found == value
    assert type(found) is type(value)
