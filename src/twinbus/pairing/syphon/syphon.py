"""The syphon of a pair: a worker for each backlog queue, found through administration.

It also empties surplus queues, which no sender uses any more, and notices queues that
are new or were made again. The engine knows the protocol; this module does not.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final, Generic

from twinbus.clock import Clock, SystemClock
from twinbus.pairing.events import PairEvent
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.ports import BacklogQueue, Engine, M
from twinbus.pairing.syphon.restorer import Restorer
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.tally import SyphonStatus, Tally
from twinbus.pairing.syphon.troubles import WHOLE, Troubles
from twinbus.pairing.syphon.worker import Worker

_log = logging.getLogger(__name__)

TRANSFER: Final = "x-servicebus-transfer"
"""The part of a backlog queue's path after the primary's name (P4)."""

_CLOSE_SECONDS: Final = 15.0
"""How long received messages may take at the end: more than one attempt."""


class Syphon(Generic[M]):
    """Brings the backlog of one primary back; `start` it once, `close` it once."""

    def __init__(
        self,
        engine: Engine[M],
        primary_name: str,
        settings: SyphonSettings | None = None,
        *,
        on_event: Callable[[PairEvent], None] | None = None,
        clock: Clock | None = None,
        tally: Tally | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        """The engine is closed with the syphon. A service that runs one syphon after
        the other gives its own `tally` and `troubles`."""
        self._engine = engine
        self._prefix = f"{primary_name}/{TRANSFER}/"
        self._settings = settings or SyphonSettings()
        self._clock = clock or SystemClock()
        self._restorer: Restorer[M] = Restorer(
            engine.outlet,
            self._settings,
            self._clock,
            on_event or _ignore,
            tally,
            troubles,
        )
        self._workers: dict[BacklogQueue, Worker[M]] = {}
        self._tasks: dict[BacklogQueue, asyncio.Task[None]] = {}
        self._discovering: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Find the backlog queues and begin. Raises SecondaryError."""
        await self._discover()
        self._checking = asyncio.create_task(
            self._check_credentials(), name="the syphon's credentials"
        )
        if not self._settings.until_empty:
            self._discovering = asyncio.create_task(
                self._discover_for_ever(), name="discovery of backlog queues"
            )

    async def _check_credentials(self) -> None:
        """Report a wrong key now, and not when the first message is restored."""
        limit = self._settings.attempt_timeout_ms / 1000
        fault = await self._engine.outlet.credentials_fault(limit)
        if fault:
            text = f"the primary refuses the syphon's credentials: {fault}"
            _log.error("%s", text)
            self._restorer.troubles.begin(WHOLE, text)

    async def finished(self) -> None:
        """Wait for all workers: in the mode `until_empty`, until there is nothing left
        to do. Raises what ended them: PrimaryAway, SecondaryError."""
        await asyncio.gather(*self._tasks.values())

    async def close(self, *, at_once: bool = False) -> None:
        """End after the received messages. If they take too long, drop them: their
        locks will end."""
        if not at_once:
            await self.settle_down()
        tasks = list(self._tasks.values())
        for task in (self._discovering, self._checking):
            if task is not None:
                tasks.append(task)
        await _cancelled(tasks)
        await self._restorer.watch.close()
        await self._engine.close()

    async def settle_down(self) -> None:
        """Receive no more messages, and finish those that were received."""
        if self._discovering is not None:
            await _cancelled([self._discovering])
        for worker in self._workers.values():
            worker.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_CLOSE_SECONDS)

    def status(self) -> SyphonStatus:
        tally = self._restorer.tally
        restorer = self._restorer
        return SyphonStatus(
            is_running=True,
            trouble=restorer.troubles.texts() + restorer.gates.complaints(),
            engine=self._engine.name,
            queues=tuple(sorted(queue.path for queue in self._workers)),
            receives=tally.receives,
            received=tally.received,
            restored=tally.restored,
            parked=tally.parked,
            poison=tally.poison,
            rate=tally.rate(self._clock.monotonic()),
            parked_entities=tuple(sorted(self._restorer.gates.closed())),
            is_primary_reachable=self._restorer.watch.is_reachable,
        )

    # --- backlog queues -------------------------------------------------------

    async def _discover_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.discovery_ms / 1000)
            try:
                await self._discover()
            except SecondaryError as error:
                _log.warning("backlog queues could not be looked for: %s", error)
            except Exception:
                _log.exception("backlog queues could not be looked for")

    async def _discover(self) -> None:
        """Start workers for new queues, and for queues whose worker ended by a bug; end
        the workers of queues that are gone."""
        found = await self._engine.secondary.queues(self._prefix)
        index = re.compile(re.escape(self._prefix) + r"\d+", re.ASCII | re.IGNORECASE)
        there = {queue for queue in found if index.fullmatch(queue.path)}
        gone = [
            queue
            for queue, task in self._tasks.items()
            if queue not in there or task.done()
        ]
        for queue in gone:
            self._workers.pop(queue).stop()
            await _cancelled([self._tasks.pop(queue)])
        for queue in found:
            if queue in there and queue not in self._workers:
                self._begin(queue)

    def _begin(self, queue: BacklogQueue) -> None:
        worker = Worker(self._engine.secondary.source(queue), self._restorer)
        self._workers[queue] = worker
        self._tasks[queue] = asyncio.create_task(worker.run(), name=queue.path)
        self._tasks[queue].add_done_callback(_log_bug)


def _ignore(event: PairEvent) -> None:
    """A listener that does nothing."""


def _log_bug(task: asyncio.Task[None]) -> None:
    """Log it at once if a worker ended with an error that it must not raise."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("the worker of %s ended", task.get_name(), exc_info=error)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
