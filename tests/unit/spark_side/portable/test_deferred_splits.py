"""Deferred numbers as work for tasks."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.portable.deferred_offset import DeferredPart
from twinbus.spark.portable.deferred_splits import splits
from twinbus.spark.portable.number_ranges import NumberRanges


def part_of(numbers: NumberRanges) -> DeferredPart:
    return DeferredPart(numbers=numbers, size_bytes=0, has_sessions=False)


def _ranges(steps: list[tuple[int, int]]) -> NumberRanges:
    """Ranges of so many numbers, each so far behind the one before."""
    at, found = 1, []
    for count, gap in steps:
        found.append((at, at + count - 1))
        at += count + gap
    return NumberRanges(found)


RANGES = st.lists(
    st.tuples(st.integers(1, 3_000), st.integers(1, 50)), min_size=1, max_size=8
).map(_ranges)


@given(RANGES, RANGES, st.integers(1, 8))
def test_each_number_is_read_once(
    first: NumberRanges, second: NumberRanges, max_partitions: int
) -> None:
    entities = {"a": part_of(first), "b": part_of(second)}
    found = splits(entities, max_partitions)
    assert len(found) <= max_partitions
    for path, part in entities.items():
        numbers = [
            number
            for ranges in found
            for one in ranges
            if one.path == path
            for number in range(one.first, one.end)
        ]
        assert numbers == list(part.numbers)


def test_scattered_numbers_stay_together() -> None:
    numbers = NumberRanges.of(range(1, 2_001, 2))
    sizes = [len(ranges) for ranges in splits({"a": part_of(numbers)}, 2)]
    assert sizes == [500, 500]


def test_few_messages_are_one_task() -> None:
    numbers = NumberRanges.of(range(1, 400))
    assert len(splits({"a": part_of(numbers)}, 8)) == 1
