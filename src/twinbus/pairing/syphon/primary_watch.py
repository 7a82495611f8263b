"""Whether the primary can be reached at all.

While it cannot, the syphon receives nothing: a backlog that nobody can empty is best
left where it is, unlocked and not deferred. One check serves all workers that see a
failure at the same time; what is away is looked at again after growing intervals.
"""

import asyncio
import logging
from dataclasses import replace

from twinbus.clock import Clock
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.reporting import Reporter
from twinbus.pairing.syphon.gates import Gate
from twinbus.pairing.syphon.ports import M, Outlet, RestoreRefusal
from twinbus.pairing.syphon.settings import LAST_LOOK_MS, SyphonSettings

_log = logging.getLogger(__name__)

_AWAY = RestoreRefusal(FailureKind.CONNECTION, "the primary cannot be reached")


class PrimaryWatch:
    """The gate of the whole primary."""

    def __init__(
        self,
        outlet: Outlet[M],
        settings: SyphonSettings,
        clock: Clock,
        report: Reporter,
    ) -> None:
        self._outlet = outlet
        self._settings = settings
        self._clock = clock
        self._report = report
        longest_ms = min(settings.last_probe_ms, LAST_LOOK_MS)
        self._gate = Gate(replace(settings, last_probe_ms=longest_ms))
        self._mutex = asyncio.Lock()
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._watching: asyncio.Task[None] | None = None
        # When a message was accepted last, by the clock that never goes back.
        self._accepted_at = -1

    @property
    def is_reachable(self) -> bool:
        return self._reachable.is_set()

    def accepted(self) -> None:
        self._accepted_at = self._clock.monotonic()

    async def until_reachable(self) -> None:
        await self._reachable.wait()

    async def doubt(self, since: int) -> bool:
        """An attempt that began then was not answered. Returns whether the primary
        can be reached nevertheless."""
        async with self._mutex:
            if self._accepted_at >= since:
                return True
            if self.is_reachable and not await self._look():
                self._lose()
            return self.is_reachable

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _look(self) -> bool:
        return await self._outlet.is_reachable(self._settings.attempt_timeout_ms / 1000)

    def _lose(self) -> None:
        _log.warning("the primary cannot be reached: the syphon waits for it")
        self._reachable.clear()
        self._report(PairEvent(kind=EventKind.PARKED, text=_AWAY.text))
        self._watching = asyncio.create_task(self._watch(), name="primary watch")

    async def _watch(self) -> None:
        """Until it can be reached again."""
        while True:
            now = self._clock.monotonic()
            self._gate.close(_AWAY, now)
            await asyncio.sleep((self._gate.retry_at - now) / 1000)
            if await self._look():
                break
        self._gate.open()
        _log.warning("the primary can be reached again")
        self._reachable.set()
        self._report(PairEvent(kind=EventKind.UNPARKED, text="the primary is back"))
