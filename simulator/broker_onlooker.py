"""A client of a simulated cluster that receives, one message after another, and settles
nothing.

What it gets is delivered from the memory of a broker, without a commit. So it learns
soon if a broker delivers that must not, which others would learn by a commit that
fails.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from simulator.broker_audit import BrokerAudit
from simulator.broker_roaming import RoamingClient
from simulator.broker_visit import FindBroker, Visit, read_payload

_PATIENCE_SECONDS: Final = 15.0
_WAIT_SECONDS: Final = 0.2
_PAUSES: Final = (0.02, 0.15)


class Onlooker(RoamingClient):
    """One of them."""

    step_counts = (20, 100)

    def __init__(
        self,
        name: str,
        random: Random,
        audit: BrokerAudit,
        paths: list[str],
        find: FindBroker,
        fail: Callable[[AssertionError], None],
    ) -> None:
        super().__init__(name, random, find, fail, _PATIENCE_SECONDS)
        self._audit = audit
        self._paths = paths

    async def _step(self, visit: Visit) -> None:
        await self._receive(visit, self._random.choice(self._paths))

    def _pause(self) -> float:
        return self._random.uniform(*_PAUSES)

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
