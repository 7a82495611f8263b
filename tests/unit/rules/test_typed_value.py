"""Values of rules: types, texts and parsed values."""

import math
from uuid import UUID

import pytest

from twinbus.errors import ArgumentError
from twinbus.rules.typed_value import TypedValue, instant_text, typed, typed_value
from twinbus.rules.values import Duration, Instant


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("string", "", ""),
        ("string", "5", "5"),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", "1", True),
        ("int", "-5", -5),
        ("long", "9223372036854775807", 2**63 - 1),
        ("unsignedLong", "18446744073709551615", 2**64 - 1),
        ("double", "1E3", 1000.0),
        ("double", "INF", math.inf),
        ("double", "-INF", -math.inf),
        ("float", "0.5", 0.5),
        ("dateTime", "1970-01-01T00:00:01", Instant(1000)),
        ("dateTime", "1970-01-01T00:00:01.5Z", Instant(1500)),
        ("dateTime", "1970-01-01T01:00:00.0000000+01:00", Instant(0)),
        ("dateTime", "1969-12-31T23:59:59.9999999Z", Instant(-1)),
        ("duration", "P1DT2H3M4.5S", Duration(93_784_500)),
        ("duration", "PT0S", Duration(0)),
        ("duration", "-PT1M", Duration(-60_000)),
        ("guid", "00000000-0000-0000-0000-00000000000a", UUID(int=10)),
        ("base64Binary", "AAE=", b"\x00\x01"),
    ],
)
def test_texts_have_values(type_name: str, text: str, value: object) -> None:
    found = typed_value(type_name, text)
    assert found.value == value
    assert type(found.value) is type(value)
    assert (found.type_name, found.text) == (type_name, text)


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("boolean", "yes"),
        ("int", "2147483648"),
        ("int", "1.5"),
        ("int", ""),
        ("int", "\u0661"),
        ("byte", "128"),
        ("unsignedInt", "-1"),
        ("long", "9" * 1000),
        ("double", "much"),
        ("dateTime", "yesterday"),
        ("dateTime", "2020-02-30T00:00:00Z"),
        ("duration", "P"),
        ("duration", "PT"),
        ("duration", "P1DT"),
        ("duration", "1 day"),
        ("duration", "P10675200D"),
        ("guid", "1"),
        ("base64Binary", "A"),
        ("base64Binary", "\u00e4"),
    ],
)
def test_texts_without_a_value_are_refused(type_name: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=type_name):
        typed_value(type_name, text)


def test_unknown_type_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'decimal'.*string, boolean"):
        typed_value("decimal", "1")


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        ("a", "string", "a"),
        (True, "boolean", "true"),
        (5, "long", "5"),
        (0.5, "double", "0.5"),
        (math.inf, "double", "INF"),
        (-math.inf, "double", "-INF"),
        (UUID(int=1), "guid", "00000000-0000-0000-0000-000000000001"),
        (b"\x00\x01", "base64Binary", "AAE="),
        (Instant(1500), "dateTime", "1970-01-01T00:00:01.500Z"),
        (Duration(-93_784_500), "duration", "-P1DT2H3M4.500S"),
    ],
)
def test_values_have_types(value: object, type_name: str, text: str) -> None:
    found = typed(value)
    assert (found.type_name, found.text, found.value) == (type_name, text, value)


def test_not_a_number_has_a_text() -> None:
    assert typed(math.nan).text == "NaN"


def test_value_with_a_type_keeps_it() -> None:
    value = typed_value("int", "5")
    assert typed(value) is value


def test_values_are_equal_in_type_and_text() -> None:
    assert typed_value("int", "5") == typed_value("int", "5")
    assert typed_value("int", "5") != typed_value("long", "5")
    assert typed_value("double", "1.0") != typed_value("double", "1.00")
    assert hash(typed_value("int", "5")) == hash(TypedValue("int", "5", 5))
    assert repr(typed_value("int", "5")) == "TypedValue('int', '5')"


def test_time_beyond_the_calendar_is_no_value_of_a_rule() -> None:
    assert instant_text(1 << 62) == f"{1 << 62}ms"
    with pytest.raises(ArgumentError, match="dateTime"):
        typed(Instant(1 << 62))
