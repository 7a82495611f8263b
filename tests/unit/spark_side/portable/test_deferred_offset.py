"""Offsets of deferring streams, as they are in Spark's log."""

import json
from typing import Any

import pytest

from twinbus.spark.offsets import OffsetError, read_offset
from twinbus.spark.portable.deferred_offset import (
    DeferredOffset,
    DeferredPart,
    read_deferred_offset,
)
from twinbus.spark.portable.number_ranges import NumberRanges

PART = DeferredPart(
    numbers=NumberRanges([(1, 40), (43, 50)]), size_bytes=900, has_sessions=True
)
OFFSET = DeferredOffset(reader="r", batch=3, entities={"orders": PART})
PART_JSON = OFFSET.to_json()["entities"]["orders"]


def test_an_offset_comes_back_from_the_log() -> None:
    assert read_deferred_offset(json.loads(json.dumps(OFFSET.to_json()))) == OFFSET


def test_neighbours_take_the_room_of_two_numbers() -> None:
    part = DeferredPart(
        numbers=NumberRanges.of(range(1, 100_001)), size_bytes=1, has_sessions=False
    )
    offset = DeferredOffset(reader="r" * 32, batch=1, entities={"orders": part})
    assert len(json.dumps(offset.to_json())) < 200


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mode": None}, "does not defer"),
        ({"version": 9}, "version 9"),
        ({"entities": {"orders": {}}}, "not of the format"),
        ({"entities": {"orders": {**PART_JSON, "numbers": [[4, 1]]}}}, "not of the"),
        ({"batch": "x"}, "not of the format"),
    ],
)
def test_what_is_no_offset_is_told(change: dict[str, Any], text: str) -> None:
    with pytest.raises(OffsetError, match=text):
        read_deferred_offset({**OFFSET.to_json(), **change})


def test_other_streams_tell_whose_it_is() -> None:
    with pytest.raises(OffsetError, match="settlement=defer"):
        read_offset(OFFSET.to_json())


def test_parts_are_joined() -> None:
    other = DeferredPart(
        numbers=NumberRanges([(41, 42)]), size_bytes=100, has_sessions=False
    )
    joined = PART.joined(other)
    assert list(joined.numbers.pairs()) == [(1, 50)]
    assert joined.size_bytes == 1000 and joined.has_sessions
