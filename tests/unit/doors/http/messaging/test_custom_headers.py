"""Application properties as headers, in both directions."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.types import Int, Symbol, Timestamp, UInt
from twinbus.doors.http.messaging.custom_headers import (
    property_headers,
    read_json_properties,
    read_properties,
)
from twinbus.errors import ArgumentError, ArgumentOutOfRange


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"text"', "text"),
        ('""', ""),
        ('"', '"'),
        (r'"a \"b\" \n \u00e9"', 'a "b" \n \u00e9'),
        (r'"C:\data"', r"C:\data"),
        ('"a" and "b"', 'a" and "b'),
        ("bare", "bare"),
        ("5", Int(5)),
        ("-2147483648", Int(-(1 << 31))),
        ("2147483648", 1 << 31),
        ("+7", Int(7)),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
        ("0x10", "0x10"),
        ("nan", "nan"),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("null", None),
        ("\u00c3\u00a9", "\u00e9"),
        ("\u00e9", "\u00e9"),
        ("", ""),
    ],
)
def test_value_has_the_type_that_it_looks_like(value: str, expected: object) -> None:
    read = read_properties({"x": value}, {"x": "X"})
    assert read == {"X": expected}
    assert type(read["X"]) is type(expected)


def test_headers_of_http_are_no_properties() -> None:
    headers = {"host": "a", "content-type": "b", "brokerproperties": "{}", "mine": "c"}
    assert read_properties(headers, {}) == {"mine": "c"}


def test_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(ArgumentOutOfRange, match="'x'"):
        read_properties({"x": "9999999999999999999"}, {})
    with pytest.raises(ArgumentOutOfRange):
        read_json_properties({"x": 1 << 63})
    with pytest.raises(ArgumentError, match="'x'"):
        read_json_properties({"x": {}})


def test_values_are_shown_so_that_they_can_be_sent_again() -> None:
    shown = property_headers(
        {
            "text": 'a "b"\r\n\u00e9',
            "number": UInt(5),
            "ratio": 0.5,
            "nan": float("nan"),
            "yes": True,
            "nothing": None,
            "time": Timestamp(1_400_000_000_000),
            "id": UUID(int=1),
            Symbol("symbol"): Symbol("s"),
            "bytes": b"\x01",
        }
    )
    assert shown == {
        "text": r'"a \"b\"\r\n\u00e9"',
        "number": "5",
        "ratio": "0.5",
        "nan": '"nan"',
        "yes": "true",
        "nothing": "null",
        "time": '"Tue, 13 May 2014 16:53:20 GMT"',
        "id": '"00000000-0000-0000-0000-000000000001"',
        "symbol": '"s"',
        "bytes": '"AQ=="',
    }


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), _VALUES))
def test_properties_survive_the_way_there_and_back(given: dict[Any, Any]) -> None:
    """Whatever they are called and contain, and no value ends its header."""
    shown = property_headers(given)
    for name, value in shown.items():
        assert value.isascii() and value.isprintable()
        assert name.isascii() and name.isprintable()
    others = json.loads(shown.pop("x-twinbus-properties", "{}"))
    headers = {name.lower(): value for name, value in shown.items()}
    if len(headers) < len(shown):
        return  # two names that differ in case only are one header
    names = {name.lower(): name for name in shown}
    read = {**read_properties(headers, names), **others}
    assert {str(name): value for name, value in read.items()} == given
