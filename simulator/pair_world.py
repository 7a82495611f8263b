"""A world of pairs: two sites, processes that send and that syphon, and troubles.

First applications send while there are troubles between and in the sites. Then the
troubles end: entities must come back by their pings, syphons must empty the backlog,
and the auditor checks the content of all entities.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from simulator import pair_requests as requests
from simulator.clock import SimulatedClock
from simulator.draft import uid_of
from simulator.loop import VirtualLoop
from simulator.pair_audit import PairAuditor, Promises
from simulator.pair_message import PairMessage, Seen
from simulator.pair_process import (
    PRIMARY,
    Application,
    SenderProcess,
    SyphonProcess,
)
from simulator.pair_site import Site
from simulator.pair_troubles import (
    BAD_STORE,
    CRASH,
    DISABLED,
    FLAPPING,
    JUMP,
    Trouble,
    Troubles,
    until_done,
)
from simulator.pair_wire import BUSY, DEAF, FROZEN, GONE, LOSSY, SLOW
from simulator.sighting import Violation
from simulator.store import Faults
from simulator.trace import Trace
from twinbus.errors import EntityAlreadyExists
from twinbus.pairing.settings import PairSettings
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.store.base import Store

_PATIENCE_SECONDS: Final = 900
"""For what must end when there is no trouble: longer than locks, time-outs and growing
pauses together."""

_FULL_MS: Final = 15_000
"""How long a store that was full may still refuse messages."""

_EVERYTHING: Final = 250
_SUBSCRIPTION: Final = "all"
_KINDS: Final = (GONE, FROZEN, DEAF, LOSSY, SLOW, BUSY, FLAPPING, DISABLED, CRASH)
_SYPHON_DELAYS: Final = (0.0, 0.0, 30.0, 120.0)
"""Time until a syphon starts: a backlog may wait after its entity is back."""

_SKEWS: Final = (0, 0, 1_500, -90_000, 600_000)


@dataclass(frozen=True, slots=True)
class EntitySpec:
    """An entity of the primary."""

    path: str
    is_topic: bool = False
    requires_session: bool = False

    @property
    def holder(self) -> str:
        """The path where its messages are found."""
        return (
            f"{self.path}/Subscriptions/{_SUBSCRIPTION}" if self.is_topic else self.path
        )


ENTITIES: Final = (
    EntitySpec("orders"),
    EntitySpec("visits", requires_session=True),
    EntitySpec("news", is_topic=True),
)


class PairWorld:
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        self.trace = Trace()
        self._loop = loop
        self._random = random = Random(seed)
        self._folder = folder
        self._plant = plant
        self._failure: BaseException | None = None
        self._message_count = 0
        self._settings = _pair_settings(random)
        self._queues = [
            f"{PRIMARY}/x-servicebus-transfer/{index}"
            for index in range(random.choice((1, 2, 3)))
        ]
        self._troubles = Troubles(loop, Random(random.random()))
        # A process that starts may not find what an earlier one left in the backlog.
        self._has_restarts = self._hides_backlog = False
        # Sites with a faulty store, until it is repaired.
        self._bad_stores: list[tuple[Site, Trouble]] = []
        self._auditor = PairAuditor(self._troubles, _promises(self._settings))

    # --- making it ------------------------------------------------------------------

    def _make(self) -> None:
        """Called within the loop, because some parts wait."""
        self._primary = self._site("primary")
        self._secondary = self._site("secondary")
        self._sites = (self._primary, self._secondary)
        random = self._random
        self._senders = [
            self._sender_process(f"sender {number}")
            for number in range(1, random.choice((2, 2, 3)))
        ]
        # Several syphons together restore each message once, but in no order.
        count = 1 if self._settings.keep_session_order else random.choice((1, 2))
        self._syphons = [
            SyphonProcess(
                f"syphon {number}",
                self._sites,
                self._clock(),
                Random(random.random()),
                self.trace,
                settings=replace(
                    _SYPHON_SETTINGS, keeps_order=self._settings.keep_session_order
                ),
                auditor=self._auditor,
            )
            for number in range(1, count + 1)
        ]

    def _clock(self) -> SimulatedClock:
        clock = SimulatedClock(self._loop)
        clock.jump(self._random.choice(_SKEWS))
        return clock

    def _site(self, name: str) -> Site:
        return Site(
            name,
            self._clock(),
            Random(self._random.random()),
            self.trace,
            faults=_faults(self._random, is_torn=self._folder is not None),
            tick_ms=self._random.choice((250, 1_000)),
            folder=self._folder,
            plant=self._plant if name == "primary" else None,
            on_failure=self._fail,
        )

    def _sender_process(self, name: str) -> SenderProcess:
        random = self._random
        process = SenderProcess(
            name,
            self._sites,
            self._clock(),
            Random(random.random()),
            self.trace,
            settings=self._settings,
            queues=self._queues,
            on_failure=self._fail,
        )
        for number in range(1, random.choice((2, 3, 4))):
            entity = random.choice(ENTITIES)
            application = Application(
                f"{name}/{number}",
                entity.path,
                Random(random.random()),
                self._auditor,
                self._primary,
                has_sessions=entity.requires_session or random.random() < 0.3,
                pace_seconds=random.choice((0.05, 1.0, 4.0)),
                settings=self._settings,
                new_number=self._new_number,
            )
            process.applications.append(application)
        return process

    def _new_number(self) -> int:
        self._message_count += 1
        return self._message_count

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self.trace.add(self._troubles.now(), f"FAILURE {error!r}")
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            if isinstance(self._failure, AssertionError):
                raise self._failure
            raise AssertionError(repr(self._failure)) from self._failure
        for site in self._sites:
            site.check()

    # --- phases -----------------------------------------------------------------------

    async def live(self) -> None:
        self._make()
        for site in self._sites:
            if site.faults != Faults():
                self._hides_backlog |= site is self._secondary
                self._bad_stores.append((site, self._troubles.note(site, BAD_STORE)))
            await site.start()
            await site.until_up()
        await self._create_entities()
        for sender in self._senders:
            sender.start()
        for syphon in self._syphons:
            syphon.start(after_seconds=self._random.choice(_SYPHON_DELAYS))
        await self._suffer()
        await self._conclude()

    async def _create_entities(self) -> None:
        for entity in ENTITIES:
            await until_done(self._primary, partial(self._create, entity))
        for path in self._queues:
            await until_done(self._secondary, partial(self._create_backlog_queue, path))

    async def _create(self, entity: EntitySpec) -> None:
        namespace = self._primary.life.namespace
        keeps = {"dead_lettering_on_message_expiration": True}
        try:
            if not entity.is_topic:
                keeps["requires_session"] = entity.requires_session
                await namespace.create_queue(entity.path, keeps)
                return
            await namespace.create_topic(entity.path, {})
        except EntityAlreadyExists:
            pass
        if entity.is_topic:
            try:
                await namespace.create_subscription(entity.path, _SUBSCRIPTION, keeps)
            except EntityAlreadyExists:
                pass

    async def _create_backlog_queue(self, path: str) -> None:
        properties = {
            "max_delivery_count": (1 << 31) - 1,
            "lock_duration_ms": 60_000,
            "dead_lettering_on_message_expiration": True,
        }
        try:
            await self._secondary.life.namespace.create_queue(path, properties)
        except EntityAlreadyExists:
            pass

    async def _suffer(self) -> None:
        """Cause troubles, several at once or one after the other."""
        random = self._random
        count = random.choice((0, 1, 2, 3, 6))
        works = [self._misfortune(random.uniform(0, 40)) for _ in range(count)]
        if random.random() < 0.3:
            works.append(self._poison(random.uniform(0, 20)))
        await asyncio.gather(*works)
        self._check()

    async def _misfortune(self, after_seconds: float) -> None:
        random = self._random
        victim = random.choices(
            ("primary", "secondary", "sender", "syphon", "clock"), (10, 4, 2, 2, 1)
        )[0]
        kind = random.choice(_KINDS)
        process = random.randrange(8)
        await asyncio.sleep(after_seconds)
        if victim == "primary":
            paths = [entity.path for entity in ENTITIES]
            await self._troubles.make(self._primary, kind, paths)
        elif victim == "secondary":
            self._hides_backlog |= kind != DISABLED
            await self._troubles.make(self._secondary, kind, self._queues)
        elif victim == "clock":
            self._auditor.clocks_jump = True
            await self._troubles.make(self._sites[process % 2], JUMP, [])
        elif victim == "sender":
            self._has_restarts = True
            await self._senders[process % len(self._senders)].restart()
        else:
            await self._syphons[process % len(self._syphons)].restart()

    async def _poison(self, after_seconds: float) -> None:
        """Send a message that no syphon can restore."""
        message = PairMessage(uid=uid_of(self._new_number()), send_id=b"poison")
        self._auditor.poison.add(message.uid)
        path = self._random.choice(self._queues)
        await asyncio.sleep(after_seconds)
        await until_done(
            self._secondary,
            lambda: requests.send(self._secondary.life, path, [message]),
        )

    # --- the end ----------------------------------------------------------------------

    async def _conclude(self) -> None:
        self.trace.add(self._troubles.now(), "nothing goes wrong any more")
        for site in self._sites:
            site.heal()
            await site.until_up()
        for site, trouble in self._bad_stores:
            self._troubles.over(site, trouble, after_ms=_FULL_MS)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                for sender in self._senders:
                    await sender.finished()
        except TimeoutError:
            raise Violation("sends do not end") from None
        self._check()
        await self._until(self._are_back, "entities do not come back")
        await self._until(self._is_empty, "the backlog is not emptied")
        await self._all_due()
        self._check()
        on_primary = [
            seen
            for entity in ENTITIES
            for seen in await self._content(self._primary, entity.holder)
        ]
        if self._has_restarts and self._hides_backlog:
            self._auditor.order_is_void = True
        self._auditor.judge(on_primary, await self._backlog())
        for sender in self._senders:
            await sender.stop()
        for syphon in self._syphons:
            await syphon.stop()
        for site in self._sites:
            await site.stop()
        self._check()

    async def _until(
        self, condition: Callable[[], Awaitable[bool]], otherwise: str
    ) -> None:
        for _ in range(_PATIENCE_SECONDS):
            if await condition():
                return
            await asyncio.sleep(1)
            self._check()
        raise Violation(otherwise)

    async def _are_back(self) -> bool:
        """True if pings have brought all entities back."""
        return not any(sender.failed_over() for sender in self._senders)

    async def _is_empty(self) -> bool:
        """True if syphons have emptied the backlog."""
        return all(seen.dead_letter for seen in await self._backlog())

    async def _backlog(self) -> list[Seen]:
        return [
            seen
            for path in self._queues
            for seen in await self._content(self._secondary, path)
        ]

    async def _all_due(self) -> None:
        """Wait until all scheduled messages are active, and a tick has passed."""
        due = [sent.due_at or 0 for sent in self._auditor.sent.values()]
        wait_ms = max([*due, 0]) - self._primary.clock.now()
        await asyncio.sleep(max(wait_ms, 0) / 1000 + 5)

    async def _content(self, site: Site, path: str) -> list[Seen]:
        seen: list[Seen] = []
        for dead_letter in (False, True):
            first = 0
            while portion := await requests.peek(
                site.life, path, first, _EVERYTHING, dead_letter=dead_letter
            ):
                seen += portion
                first = portion[-1].number + 1
        return seen


_SYPHON_SETTINGS: Final = SyphonSettings(
    poll_ms=20_000,
    first_probe_ms=500,
    last_probe_ms=5_000,
    busy_wait_ms=1_000,
    attempt_timeout_ms=3_000,
    rescan_ms=30_000,
    discovery_ms=10_000,
    batch_count=10,
)


def _pair_settings(random: Random) -> PairSettings:
    return PairSettings(
        failover_interval_ms=random.choice((0, 2_000, 10_000)),
        ping_primary_interval_ms=random.choice((1_000, 5_000)),
        attempt_timeout_ms=random.choice((500, 3_000)),
        send_timeout_ms=random.choice((8_000, 30_000)),
        busy_wait_ms=2_000,
        backlog_retry_ms=random.choice((1_000, 5_000)),
        wait_during_failover=random.random() < 0.9,
        keep_session_order=random.random() < 0.5,
        session_wait_ms=random.choice((500, 5_000)),
        assign_message_ids=random.random() < 0.8,
    )


def _promises(settings: PairSettings) -> Promises:
    return Promises(
        failover_interval_ms=settings.failover_interval_ms,
        attempt_timeout_ms=settings.attempt_timeout_ms,
        busy_wait_ms=settings.busy_wait_ms,
        backlog_retry_ms=settings.backlog_retry_ms,
        ping_interval_ms=settings.ping_primary_interval_ms,
        keeps_order=settings.keep_session_order,
        waits=settings.wait_during_failover,
    )


def _faults(random: Random, *, is_torn: bool) -> Faults:
    """Most stores have no faults here: faults are tested in other worlds."""
    if random.random() < 0.7:
        return Faults()
    return Faults(
        crash_before=0.005,
        crash_after=0.01,
        torn=0.01 if is_torn else 0.0,
        failed=0.02,
        full=0.01,
        unknown=0.03,
        slow_commit=0.2,
    )
