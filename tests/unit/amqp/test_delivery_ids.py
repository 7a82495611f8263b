"""Ranges of delivery ids, also around the end of the numbers."""

from twinbus.amqp.delivery_ids import find_ids


def test_a_short_range_is_walked_and_a_long_one_is_not() -> None:
    known = dict.fromkeys([5, 7, 6, 100])
    assert find_ids(known, 5, 6) == [5, 6]
    assert find_ids(known, 0, 0xFFFFFFFF) == [5, 6, 7, 100]
    assert find_ids(known, 8, 99) == []
    assert find_ids({}, 0, 0xFFFFFFFF) == []


def test_ranges_wrap_around() -> None:
    known = dict.fromkeys([1, 0xFFFFFFFF, 0, 50])
    assert find_ids(known, 0xFFFFFFFF, 1) == [0xFFFFFFFF, 0, 1]
    assert find_ids(known, 0xFFFFFFF0, 60) == [0xFFFFFFFF, 0, 1, 50]
