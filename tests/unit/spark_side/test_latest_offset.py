"""What the progress of a query tells: how far it is behind."""

from twinbus.spark.latest_offset import EntityEnd, latest_offset
from twinbus.spark.offsets import Position


def at(**numbers: int) -> Position:
    found = {int(index.removeprefix("f")): number for index, number in numbers.items()}
    return Position(generation="g", begin={}, next=found)


def test_numbers_that_were_not_read_are_the_backlog() -> None:
    ends = [EntityEnd(path="a", next={0: 50}), EntityEnd(path="b", next={0: 7})]
    assert latest_offset(ends, {"a": at(f0=20), "b": at(f0=7)}) == {
        "backlog": 30,
        "entities": {
            "a": {"backlog": 30, "next": {"0": 50}},
            "b": {"backlog": 0, "next": {"0": 7}},
        },
    }


def test_there_are_not_more_than_active_messages() -> None:
    ends = [EntityEnd(path="a", next={0: 50}, active_count=3)]
    assert latest_offset(ends, {"a": at(f0=20)})["backlog"] == 3


def test_fragments_are_added() -> None:
    base = 1 << 48
    ends = [EntityEnd(path="a", next={0: 10, 1: base + 5}, active_count=100)]
    # The second fragment was not read yet.
    assert latest_offset(ends, {"a": at(f0=8)})["backlog"] == 7


def test_an_entity_that_was_made_again_is_not_behind_its_end() -> None:
    ends = [EntityEnd(path="a", next={0: 2})]
    assert latest_offset(ends, {"a": at(f0=20)})["backlog"] == 0
    assert latest_offset([], {"gone": at(f0=20)}) == {"backlog": 0, "entities": {}}
