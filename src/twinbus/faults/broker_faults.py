"""The faults of one broker in JSON: what clients see, and brokers tell each other.

With several brokers each has all faults, because the broker that has a client or a
store need not be the one that was asked to set a fault. Each counts its own hits.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twinbus.clock import Clock
from twinbus.errors import MessagingEntityNotFound
from twinbus.faults.fault import InjectedFault
from twinbus.faults.fault_table import FaultTable
from twinbus.faults.written_fault import read_copy, read_fault, write_fault

Shown = dict[str, Any]


class BrokerFaults:
    """Of this broker."""

    def __init__(self, table: FaultTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def set(self, written: Mapping[str, Any]) -> Shown:
        """Raises ArgumentError, QuotaExceeded."""
        now = self._clock.now()
        return self._shown(self._table.set(read_fault(written, now), now))

    def copy(self, shown: Mapping[str, Any]) -> None:
        """Set what another broker has set. Raises ArgumentError, QuotaExceeded,
        EntityAlreadyExists."""
        now = self._clock.now()
        self._table.copy(read_copy(shown, now), now)

    def all(self) -> list[Shown]:
        return [self._shown(one) for one in self._table.active(self._clock.now())]

    def clear(self, number: int | None) -> list[Shown]:
        """Clear one, or all. Returns what was cleared: nothing if this broker does not
        have it."""
        shown = [one for one in self.all() if number in (None, one["number"])]
        with contextlib.suppress(MessagingEntityNotFound):
            self._table.clear(number)
        return shown

    def _shown(self, fault: InjectedFault) -> Shown:
        hit_count = self._table.hit_count(fault.number)
        return {**write_fault(fault, self._clock.now()), "hits": hit_count}


def merged(shares: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[Shown]:
    """The faults of several brokers, by their names: each once, with what it did at
    all of them. `brokers` has the hits at those that have it."""
    found: dict[int, Shown] = {}
    for broker, faults in shares:
        for one in faults:
            known = found.setdefault(one["number"], {**one, "hits": 0, "brokers": {}})
            known["hits"] += one["hits"]
            known["brokers"][broker] = one["hits"]
    return [found[number] for number in sorted(found)]


def next_of_share(last: int, position: int, count: int) -> int:
    """The next number that the broker at this position gives. Each of `count` brokers
    has numbers of its own, so that two need not ask each other."""
    return last + 1 + (position - last - 1) % count
