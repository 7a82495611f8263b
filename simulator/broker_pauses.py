"""Moments at which a simulated process is stopped on purpose.

A process can be stopped anywhere. Most of these moments are alike; those around a step
that others see are not. Whoever stops a process there learns it at once.
"""

import asyncio
from enum import Enum

from simulator.process_loop import SimulatedProcess


class Moment(Enum):
    """Next to which step of a store's owner the process stops."""

    BEFORE_COMMIT = "before a commit"
    WITHIN_COMMIT = "within a commit"
    AFTER_COMMIT = "after a commit"
    BEFORE_RENEWAL = "before a renewal"
    AFTER_RENEWAL = "after a renewal"
    BEFORE_TAKE = "before it takes a store"
    AFTER_TAKE = "after it has taken a store"


class Pauses:
    """Of one process: at which moment it stops next, if at any."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process
        self._moment: Moment | None = None
        self._has_come = asyncio.Event()

    async def expect(self, moment: Moment, seconds: float) -> bool:
        """Stop the process when that moment comes; False if it does not come in so
        many seconds, or the process ends before."""
        self._moment = moment
        self._has_come.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._has_come.wait()
        except TimeoutError:
            self._moment = None
        return self._process.is_frozen and not self._process.has_ended

    async def come(self, moment: Moment) -> None:
        """The moment has come."""
        if self.stops(moment):
            # Goes on when the process does.
            await asyncio.sleep(0)

    def stops(self, moment: Moment) -> bool:
        """Whether the process is stopped now."""
        if moment is not self._moment:
            return False
        self._moment = None
        self._process.freeze()
        self._has_come.set()
        return True
