"""The faults of several brokers: told to each other, counted together."""

from random import Random
from typing import Any

import pytest

from twinbus.errors import ArgumentError, EntityAlreadyExists
from twinbus.faults.broker_faults import BrokerFaults, merged, next_of_share
from twinbus.faults.decision import Occasion
from twinbus.faults.fault import Effect, Operation
from twinbus.faults.fault_table import FaultTable

SEND = Occasion(operation=Operation.SEND, entity="orders", namespace="site-a")
SLOW = {"effect": "slow", "delay": "2s", "store": "/data/*", "for": "30s"}
REFUSE = {"effect": "refuse", "operations": ["send"], "seed": 7, "probability": 0.5}


class FixedClock:
    """Shows the time that it is given."""

    def __init__(self, now: int) -> None:
        self.time = now

    def now(self) -> int:
        return self.time

    def monotonic(self) -> int:
        return self.time


def broker(now: int = 0) -> tuple[BrokerFaults, FaultTable, FixedClock]:
    table, clock = FaultTable(Random(1)), FixedClock(now)
    return BrokerFaults(table, clock), table, clock


@pytest.mark.parametrize("written", [SLOW, REFUSE])
def test_copy_is_the_same_fault(written: dict[str, Any]) -> None:
    first, _, _ = broker()
    # Its clock is ahead, which changes only when the fault ends by it.
    second, _, _ = broker(now=5000)
    shown = first.set(written)
    second.copy(shown)
    (copied,) = second.all()
    assert copied | {"until": 0} == shown | {"until": 0}


def test_copy_ends_after_the_time_that_is_left() -> None:
    first, _, clock = broker()
    second, _, other_clock = broker(now=5000)
    first.set(SLOW)
    clock.time = 10_000
    second.copy(first.all()[0])
    other_clock.time = 24_999
    assert len(second.all()) == 1
    other_clock.time = 25_000
    assert second.all() == []


def test_copy_that_comes_twice_is_set_once() -> None:
    first, _, _ = broker()
    second, _, clock = broker()
    shown = first.set(SLOW)
    second.copy(shown)
    clock.time = 30
    second.copy(shown)
    assert len(second.all()) == 1


def test_number_of_another_fault_is_refused() -> None:
    first, _, _ = broker()
    second, _, _ = broker()
    second.set(REFUSE)
    with pytest.raises(EntityAlreadyExists, match="number 1"):
        second.copy(first.set(SLOW))


@pytest.mark.parametrize("shown", [{}, {"left_ms": None, "effect": "new"}])
def test_fault_of_another_version_is_refused(shown: dict[str, Any]) -> None:
    faults, _, _ = broker()
    with pytest.raises(ArgumentError):
        faults.copy(shown)
    assert faults.all() == []


def test_numbers_go_on_after_those_of_others() -> None:
    first, _, _ = broker()
    second, _, _ = broker()
    first.copy(second.set(SLOW) | {"number": 9})
    assert first.set(REFUSE)["number"] == 10


def test_hits_are_counted_until_the_fault_is_cleared() -> None:
    faults, table, _ = broker()
    faults.set({"effect": "refuse", "operations": ["send"]})
    for _ in range(3):
        table.find((Effect.REFUSE,), SEND, 0)
    table.find((Effect.DROP,), SEND, 0)
    assert [one["hits"] for one in faults.clear(1)] == [3]
    assert faults.clear(1) == faults.clear(None) == []
    assert table.hit_count(1) == 0


def test_faults_of_all_brokers_are_listed_once_with_all_hits() -> None:
    found = merged(
        [
            ("1", [{"number": 2, "hits": 3}, {"number": 1, "hits": 0}]),
            ("2", [{"number": 2, "hits": 4}]),
            ("3", []),
        ]
    )
    assert found == [
        {"number": 1, "hits": 0, "brokers": {"1": 0}},
        {"number": 2, "hits": 7, "brokers": {"1": 3, "2": 4}},
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_brokers_give_different_numbers(count: int) -> None:
    for last in range(12):
        given = {next_of_share(last, position, count) for position in range(count)}
        assert given == set(range(last + 1, last + 1 + count))
