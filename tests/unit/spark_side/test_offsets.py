"""What a stream keeps in Spark's log."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.offsets import Offset, OffsetError, Position, read_offset

numbers = st.dictionaries(st.integers(0, 15), st.integers(0, 2**63 - 1), max_size=3)
positions = st.builds(
    Position, generation=st.text(max_size=32), begin=numbers, next=numbers
)
offsets = st.builds(
    Offset,
    reader=st.text(min_size=1, max_size=128),
    entities=st.dictionaries(st.text(max_size=50), positions, max_size=4),
)


@given(offsets)
def test_an_offset_comes_back_from_the_log(offset: Offset) -> None:
    assert read_offset(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 1},
        {"version": 1, "reader": "r", "entities": []},
        {"version": 1, "reader": "r", "entities": {"q": {"generation": "g"}}},
        {
            "version": 1,
            "reader": "r",
            "entities": {"q": {"generation": "g", "begin": {"x": 1}, "next": {}}},
        },
    ],
)
def test_what_is_no_offset_is_told(content: dict[str, Any]) -> None:
    with pytest.raises(OffsetError, match="another checkpoint location"):
        read_offset(content)


def test_an_offset_of_another_version_is_told() -> None:
    with pytest.raises(OffsetError, match="version 7"):
        read_offset({"version": 7, "reader": "r", "entities": {}})


def test_an_offset_of_another_settlement_is_told() -> None:
    with pytest.raises(OffsetError, match="settlement=defer"):
        read_offset({"version": 1, "mode": "defer"})
