"""Whether the server is well: it examines itself as time passes.

If it is not, it writes a diagnosis, once, and tells whoever can end the process.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from twinbus.clock import Clock
from twinbus.diagnosis.self_check import SelfCheck
from twinbus.diagnosis.sickness import Sickness
from twinbus.limits import WATCHDOG_SECONDS
from twinbus.owner.store_owner import StoreOwner
from twinbus.process.server_diagnosis import ServerDiagnosis

_LOOK_MS: Final = 1_000
_COUNT_MS: Final = 60_000
"""How often the counters of a fragment are compared with its rows."""


class ServerCondition:
    """Of one server."""

    def __init__(
        self,
        diagnosis: ServerDiagnosis,
        owners: Sequence[StoreOwner],
        clock: Clock,
        watchdog_seconds: int,
    ) -> None:
        self._diagnosis = diagnosis
        self._clock = clock
        stall_ms = (watchdog_seconds or WATCHDOG_SECONDS) * 1000
        self._check = SelfCheck(owners, clock, stall_ms)
        self._looked_at = self._counted_at = clock.monotonic()
        self._counting: asyncio.Task[None] | None = None
        self._is_sick = False
        # Told once, after the diagnosis was written; None: the server goes on.
        self.on_sick: Callable[[Sickness], None] | None = None
        # Rises with each tick: a thread sees by it that the loop turns.
        self.tick_count = 0

    def tick(self) -> None:
        self.tick_count += 1
        monotonic = self._clock.monotonic()
        if monotonic - self._looked_at >= _LOOK_MS:
            self._looked_at = monotonic
            self._find(self._check.look(_LOOK_MS))
        is_counting = self._counting is not None and not self._counting.done()
        if monotonic - self._counted_at >= _COUNT_MS and not is_counting:
            self._counted_at = monotonic
            self._counting = asyncio.create_task(self._count(), name="self-check")

    async def _count(self) -> None:
        self._find(await self._check.count())

    def _find(self, sickness: Sickness | None) -> None:
        if sickness is None or self._is_sick:
            return
        self._is_sick = True
        self._diagnosis.try_to_write(sickness)
        if self.on_sick is not None:
            self.on_sick(sickness)

    def stop(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
