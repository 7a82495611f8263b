"""Processes of a simulated pair: senders with their applications, and syphons.

The pair, its senders and the syphon are the real ones. A process may end at any moment
and is started again. Its applications then continue, without knowing the result of the
call that was in progress.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from random import Random
from typing import Final

from simulator.clock import SimulatedClock
from simulator.draft import uid_of
from simulator.pair_audit import Call, PairAuditor
from simulator.pair_doors import SimulatedNamespace
from simulator.pair_message import (
    PairedSendFailed,
    PairMessage,
    SimulatedDialect,
    Unreachable,
)
from simulator.pair_site import Site
from simulator.pair_syphoning import (
    SimulatedOutlet,
    SimulatedSecondary,
    SyphonedMessage,
)
from simulator.trace import Trace
from twinbus.errors import ServiceBusError
from twinbus.pairing.entity_health import State
from twinbus.pairing.errors import PairingError
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.pair import Pair
from twinbus.pairing.paired_sender import PairedSender
from twinbus.pairing.settings import PairSettings
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import Syphon

PRIMARY: Final = "north"
SECONDARY: Final = "south"
"""The name of the secondary namespace."""

Note = Callable[[str], None]
"""Writes to the trace."""

_FAILURES: Final = (PairedSendFailed, ServiceBusError, Unreachable, TimeoutError)
_RESTART_SECONDS: Final = 1.0
_CANCEL_MS: Final = 5_000


class Application:
    """Sends to one entity, call after call, over all restarts of its process."""

    def __init__(
        self,
        name: str,
        path: str,
        random: Random,
        auditor: PairAuditor,
        primary: Site,
        *,
        has_sessions: bool,
        pace_seconds: float,
        settings: PairSettings,
        new_number: Callable[[], int],
    ) -> None:
        self._name = name
        self._path = path
        self._random = random
        self._auditor = auditor
        self._primary = primary
        self._has_sessions = has_sessions
        self._pace_seconds = pace_seconds
        self._settings = settings
        self._new_number = new_number
        self._left = random.choice((3, 8, 15))
        # Scheduled messages that were not cancelled: numbers by uid.
        self._scheduled: dict[str, int] = {}

    async def run(self, pair: Pair[PairMessage], note: Note) -> None:
        sender = pair.sender(self._path)
        while self._left:
            await asyncio.sleep(self._random.expovariate(1.0) * self._pace_seconds)
            self._left -= 1
            step = self._random.choices(
                (self._send, self._send_batch, self._schedule, self._cancel),
                (10, 3, 2, 1),
            )[0]
            await step(sender, note)

    def _messages(self, count: int) -> list[PairMessage]:
        return [self._message() for _ in range(count)]

    def _message(self) -> PairMessage:
        random = self._random
        properties: dict[str, object] = {}
        if random.random() < 0.2:
            # Names that the detour uses, too.
            properties = {"x-ms-path": "mine", "x-twinbus-own-x-ms-path": "also mine"}
        session_id = f"{self._name}-{random.choice('ab')}"
        return PairMessage(
            uid=uid_of(self._new_number()),
            session_id=session_id if self._has_sessions else None,
            ttl_ms=random.choice((None, None, None, None, 4_000, 90_000)),
            properties=properties,
        )

    def _timeout(self) -> tuple[float | None, int]:
        """The time-out that the application gives, and the one that the call gets."""
        settings = self._settings
        usual_ms = settings.send_timeout_ms + settings.failover_interval_ms
        seconds = self._random.choice((None, None, None, 1.0, 7.0))
        return seconds, usual_ms if seconds is None else round(seconds * 1000)

    def _due_at(self) -> int:
        later_ms = self._random.choice((-1_000, 2_000, 20_000, 60_000))
        return self._primary.clock.now() + later_ms

    async def _send(self, sender: PairedSender[PairMessage], note: Note) -> None:
        messages = self._messages(1)
        if self._random.random() < 0.1:
            messages[0].scheduled_at = self._due_at()
        await self._deliver(sender, note, messages)

    async def _send_batch(self, sender: PairedSender[PairMessage], note: Note) -> None:
        await self._deliver(sender, note, self._messages(self._random.randint(2, 7)))

    async def _deliver(
        self,
        sender: PairedSender[PairMessage],
        note: Note,
        messages: list[PairMessage],
    ) -> None:
        seconds, timeout_ms = self._timeout()
        call = self._asked(messages, timeout_ms, note, "sends")
        try:
            await sender.send(messages, seconds)
        except BaseException as error:
            self._failed(call, error, note)
        else:
            self._accepted(call, note)

    async def _schedule(self, sender: PairedSender[PairMessage], note: Note) -> None:
        messages = self._messages(self._random.randint(1, 3))
        due_at = self._due_at()
        seconds, timeout_ms = self._timeout()
        call = self._asked(messages, timeout_ms, note, "schedules", due_at)
        try:
            numbers = await sender.schedule(messages, due_at, seconds)
        except BaseException as error:
            self._failed(call, error, note)
        else:
            self._accepted(call, note)
            self._scheduled.update(zip(call.uids, numbers, strict=True))

    async def _cancel(self, sender: PairedSender[PairMessage], note: Note) -> None:
        if not self._scheduled:
            return
        uid = self._random.choice(sorted(self._scheduled))
        number = self._scheduled.pop(uid)
        note(f"{self._name} cancels {uid}, which is {number}")
        self._auditor.cancel_asked(uid)
        try:
            await sender.cancel([number], _CANCEL_MS / 1000)
        except (*_FAILURES, PairingError) as error:
            note(f"{self._name}: cancelling {uid}: {error!r}")
            state = "unknown"
        else:
            note(f"{self._name}: {uid} is cancelled")
            state = "cancelled"
        now = self._primary.clock.now()
        self._auditor.cancel_ended(uid, state, _CANCEL_MS, now)

    # --- results of calls -----------------------------------------------------------

    def _asked(
        self,
        messages: list[PairMessage],
        timeout_ms: int,
        note: Note,
        verb: str,
        due_at: int | None = None,
    ) -> Call:
        now = self._primary.clock.now()
        call = self._auditor.asked(self._path, messages, timeout_ms, now, due_at)
        note(f"{self._name} {verb} {' '.join(call.uids)} to {self._path}")
        return call

    def _accepted(self, call: Call, note: Note) -> None:
        note(f"{self._name}: accepted {' '.join(call.uids)}")
        self._auditor.ended(call, "accepted")

    def _failed(self, call: Call, error: BaseException, note: Note) -> None:
        if isinstance(error, _FAILURES):
            note(f"{self._name}: {error!r} for {' '.join(call.uids)}")
            self._auditor.ended(call, "failed", error)
            return
        self._auditor.ended(call, "unknown")
        raise error


class PairProcess:
    """A process of either kind: it writes down what happens, and is started again."""

    def __init__(
        self,
        name: str,
        sites: tuple[Site, Site],
        clock: SimulatedClock,
        random: Random,
        trace: Trace,
    ) -> None:
        self.name = name
        self._sites = sites
        self._clock = clock
        self._random = random
        self._trace = trace
        self._restarting = asyncio.Lock()

    def note(self, what: str) -> None:
        self._trace.add(self._clock.monotonic(), f"{self.name}: {what}")

    def _on_event(self, event: PairEvent) -> None:
        self.note(
            f"{event.kind.value} {event.path} {event.queue} {event.text} "
            f"{event.count or ''}".strip()
        )

    async def restart(self) -> None:
        async with self._restarting:
            self.note("CRASH")
            await self.stop()
            await asyncio.sleep(self._random.choice((0.1, 2.0, 15.0)))
            self.note("is started again")
            self.start()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """End at any moment."""


class SenderProcess(PairProcess):
    """A process that sends: one pair for all of its applications."""

    def __init__(
        self,
        name: str,
        sites: tuple[Site, Site],
        clock: SimulatedClock,
        random: Random,
        trace: Trace,
        *,
        settings: PairSettings,
        queues: list[str],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name, sites, clock, random, trace)
        self._settings = settings
        self._queues = queues
        self._on_failure = on_failure
        self.applications: list[Application] = []
        self.pair: Pair[PairMessage] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.diverted_count = 0

    def start(self) -> None:
        primary, secondary = self._sites
        pair = Pair(
            primary=SimulatedNamespace(PRIMARY, primary.wire),
            secondary=SimulatedNamespace(SECONDARY, secondary.wire),
            dialect=SimulatedDialect(),
            backlog_queues=self._queues,
            settings=self._settings,
            clock=self._clock,
            random=Random(self._random.random()),
            entropy=self._random.randbytes,
        )
        pair.report.add(self._on_event)
        self.pair = pair
        self._tasks = [
            asyncio.ensure_future(application.run(pair, self.note))
            for application in self.applications
        ]
        for task in self._tasks:
            task.add_done_callback(self._on_done)

    def _on_event(self, event: PairEvent) -> None:
        super()._on_event(event)
        if event.kind is EventKind.DIVERTED:
            self.diverted_count += event.count

    def _on_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_failure(error)

    async def finished(self) -> None:
        """Wait until all applications have sent everything."""
        await asyncio.gather(*self._tasks)

    def failed_over(self) -> list[str]:
        """Entities that are still failed over."""
        assert self.pair is not None
        state = State.FAILED_OVER.value
        entities = self.pair.status().entities
        return [entity.path for entity in entities if entity.state == state]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.pair is not None
        await self.pair.close()


class SyphonProcess(PairProcess):
    """A process that runs a syphon."""

    def __init__(
        self,
        name: str,
        sites: tuple[Site, Site],
        clock: SimulatedClock,
        random: Random,
        trace: Trace,
        *,
        settings: SyphonSettings,
        auditor: PairAuditor,
    ) -> None:
        super().__init__(name, sites, clock, random, trace)
        self._settings = settings
        self._auditor = auditor
        self._syphon: Syphon[SyphonedMessage] | None = None
        self._starting: asyncio.Task[None] | None = None

    def start(self, *, after_seconds: float = 0.0) -> None:
        self._starting = asyncio.ensure_future(self._start(after_seconds))

    async def _start(self, after_seconds: float) -> None:
        """Try again until it has started, as a supervisor would."""
        await asyncio.sleep(after_seconds)
        primary, secondary = self._sites
        while True:
            engine = Engine(
                "simulated",
                SimulatedSecondary(
                    SECONDARY, secondary.wire, self._auditor.received.add
                ),
                SimulatedOutlet(primary.wire),
            )
            self._syphon = Syphon(
                engine,
                PRIMARY,
                self._settings,
                on_event=self._on_event,
                clock=self._clock,
            )
            try:
                await self._syphon.start()
            except SecondaryError as error:
                self.note(f"does not start: {error}")
                await asyncio.sleep(_RESTART_SECONDS)
            else:
                return

    async def stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._syphon is not None:
            await self._syphon.close(at_once=True)
