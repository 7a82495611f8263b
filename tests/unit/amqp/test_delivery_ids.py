"""Ranges of delivery ids, also where the numbers wrap around, and their cost."""

import random

import pytest

from twinbus.amqp.delivery_ids import SerialIds, find_ids

MASK = 0xFFFFFFFF
HALF = 0x80000000


def found(ids: list[int], first: int, last: int, next_id: int) -> list[int]:
    known: dict[int, object] = dict.fromkeys(ids)
    return SerialIds(known).find(first, last, next_id)


def test_short_and_long_ranges() -> None:
    known = [5, 6, 7, 100]
    assert found(known, 5, 6, 101) == [5, 6]
    assert found(known, 0, HALF - 1, 101) == known
    assert found(known, 6, 99, 101) == [6, 7]
    assert found(known, 8, 99, 101) == []
    assert found(known, 101, 5_000, 101) == []
    assert found([], 0, HALF - 1, 101) == []


def test_ranges_wrap_around() -> None:
    known = [MASK, 0, 1, 50]
    assert found(known, MASK, 1, 51) == [MASK, 0, 1]
    assert found(known, MASK - 15, 60, 51) == known
    assert found(known, MASK - 100, 0, 51) == [MASK, 0]
    assert found(known, MASK - 100, MASK - 50, 51) == []
    assert found(known, 2, 60, 51) == [50]


@pytest.mark.parametrize("seed", range(20))
def test_any_range_at_any_time_is_what_a_walk_finds(seed: int) -> None:
    chance = random.Random(seed)
    next_id = chance.choice([0, MASK - 300])
    known: dict[int, object] = {}
    ids = SerialIds(known)
    for _ in range(400):
        for _ in range(chance.choice([0, 1, 3, 60])):
            known[next_id] = None
            next_id = (next_id + 1) & MASK
        first = (next_id - chance.randrange(-20, 200)) & MASK
        last = (first + chance.randrange(150)) & MASK
        expected = [
            at
            for step in range(((last - first) & MASK) + 1)
            if (at := (first + step) & MASK) in known
        ]
        assert ids.find(first, last, next_id) == expected
        for at in expected:
            if chance.random() < 0.6:
                del known[at]


def test_a_range_of_other_ids_costs_nothing_however_many_deliveries_there_are() -> None:
    known: dict[int, object] = dict.fromkeys([*range(5_000), *range(50_000, 55_000)])
    ids = SerialIds(known)
    assert ids.find(6_000, 7_000, 55_000) == []
    before = ids.looked_at
    for step in range(1_000):
        assert ids.find(6_000 + step, 49_000, 55_000) == []
        assert ids.find(60_000, 60_000 + HALF // 2, 55_000) == []
    assert ids.looked_at == before


def test_deliveries_that_are_gone_are_passed_over_once() -> None:
    known: dict[int, object] = dict.fromkeys(range(10_000))
    ids = SerialIds(known)
    ids.find(0, 9_999, 10_000)
    for at in range(1, 9_999):
        del known[at]
    ids.find(0, 9_999, 10_000)
    before = ids.looked_at
    for _ in range(1_000):
        assert ids.find(0, 9_999, 10_000) == [0, 9_999]
    assert ids.looked_at - before == 2_000


def test_a_short_range_is_walked_and_a_long_one_is_not() -> None:
    known = dict.fromkeys([5, 7, 6, 100])
    assert find_ids(known, 5, 6) == [5, 6]
    assert find_ids(known, 0, 0xFFFFFFFF) == [5, 6, 7, 100]
    assert find_ids(known, 8, 99) == []
    assert find_ids({}, 0, 0xFFFFFFFF) == []


def test_ranges_of_ids_in_any_order_wrap_around() -> None:
    known = dict.fromkeys([1, 0xFFFFFFFF, 0, 50])
    assert find_ids(known, 0xFFFFFFFF, 1) == [0xFFFFFFFF, 0, 1]
    assert find_ids(known, 0xFFFFFFF0, 60) == [0xFFFFFFFF, 0, 1, 50]
