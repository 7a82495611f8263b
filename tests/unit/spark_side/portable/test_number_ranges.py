"""Sets of numbers as ranges."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.portable.number_ranges import NumberRanges

NUMBERS = st.sets(st.integers(min_value=0, max_value=200))


@given(NUMBERS)
def test_ranges_have_what_they_were_made_of(numbers: set[int]) -> None:
    ranges = NumberRanges.of(numbers)
    assert list(ranges) == sorted(numbers)
    assert len(ranges) == len(numbers)
    assert NumberRanges(ranges.pairs()) == ranges


@given(NUMBERS, st.integers(min_value=0, max_value=201))
def test_the_next_number_is_the_lowest_from_there_on(
    numbers: set[int], at: int
) -> None:
    ranges = NumberRanges.of(numbers)
    assert ranges.next_from(at) == min((n for n in numbers if n >= at), default=None)
    assert (at in ranges) == (at in numbers)


@given(NUMBERS)
def test_neighbours_are_one_range(numbers: set[int]) -> None:
    pairs = list(NumberRanges.of(numbers).pairs())
    assert all(before[1] + 1 < after[0] for before, after in pairwise(pairs))


@pytest.mark.parametrize("ranges", [[(1, 3), (3, 4)], [(5, 4)]])
def test_ranges_that_cannot_be_are_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        NumberRanges(ranges)
