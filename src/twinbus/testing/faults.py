"""Faults of a test's bus.

    bus.faults.set("refuse", operations=["send"], entity="orders")
    bus.faults.set("slow", delay="0.5s", lasts="30s")
    bus.faults.clear()

The names are those of `twinbus faults set`. Durations follow the clock of the bus.
"""

from collections.abc import Callable, Sequence
from typing import Any

from twinbus.faults.fault import InjectedFault
from twinbus.faults.faults import Faults
from twinbus.faults.written_fault import read_fault


class BusFaults:
    """What fails on purpose on one bus."""

    def __init__(self, faults: Faults, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._faults = faults
        # Calls a function in the loop of the bus.
        self._run = run

    def set(self, effect: str, *, lasts: str | None = None, **parts: Any) -> int:
        """Set a fault; returns its number. Raises ArgumentError, QuotaExceeded."""
        written = {"effect": effect, "for": lasts, **parts}

        def set_fault() -> int:
            now = self._faults.clock.now()
            return self._faults.table.set(read_fault(written, now), now).number

        number: int = self._run(set_fault)
        return number

    def clear(self, number: int | None = None) -> None:
        """Clear one, or all. Raises MessagingEntityNotFound."""
        self._run(lambda: self._faults.table.clear(number))

    def active(self) -> Sequence[InjectedFault]:
        """Those that have not ended."""
        found: Sequence[InjectedFault] = self._run(
            lambda: self._faults.table.active(self._faults.clock.now())
        )
        return found
