"""The faults that are set, in the order of their numbers.

One that has ended vanishes. Each that is set, cleared or has ended is logged: whoever
reads the log of a test must see which trouble was made on purpose.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from random import Random

from twinbus.errors import MessagingEntityNotFound, QuotaExceeded
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
        self._last_number = 0
        # Called with each fault that is set: some hit what is there already.
        self.on_set: Callable[[InjectedFault], None] | None = None

    def set(self, fault: InjectedFault, now: int) -> InjectedFault:
        """Returns it with its number. Raises QuotaExceeded."""
        if len(self.active(now)) >= FAULTS:
            raise QuotaExceeded(
                f"{FAULTS} faults are set, which is the limit. Clear some."
            )
        self._last_number += 1
        known = replace(fault, number=self._last_number)
        self._faults[known.number] = known
        if known.seed is not None:
            self._generators[known.number] = Random(known.seed)
        _log.warning("fault %d is set: %s", known.number, described(known))
        if self.on_set is not None:
            self.on_set(known)
        return known

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
