"""A client of a simulated cluster that goes from broker to broker."""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import ClassVar

from simulator.broker_visit import FindBroker, Troubles, Visit, visited


class RoamingClient:
    """Connects to any broker, does some things there, and goes to another one."""

    # So many things it does at a broker.
    step_counts: ClassVar[tuple[int, int]]
    # So many seconds it is connected to none.
    away_seconds: ClassVar[tuple[float, float]] = (0.01, 0.5)

    def __init__(
        self,
        name: str,
        random: Random,
        find: FindBroker,
        fail: Callable[[AssertionError], None],
        patience: float,
    ) -> None:
        self.name = name
        self._random = random
        self._find = find
        self._fail = fail
        self._patience = patience
        self.is_leaving = False

    async def live(self) -> None:
        """Until it is told to leave."""
        try:
            while not self.is_leaving:
                with contextlib.suppress(*Troubles):
                    await self._visit()
                await asyncio.sleep(self._random.uniform(*self.away_seconds))
        except AssertionError as violation:
            self._fail(violation)

    async def _visit(self) -> None:
        found = self._find(self._random)
        if found is None:
            return
        visit = await visited(found, self._patience)
        try:
            for _ in range(self._random.randint(*self.step_counts)):
                if not visit.connection.is_open or self.is_leaving:
                    return
                await self._step(visit)
                await asyncio.sleep(self._pause())
        finally:
            self._left(visit)
            visit.connection.abort()

    async def _step(self, visit: Visit) -> None:
        """Do one thing."""
        raise NotImplementedError

    def _pause(self) -> float:
        """Seconds until the next thing."""
        raise NotImplementedError

    def _left(self, visit: Visit) -> None:
        """A visit is over."""
