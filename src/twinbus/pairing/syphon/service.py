"""Keeps a syphon running through outages of either side, with a lease if it needs one.

Which engine fits is known only when both sides answer. So the engine is chosen here,
and again after a failure. With a lease, only its holder runs a syphon. A process that
loses the lease stops its syphon at once and waits for the lease again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from twinbus.clock import Clock, SystemClock
from twinbus.pairing.errors import PairingError
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.gates import Gate
from twinbus.pairing.syphon.ports import Engine, Lease, RestoreRefusal
from twinbus.pairing.syphon.settings import LEASE, SyphonSettings
from twinbus.pairing.syphon.syphon import TRANSFER, Syphon
from twinbus.pairing.syphon.tally import SyphonStatus, Tally
from twinbus.pairing.syphon.troubles import WHOLE, Troubles

_log = logging.getLogger(__name__)

OpenEngine = Callable[[], Awaitable[Engine[Any]]]


class SyphonService:
    """`start` it once, `close` it once; no failure of either side ends it."""

    def __init__(
        self,
        open_engine: OpenEngine,
        primary_name: str,
        settings: SyphonSettings | None = None,
        *,
        needs_lease: bool = False,
        on_event: Callable[[PairEvent], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._open_engine = open_engine
        self._primary_name = primary_name
        self._settings = settings or SyphonSettings()
        self._needs_lease = needs_lease
        self._on_event = on_event or _ignore
        self._clock = clock or SystemClock()
        self._gate = Gate(self._settings)
        # Of all its syphons, one after the other.
        self._tally = Tally()
        self._troubles = Troubles(self._on_event)
        self._syphon: Syphon[Any] | None = None
        self._lease: Lease | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._run_for_ever(), name="syphon")

    async def close(self) -> None:
        """End after the messages in hand."""
        if self._syphon is not None:
            await self._syphon.settle_down()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    @property
    def is_running(self) -> bool:
        """Whether it has an engine and, if it needs one, the lease."""
        return self._syphon is not None

    def status(self) -> SyphonStatus:
        if self._syphon is not None:
            return self._syphon.status()
        return self._tally.while_waiting(self._troubles.texts())

    async def _run_for_ever(self) -> None:
        while True:
            try:
                await self._run()
            except PairingError as error:
                await self._pause(error)
            except Exception as error:
                # Probably a bug. The syphon goes on all the same.
                _log.exception("the syphon of %s failed", self._primary_name)
                await self._pause(error)

    async def _pause(self, error: Exception) -> None:
        self._troubles.begin(WHOLE, str(error) or type(error).__name__)
        now = self._clock.monotonic()
        kind = FailureKind.SERVICE
        if isinstance(error, SecondaryError):
            kind = error.gate_kind
        if self._gate.close(RestoreRefusal(kind, str(error)), now):
            _log.warning("the syphon of %s waits: %s", self._primary_name, error)
        await asyncio.sleep((self._gate.retry_at - now) / 1000)

    async def _run(self) -> None:
        """Run until something fails: always raises."""
        engine = await self._open_engine()
        syphon = Syphon(
            engine,
            self._primary_name,
            self._settings,
            on_event=self._on_event,
            clock=self._clock,
            tally=self._tally,
            troubles=self._troubles,
        )
        try:
            await self._acquire(engine)
            await syphon.start()
            self._syphon = syphon
            self._gate.open()
            self._tell_that_it_runs()
            _log.info("the syphon of %s runs (%s)", self._primary_name, engine.name)
            await self._renew_for_ever()
        finally:
            self._syphon = None
            lease, self._lease = self._lease, None
            if lease is not None:
                await lease.release()
            await syphon.close(at_once=True)

    def _tell_that_it_runs(self) -> None:
        """Tell listeners that it runs, also the first time."""
        self._troubles.forget(WHOLE)
        self._on_event(PairEvent(kind=EventKind.SYPHON_RUNS))

    async def _acquire(self, engine: Engine[Any]) -> None:
        if self._needs_lease:
            path = f"{self._primary_name}/{TRANSFER}/{LEASE}"
            self._lease = await engine.secondary.lease(path)
            await self._lease.acquire()

    async def _renew_for_ever(self) -> None:
        """Raises SecondaryError as soon as the lease cannot be renewed."""
        while True:
            await asyncio.sleep(self._settings.lease_renewal_ms / 1000)
            if self._lease is not None:
                await self._renew(self._lease)

    async def _renew(self, lease: Lease) -> None:
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_ms / 1000):
                await lease.renew()
        except TimeoutError:
            raise SecondaryError("The lease could not be renewed in time.") from None


def _ignore(event: PairEvent) -> None:
    """A listener that does nothing."""
