"""Many ranges become few partitions."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.packing import Range, pack


def some_range(path: str, at: int, count: int, size: int = 0) -> Range:
    return Range(
        path=path,
        generation="g",
        fragment=0,
        first=at,
        end=at + 10,
        message_count=count,
        size_bytes=size,
    )


ranges = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 5_000), st.integers(0, 10**6)),
    max_size=60,
).map(
    lambda found: [
        some_range(f"q{path}", 10 * at, count, size)
        for at, (path, count, size) in enumerate(found)
    ]
)


@given(ranges, st.integers(1, 20))
def test_each_range_with_messages_is_in_one_partition(
    found: list[Range], most: int
) -> None:
    parts = pack(found, most)
    assert len(parts) <= most
    assert all(parts)
    packed = [one for part in parts for one in part]
    assert sorted(packed, key=lambda one: one.first) == [
        one for one in found if one.message_count > 0
    ]


@given(ranges, st.integers(1, 20))
def test_within_a_partition_ranges_stay_in_order(found: list[Range], most: int) -> None:
    for part in pack(found, most):
        assert [one.first for one in part] == sorted(one.first for one in part)


@given(ranges, st.integers(1, 20))
def test_no_partition_is_much_heavier_than_another(
    found: list[Range], most: int
) -> None:
    """The heaviest is over the lightest by at most one range."""
    weights = [sum(one.weight for one in part) for part in pack(found, most)]
    if weights:
        largest = max(one.weight for one in found)
        assert max(weights) - min(weights) <= largest


def test_three_hundred_queues_are_four_partitions() -> None:
    found = [some_range(f"q{n}", 0, 1) for n in range(300)]
    assert [len(part) for part in pack(found, 4)] == [75] * 4


def test_nothing_is_no_partition() -> None:
    assert pack([], 4) == []
    assert pack([some_range("q", 0, 0)], 4) == []
