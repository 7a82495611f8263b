"""A broker of a cluster: announces itself, sees others, takes and gives back stores.

    once a second: announce -> look at the others -> follow the catalog
                   -> decide -> give back what is too much, take what is free

While the catalog is away nothing is decided: what is served here is served on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from twinbus.clock import Clock
from twinbus.cluster.announcement import Announcement, Takeover, announcement_of
from twinbus.cluster.assignment import Candidate, decide, is_final
from twinbus.cluster.blocked_catalog import BlockedCatalog
from twinbus.cluster.broker_directory import BrokerDirectory, owners_of_stores
from twinbus.cluster.fitting import own_network, why_not_together
from twinbus.cluster.membership import Membership
from twinbus.cluster.predecessor import Predecessors
from twinbus.cluster.shared_store import SharedStore
from twinbus.cluster.terms import BEAT_MS, FORGET_MS, HESITATION_MS, TERM_MS
from twinbus.store.base import CommitFailed, StoreError
from twinbus.store.catalog import Catalog
from twinbus.store.process_identity import Processes, SystemProcesses

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.1
"""So often a broker looks at its own stores, to announce at once what has changed."""

_LEAVE_TRIES: Final = 20
"""Then whoever looks sees that its process is gone."""

_GATHERING_MS: Final = 3_000
"""How long the first decision waits for brokers that are started at the same time."""


class Broker:
    """This process, as one of several brokers."""

    def __init__(
        self,
        catalog: Catalog,
        stores: Sequence[SharedStore],
        clock: Clock,
        broker_uuid: bytes,
        *,
        name: str,
        namespace: str,
        formats: dict[str, int],
        follow: Callable[[], Awaitable[None]],
        on_return: Callable[[], Awaitable[None]],
        on_fatal: Callable[[StoreError], None],
        expected_count: int = 1,
        processes: Processes | None = None,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._clock = clock
        self.uuid = broker_uuid
        self._name = name
        self._namespace = namespace
        self._network = own_network()
        self._formats = formats
        # Learns what other brokers did to the entities. Raises StoreError.
        self._follow = follow
        # Called before others hear of this broker again, after a time in which they may
        # have taken it for dead: they kept messages for the stores that it served.
        self._on_return = on_return
        # Called if this broker cannot go on.
        self._on_fatal = on_fatal
        # So many brokers are started together with this one.
        self._expected_count = expected_count
        # Where peers reach it; set before it joins.
        self.address = ""
        self.directory = BrokerDirectory(broker_uuid)
        self._membership = Membership()
        self._processes: Processes = processes or SystemProcesses()
        self._predecessors = Predecessors(self._processes)
        self._blocked = BlockedCatalog(catalog)
        self._process = self._processes.this()
        self._beat = 0
        self._announced: dict[bytes, int] = {}
        # When others could last hear of it; None: not yet.
        self._announced_at: int | None = None
        # All brokers that are expected are there, all stores are served, and none is
        # about to move; and whether the others were told so.
        self._is_settled = self._told_settled = False
        self._last_takeover: Takeover | None = None
        # Set when all stores have an owner for the first time.
        self.settled = asyncio.Event()
        self._joined_at = 0
        # When others could last hear of it, and it of them; None: not yet.
        self._heard_at: int | None = None
        self._has_decided = False
        self._acted_at: int | None = None
        # What the log says already of the catalog, and of brokers that do not fit.
        self._trouble = ""
        self._mismatch = ""
        self._task: asyncio.Task[None] | None = None
        for shared in stores:
            shared.guard_migration(partial(self._can_all_read, shared.kind))

    # --- life -----------------------------------------------------------------

    async def join(self) -> None:
        """Announce it, and begin. Raises StoreError."""
        self._joined_at = self._clock.monotonic()
        await self._announce()
        self._heard_at = self._joined_at
        self._task = asyncio.create_task(self._run(), name="broker")

    async def stop(self) -> None:
        """Decide nothing more. The stores are given back by their owners."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for shared in self._stores:
            await shared.stop_watching()

    async def leave(self) -> None:
        """All stores were given back: others need not wait for this broker. If they
        write to the catalog just then, because they leave, too, it tries again."""
        for _ in range(_LEAVE_TRIES):
            with contextlib.suppress(StoreError):
                await self._catalog.withdraw(self.uuid)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
                self._trouble = ""
            except StoreError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    _log.warning("the catalog cannot be used: %s", error)
            except Exception as bug:
                # Without announcements others would take the stores: stop instead.
                _log.critical("the broker stops because of a bug", exc_info=True)
                self._on_fatal(StoreError(f"internal error: {bug!r}"))
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Do what is due. Raises StoreError."""
        at = self._clock.monotonic()
        if self._acted_at is None or at - self._acted_at >= BEAT_MS:
            self._acted_at = at
            await self._round(at)
        elif (self._owned(), self._is_settled) != (
            self._announced,
            self._told_settled,
        ):
            await self._announce()

    async def _round(self, at: int) -> None:
        for shared in self._stores:
            if shared.look(at):
                _log.error(
                    "the store %s could not be opened, and is left to other brokers",
                    shared.location,
                )
        await self._announce()
        brokers = await self._observe(at)
        self._watch_leases(brokers)
        await self._follow()
        if self._may_decide(at):
            self._act(brokers, at)
        await self._withdraw_gone(brokers)
        self._heard_at = at

    def unheard_ms(self) -> int:
        """For how long neither others could hear of this broker nor it of them: the
        catalog cannot be reached."""
        at = self._heard_at
        return 0 if at is None else self._clock.monotonic() - at

    # --- announcing -----------------------------------------------------------

    def _owned(self) -> dict[bytes, int]:
        return {one.uuid: one.epoch for one in self._stores if one.is_owned()}

    def announcement(self) -> Announcement:
        """What this broker says of itself now."""
        at = self._clock.monotonic()
        return Announcement(
            broker_uuid=self.uuid,
            name=self._name,
            address=self.address,
            beat=self._beat,
            process=self._process,
            formats=self._formats,
            stores=self._owned(),
            leases={
                one.uuid: one.lease_age()
                for one in self._stores
                if one.owner.is_serving
            },
            reach=self._reach(at),
            configured=frozenset(one.uuid for one in self._stores),
            namespace=self._namespace,
            network=self._network,
            last_takeover=self._last_takeover,
            is_settled=self._is_settled,
        )

    def _reach(self, at: int) -> frozenset[bytes]:
        """A store that was given up is left to the others, but not if they have given
        it up as well: somebody must notice that it is back."""
        theirs = {uuid for one in self.directory.others() for uuid in one.reach}
        return frozenset(
            one.uuid
            for one in self._stores
            if one.is_in_reach(at) or (one.is_here() and one.uuid not in theirs)
        )

    async def _announce(self) -> None:
        if await self._counted_as_dead():
            await self._on_return()
        self._beat += 1
        said = self.announcement()
        try:
            await self._catalog.announce(said.record())
        except CommitFailed:
            at = self._clock.monotonic()
            self._blocked.is_blocked(await self._catalog.brokers(), at)
            raise
        self._blocked.is_free()
        self._announced_at = self._clock.monotonic()
        self._announced = dict(said.stores)
        self._told_settled = said.is_settled

    async def _counted_as_dead(self) -> bool:
        """Others have not heard of it for about a term, and have heard of each other:
        the catalog was away for this broker alone. Raises StoreError."""
        at = self._announced_at
        if at is None or self._clock.monotonic() - at < TERM_MS - 2 * BEAT_MS:
            return False
        beats = {one.broker_uuid: one.beat for one in await self._catalog.brokers()}
        return self._membership.is_news(beats, self.uuid)

    # --- the others -----------------------------------------------------------

    async def _observe(self, at: int) -> list[Announcement]:
        """All brokers that are announced; this one as it is now."""
        records = await self._catalog.brokers()
        self._membership.observe({one.broker_uuid: one.beat for one in records}, at)
        known = [one for one in map(announcement_of, records) if one is not None]
        others = [one for one in known if one.broker_uuid != self.uuid]
        gone = [one.broker_uuid for one in others if self._has_ended(one)]
        self._membership.lose(gone)
        brokers = [self.announcement(), *others]
        self.directory.learn(self._alive(brokers))
        if self.directory.serves_all(one.uuid for one in self._stores):
            self.settled.set()
        self._tell_mismatch(brokers[0])
        return brokers

    def places(self) -> dict[bytes, str]:
        """Where the stores are, for people."""
        return {one.uuid: one.location for one in self._stores}

    def _tell_mismatch(self, me: Announcement) -> None:
        """Of two that were started at the same moment neither was refused."""
        text = why_not_together(me, self.directory.others(), self.places()) or ""
        if text and text != self._mismatch:
            _log.error("%s", text)
        self._mismatch = text

    def _alive(self, brokers: Sequence[Announcement]) -> list[Announcement]:
        alive = self._membership.alive() | {self.uuid}
        return [one for one in brokers if one.broker_uuid in alive]

    def _silent(self, brokers: Sequence[Announcement]) -> list[Announcement]:
        silent = self._membership.silent() - {self.uuid}
        return [one for one in brokers if one.broker_uuid in silent]

    def _watch_leases(self, brokers: Sequence[Announcement]) -> None:
        """Of stores that may have to be taken soon."""
        owners = owners_of_stores(brokers)
        for shared in self._stores:
            owner = owners.get(shared.uuid)
            if owner is not None and owner.broker_uuid != self.uuid:
                if self._membership.silent_ms(owner.broker_uuid) >= HESITATION_MS:
                    shared.watch_lease()

    def _has_ended(self, broker: Announcement) -> bool:
        """Its process is certainly not running."""
        processes, process = self._processes, broker.process
        return processes.is_visible(process) and not processes.is_running(process)

    async def _withdraw_gone(self, brokers: Sequence[Announcement]) -> None:
        """Brokers that are gone, when others have their stores."""
        owned = owners_of_stores(self._alive(brokers))
        for one in self._silent(brokers):
            has_heirs = all(uuid in owned for uuid in one.stores)
            is_replaced = has_heirs and self._has_ended(one)
            if is_replaced or self._membership.silent_ms(one.broker_uuid) >= FORGET_MS:
                await self._catalog.withdraw(one.broker_uuid)

    # --- deciding -------------------------------------------------------------

    def _may_decide(self, at: int) -> bool:
        """Those that are started together wait for each other: the first would take
        all stores, and give most of them back."""
        self._has_decided = (
            self._has_decided
            or len(self.directory.brokers()) >= self._expected_count
            or at - self._joined_at >= _GATHERING_MS
        )
        return self._has_decided

    def _act(self, brokers: list[Announcement], at: int) -> None:
        alive = self._alive(brokers)
        candidates, owners = _candidates(alive), owners_of_stores(alive)
        stores = [one.uuid for one in self._stores]
        decision = decide(self.uuid, stores, candidates)
        for shared in self._stores:
            is_free = shared.uuid not in owners
            is_left = shared.is_left(at, self._process, is_free=is_free)
            if shared.uuid in decision.give_back and not shared.was_left:
                _log.info("giving back the store %s", shared.location)
                shared.owner.give_back()
            elif shared.uuid in decision.take:
                self._take(shared, alive, self._silent(brokers))
            elif is_left:
                # Whoever should have it cannot take it.
                _log.info("taking the store %s again", shared.location)
                shared.owner.take()
        self._is_settled = (
            len(alive) >= self._expected_count
            and self.directory.serves_all(stores)
            and is_final(stores, candidates)
        )

    def _take(
        self,
        shared: SharedStore,
        alive: list[Announcement],
        silent: list[Announcement],
    ) -> None:
        if shared.needs_migration() and not self._can_all_read(shared.kind):
            _log.info("%s waits until all brokers are updated", shared.location)
            return
        others = [one for one in alive if one.broker_uuid != self.uuid]
        if not self._predecessors.are_gone(shared, silent, others):
            return
        before = owners_of_stores(silent).get(shared.uuid)
        if before is not None:
            self._last_takeover = Takeover(
                store_uuid=shared.uuid,
                taken_at=self._clock.now(),
                predecessor=before.name,
            )
        _log.info("taking the store %s", shared.location)
        shared.owner.take()

    def _can_all_read(self, kind: str) -> bool:
        """All brokers that are alive know the newest format of such a file or schema
        that this one knows."""
        newest = self._formats.get(kind, 0)
        return all(
            one.formats.get(kind, 0) >= newest for one in self.directory.brokers()
        )


def _candidates(alive: Sequence[Announcement]) -> list[Candidate]:
    owners = owners_of_stores(alive)
    return [
        Candidate(
            broker_uuid=one.broker_uuid,
            owned=frozenset(uuid for uuid in one.stores if owners[uuid] is one),
            reach=one.reach,
        )
        for one in alive
    ]
