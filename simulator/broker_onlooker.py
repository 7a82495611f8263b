"""A client of a simulated cluster that receives, one message after another, and settles
nothing.

What it gets is delivered from the memory of a broker, without a commit. So it learns
soon if a broker delivers that must not, which others would learn by a commit that
fails.
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Final

from simulator.broker_audit import BrokerAudit
from simulator.broker_visit import FindBroker, Troubles, Visit, read_payload, visited

_PATIENCE_SECONDS: Final = 15.0
_WAIT_SECONDS: Final = 0.2
_PAUSES: Final = (0.02, 0.15)


class Onlooker:
    """One of them."""

    def __init__(
        self,
        name: str,
        random: Random,
        audit: BrokerAudit,
        paths: list[str],
        find: FindBroker,
        fail: Callable[[AssertionError], None],
    ) -> None:
        self.name = name
        self._random = random
        self._audit = audit
        self._paths = paths
        self._find = find
        self._fail = fail
        self.is_leaving = False

    async def live(self) -> None:
        """Until it is told to leave."""
        try:
            while not self.is_leaving:
                with contextlib.suppress(*Troubles):
                    await self._visit()
                await asyncio.sleep(self._random.uniform(0.01, 0.5))
        except AssertionError as violation:
            self._fail(violation)

    async def _visit(self) -> None:
        found = self._find(self._random)
        if found is None:
            return
        visit = await visited(found, _PATIENCE_SECONDS)
        try:
            for _ in range(self._random.randint(20, 100)):
                if not visit.connection.is_open or self.is_leaving:
                    return
                await self._receive(visit, self._random.choice(self._paths))
                await asyncio.sleep(self._random.uniform(*_PAUSES))
        finally:
            visit.connection.abort()

    async def _receive(self, visit: Visit, path: str) -> None:
        visit.forget_lost()
        receiver = await visit.receiver(path)
        if receiver.credit == 0:
            receiver.issue_credit(1)
        for message in await receiver.receive_batch(1, timeout_seconds=_WAIT_SECONDS):
            number, delivery_count = read_payload(message)
            self._audit.delivered(
                path, number, message.delivery_tag, delivery_count, None
            )
