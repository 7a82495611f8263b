"""The faults that are set, in the order of their numbers.

One that has ended vanishes. Each that is set, cleared or has ended is logged: whoever
reads the log of a test must see which trouble was made on purpose.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random

from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound, QuotaExceeded
from twinbus.faults.decision import Occasion, StoreOccasion, applies
from twinbus.faults.fault import Effect, InjectedFault
from twinbus.faults.written_fault import described
from twinbus.limits import FAULTS

_log = logging.getLogger(__name__)


class FaultTable:
    """Of one server."""

    def __init__(self, random: Random) -> None:
        # Used by the faults that have no seed.
        self._random = random
        self._faults: dict[int, InjectedFault] = {}
        self._generators: dict[int, Random] = {}
        # How many operations each has hit.
        self._hit_counts: dict[int, int] = {}
        # The highest of those that were given here or at another broker.
        self._last_number = 0
        # The number after this one; several brokers give different ones.
        self.next_number: Callable[[int], int] = lambda last: last + 1
        # Called with each fault that is set: some hit what is there already.
        self.on_set: Callable[[InjectedFault], None] | None = None

    def set(self, fault: InjectedFault, now: int) -> InjectedFault:
        """Returns it with its number. Raises QuotaExceeded."""
        known = replace(fault, number=self.next_number(self._last_number))
        self._add(known, now)
        return known

    def copy(self, fault: InjectedFault, now: int) -> None:
        """Set one that has its number from another broker; once, however often it
        comes. Raises QuotaExceeded, EntityAlreadyExists."""
        known = self._faults.get(fault.number)
        if known is None:
            self._add(fault, now)
        elif replace(known, until=fault.until) != fault:
            raise EntityAlreadyExists(f"Another fault has the number {fault.number}.")

    def _add(self, fault: InjectedFault, now: int) -> None:
        """Raises QuotaExceeded."""
        if len(self.active(now)) >= FAULTS:
            raise QuotaExceeded(
                f"{FAULTS} faults are set, which is the limit. Clear some."
            )
        self._last_number = max(self._last_number, fault.number)
        self._faults[fault.number] = fault
        self._hit_counts[fault.number] = 0
        if fault.seed is not None:
            self._generators[fault.number] = Random(fault.seed)
        _log.warning("fault %d is set: %s", fault.number, described(fault))
        if self.on_set is not None:
            self.on_set(fault)

    def hit_count(self, number: int) -> int:
        """How many operations the fault with this number has hit."""
        return self._hit_counts.get(number, 0)

    def active(self, now: int) -> Sequence[InjectedFault]:
        """Those that have not ended."""
        for number in [n for n, each in self._faults.items() if each.has_ended(now)]:
            self._forget(number, "has ended")
        return list(self._faults.values())

    def clear(self, number: int | None = None) -> Sequence[InjectedFault]:
        """Clear one, or all. Raises MessagingEntityNotFound."""
        if number is not None and number not in self._faults:
            raise MessagingEntityNotFound(
                f"No fault has the number {number}. It may have ended."
            )
        numbers = list(self._faults) if number is None else [number]
        return [self._forget(each, "is cleared") for each in numbers]

    def _forget(self, number: int, why: str) -> InjectedFault:
        fault = self._faults.pop(number)
        self._generators.pop(number, None)
        self._hit_counts.pop(number, None)
        _log.warning("fault %d %s: %s", number, why, described(fault))
        return fault

    def find(
        self, effects: Collection[Effect], occasion: Occasion | StoreOccasion, now: int
    ) -> InjectedFault | None:
        """The first that applies and has one of these effects."""
        if not self._faults:
            return None
        for fault in self.active(now):
            if fault.effect in effects and self._hits(fault, occasion, now):
                self._hit_counts[fault.number] += 1
                return fault
        return None

    def _hits(
        self, fault: InjectedFault, occasion: Occasion | StoreOccasion, now: int
    ) -> bool:
        # Asked first without luck: a number is drawn only for what the fault may hit,
        # so that a seed means the same whatever else happens on the bus.
        if not applies(fault, occasion, now, 0.0):
            return False
        if fault.probability >= 1.0:
            return True
        drawn = self._generators.get(fault.number, self._random).random()
        return applies(fault, occasion, now, drawn)
