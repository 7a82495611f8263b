"""The owner of a store: one loop that commits, and then answers.

Commands of all connections are applied to the fragments as they arrive and write
into one open change set. The loop wakes, closes the change set, commits it, and
only then are messages published, receivers served and replies sent. While a commit
is under way the next change set fills, so batches grow with load by themselves;
there is no timer, no minimum size, and no way around the loop.

Why no fast path: a reply that overtakes the commit of its own command is a lie
after a crash, and a reply that overtakes an earlier command's commit can show a
state that never was. One loop, one order.

If a commit fails, or its outcome is unknown, the store is asked: either it happened
after all, or nothing of it did. In the latter case everything since is refused, and
memory is rebuilt from the store. If the store cannot answer, or has a new owner,
this one stops.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

from twinbus.broker import reader_lease
from twinbus.broker.admission import Admission
from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    ReaderLease,
    StoredEntity,
    StoredRule,
)
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import OutboxTotal
from twinbus.broker.receiver import Receiver
from twinbus.broker.sessions import SessionWaiter
from twinbus.clock import Clock
from twinbus.errors import (
    STORE_TROUBLE,
    InternalError,
    ServiceBusError,
    StoreRefused,
)
from twinbus.limits import SEND_ID_WINDOW_MS
from twinbus.owner.absence import Absence
from twinbus.owner.admissions import Admissions
from twinbus.owner.carrier import Carrier
from twinbus.owner.commit_outcome import refusal_of_commit
from twinbus.owner.commit_pace import CommitPace
from twinbus.owner.deliveries import Deliveries
from twinbus.owner.housekeeping import Housekeeping
from twinbus.owner.lease_keeper import LeaseKeeper, Take
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.pressure import Pressure
from twinbus.owner.promises import break_off, keep
from twinbus.owner.request_store import RequestStore
from twinbus.owner.store_health import WITH_ANOTHER_BROKER, StoreHealth, short_names
from twinbus.owner.store_room import StoreRoom
from twinbus.owner.timed_fragments import TimedFragments
from twinbus.store.base import (
    LeaseLost,
    Opened,
    Store,
    StoreError,
)

_log = logging.getLogger(__name__)

_FLUSH_MS: Final = 1_000
"""How long an operation waits for a commit."""

FirstOpening = Callable[[list[StoredEntity]], Awaitable[Callable[[], None]]]
"""Checks what a store holds, and returns what is to be done when it is served."""


class StoreOwner(Home):
    """Holds a store's fragments and commits what happens to them."""

    # Every turn reads most of these. Python finds the attributes of an object with more
    # than thirty of them by hashing their names, unless they have slots.
    __slots__ = (
        *("store", "_store", "clock", "_entropy", "table", "carrier"),
        *("epoch", "_batch", "_sealed_at", "_durable", "_admissions", "_opened_at"),
        *("on_restored", "_on_fatal", "_after_turn", "_pressure"),
        *("_must_serve", "state", "_is_alone", "_pace", "_description"),
        *("on_first_opening", "health", "name", "is_wanted"),
        *("lease", "room", "_absence", "_timed", "_deliveries", "housekeeping"),
        *("reading", "_wake_up", "is_stopping", "_task"),
    )

    def __init__(
        self,
        store: Store,
        clock: Clock,
        entropy: Callable[[int], bytes],
        *,
        on_fatal: Callable[[StoreError], None],
        after_turn: Callable[[], None],
        on_pressure: Callable[[bool], None],
        send_id_window_ms: int = SEND_ID_WINDOW_MS,
    ) -> None:
        super().__init__(entropy, send_id_window_ms)
        self._store = store
        # The same for requests.
        self.store: Store = store
        self.clock = clock
        self._entropy = entropy
        # Called with the rules of the store after memory was rebuilt from it.
        self.on_restored: Callable[[list[StoredRule]], None] | None = None
        # Called before a store is served that was away at the start, or is shared.
        # Raises StoreError; what it returns is called when the store is served.
        self.on_first_opening: FirstOpening | None = None
        self.health = StoreHealth()
        # In metrics and health checks.
        (self.name,) = short_names([store.location])
        # Empties the outbox; None if no other store is served here.
        self.carrier: Carrier | None = None
        # Called once if this owner cannot go on.
        self._on_fatal = on_fatal
        # Called after every turn: connections write what they have.
        self._after_turn = after_turn
        self._pressure = Pressure(self, on_pressure)
        self.state = OwnerState.OPENING
        self.is_serving = False
        # No other store is served here: when this one fails the process ends.
        self._is_alone = True
        # Shared with the other stores that are served here.
        self._pace: CommitPace | None = None
        # A store that is shared is wanted here only at times.
        self.is_wanted = True
        self._description = ""
        # Set by `open`.
        self.table = FragmentTable(0, [], self)
        self.epoch = 0
        self._batch = 0
        self._opened_at = 0
        # When the last commit was sealed.
        self._sealed_at = 0
        self.lease = LeaseKeeper(store, clock)
        self.room = StoreRoom(self, store)
        self._absence = Absence(self)
        # Ends with the open change set.
        self._durable: asyncio.Future[None] | None = None
        # What must look at the store before it can be applied.
        self._admissions = Admissions(self, store)
        # Fragments in which time can change something.
        self._timed = TimedFragments()
        self._deliveries = Deliveries(self, store, self._timed, entropy)
        self.housekeeping = Housekeeping(self, store)
        # Held by the loop, and by requests that read the store and then change what
        # they read. Meanwhile only the open change set can change it.
        self.reading = asyncio.Lock()
        self._wake_up: asyncio.Future[None] | None = None
        # After a failed commit receivers are served by the next tick. At once would
        # ask a full store again and again.
        self._must_serve = False
        self.is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def serve_beside_others(self, pace: CommitPace | None = None) -> None:
        """The process serves other stores, too, and goes on when this one fails."""
        self._is_alone = False
        self._pace = pace
        self.store = cast(Store, RequestStore(self, self._store))

    def share(self) -> None:
        """Other brokers may own the store: leave it to them until told to take it."""
        self.is_shared, self.is_wanted, self.state = True, False, OwnerState.ELSEWHERE
        self.health.reason = WITH_ANOTHER_BROKER

    def take(self) -> None:
        """Of a shared store: become its owner, as soon as its lease can be had."""
        self.is_wanted = True
        self._absence.end_pause()
        self.wake()

    def give_back(self) -> None:
        """Of a shared store: leave it to another broker. Links stay attached."""
        self.is_wanted = False
        self.wake()

    def has_lease(self) -> bool:
        """By our own clock. A process that was stopped finds out here, before it
        delivers from memory or extends a lock, that another may own the store."""
        if self.is_serving and self.lease.has_term and self.lease.is_over():
            # The next turn tells everybody.
            self._become(OwnerState.LOST)
            self.wake()
        return self.state is not OwnerState.LOST

    def check_lease(self) -> None:
        """Raises StoreRefused."""
        if not self.has_lease():
            raise self._away()

    @property
    def is_under_pressure(self) -> bool:
        """Too many bytes wait for the store."""
        return self._pressure.is_high

    @property
    def has_started(self) -> bool:
        return self._task is not None

    # --- life -----------------------------------------------------------------

    def expect_store(self, description: str, store_uuid: bytes) -> None:
        """What the store is opened for, and which one it must be, if that is known."""
        self._description = description
        self.store_uuid = store_uuid
        self.away_since = self.clock.now()

    async def open(self, description: str) -> None:
        """Take the lease and learn what there is. Raises StoreError."""
        self._description = description
        opened = await self._open_store(self.lease.take_from_the_dead)
        self.store_uuid = opened.store_uuid
        self.table = FragmentTable(opened.epoch, opened.fragments, self)
        self.table.purging().update(opened.purging)
        self._learn_leases(await self._store.reader_leases())
        self.outbox.restore(await self._store.outbox_totals())
        self.housekeeping.begin(opened.next_scheduled_at, self.clock.now())
        self._become(OwnerState.SERVING)

    def _become(self, state: OwnerState) -> None:
        self.state = state
        self.is_serving = state is OwnerState.SERVING
        if self.is_serving:
            self.away_since = self.refused_since = 0
        elif self.away_since == 0:
            self.away_since = self.refused_since or self.clock.now()

    async def _open_store(self, take: Take) -> Opened:
        self._opened_at = self.clock.now()
        opened = await take(self._description, self.store_uuid)
        self.epoch = opened.epoch
        self._batch = opened.last_batch
        self.outbox.begin(opened.epoch)
        self.book.begin()
        return opened

    def _learn_leases(self, leases: list[ReaderLease]) -> None:
        """Who reads ranges, as the store has it."""
        since = self._opened_at
        self.table.remember_leases(
            [reader_lease.after_start(lease, since) for lease in leases]
        )

    def start(self) -> None:
        """Begin to commit; the entities have been admitted."""
        self._watch_leases()
        self._task = asyncio.create_task(self._run(), name="store-owner")

    async def stop_carrying(self) -> None:
        """Nothing more leaves the outbox; owners of other stores still commit."""
        if self.carrier is not None:
            await self.carrier.stop()

    async def stop(self) -> None:
        """Commit what was accepted, then give the store back."""
        self.is_stopping = True
        self.wake()
        if self._task is not None:
            await self._task
        await self._store.close()

    # --- for those who command ------------------------------------------------

    def wake(self) -> None:
        """Something was written to the open change set, or can be delivered."""
        self.must_turn = True
        if self._wake_up is not None:
            sleeper, self._wake_up = self._wake_up, None
            if not sleeper.done():
                sleeper.set_result(None)
        self._pressure.rise(is_alone=self._is_alone)

    def admit(self, admission: Admission) -> None:
        """Apply this after a look at the store, before the next commit."""
        self._admissions.add(admission)
        self.wake()

    async def durable(self) -> None:
        """Wait until everything written so far is committed.

        Raises the error with which the commit failed.
        """
        if self._durable is None:
            self._durable = asyncio.get_running_loop().create_future()
        self.wake()
        await asyncio.shield(self._durable)

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        self.housekeeping.expect(scheduled_at)

    def entropy(self, count: int) -> bytes:
        return self._entropy(count)

    # --- receivers ------------------------------------------------------------

    def join(self, fragment: Fragment, receiver: Receiver) -> None:
        self._deliveries.join(fragment, receiver)

    def leave(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver is gone, and its session is free for others."""
        self._deliveries.leave(fragment, receiver)

    def wait_for_session(self, fragment: Fragment, waiter: SessionWaiter) -> None:
        """Grant a session as soon as one is free; the waiter is told."""
        self._deliveries.wait_for_session(fragment, waiter)

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver can take messages; it may be served before this returns."""
        self._deliveries.offer_capacity(fragment, receiver)

    def watch(self, fragment: Fragment) -> None:
        """Look at the fragment when time passes, if time matters to it."""
        self._timed.watch(fragment)

    def _watch_leases(self) -> None:
        """Leases that were there before end in time, even if their fragments are not
        used."""
        for fragment in self.table.leased():
            self.watch(fragment)

    # --- time -----------------------------------------------------------------

    def tick(self) -> None:
        """Apply what is due in memory; the loop does what is due on disk."""
        if self.state is not OwnerState.SERVING:
            self.wake()
            return
        if not self.has_lease():
            # The loop may hang in a commit, on a server that does not answer.
            return
        now = self.clock.now()
        if self.carrier is not None:
            self.carrier.tick(now)
        self.room.heed_clock(now)
        if not self._is_alone:
            self._pressure.spare_others(now)
        is_spared = now < self.room.spared_until
        if not is_spared:
            self._timed.let_time_pass(now, self.changes)
            self.table.drop_again(self.changes)
        if self._must_serve and now >= self.room.serve_at:
            self._must_serve = False
            self._deliveries.serve_everybody()
        is_due = not is_spared and self.housekeeping.is_due(now)
        if self._must_commit() or is_due or self.room.is_full or self.lease.is_due():
            self.wake()

    def has_due_work(self) -> bool:
        """Something that is due by now has not been done."""
        return (
            not self.is_idle()
            or self._timed.has_overdue()
            or self.housekeeping.is_due(self.clock.now())
        )

    def is_idle(self) -> bool:
        """Nothing that was asked for waits to be committed."""
        return self.changes.is_empty() and not self._admissions

    # --- the loop -------------------------------------------------------------

    async def _run(self) -> None:
        if not self.is_serving and not await self._absence.ends():
            return
        while not await self._serves_to_the_end():
            if self._is_alone or not await self._absence.ends():
                return

    async def _serves_to_the_end(self) -> bool:
        """False if the store could not go on."""
        try:
            await self.lease.begin()
            while not (self.is_stopping and not self.must_turn):
                await self.woken()
                await self.turn()
                if not self.is_wanted:
                    await self._leave()
                    return False
            await self._commit_log()
        except StoreError as error:
            _log.critical("the store cannot go on: %s", error)
            self._fail(error)
        except Exception as bug:
            # What is in memory cannot be trusted any more; what is durable can.
            _log.critical("the store's owner stops because of a bug", exc_info=True)
            self._fail(StoreError(f"internal error: {bug!r}"))
        return self.state is OwnerState.SERVING

    async def woken(self) -> None:
        if self.must_turn:
            # An embedded store never suspends. Without this no other task would run
            # while a backlog is forwarded, expired or purged.
            await asyncio.sleep(0)
        else:
            self._wake_up = asyncio.get_running_loop().create_future()
            await self._wake_up
        self.must_turn = False

    async def _leave(self) -> None:
        """What was accepted is durable, or refused; then another may take the store.
        Raises StoreError."""
        self._become(OwnerState.ELSEWHERE)
        self.health.reason = WITH_ANOTHER_BROKER
        async with self.reading:
            if self._must_commit():
                await self._commit()
            self.refuse_all()
            await self._commit_log()
        await self._store.close()
        _log.info("the store %s is left to another broker", self._store.location)

    def _fail(self, error: StoreError) -> None:
        is_lost = isinstance(error, LeaseLost)
        if is_lost and self.is_shared:
            self.is_wanted = False
        self._become(OwnerState.LOST if is_lost else OwnerState.UNAVAILABLE)
        self.health.is_away(error, self.clock.now())
        # Nothing of the open change set happened, and others may take what was sent.
        self._refuse(_cannot_go_on(error) if self._is_alone else self._away())
        self._on_fatal(error)

    # --- a store that is away -------------------------------------------------

    def give_up_memory(self) -> None:
        """Another owner may change what is stored: no lock holds, and nothing that was
        read is delivered."""
        self.table.restore(self.table.records())
        self._timed.clear()
        self._deliveries.refills.clear()
        self._deliveries.lose_sessions()
        self._deliveries.tell_everybody()

    def refuse_all(self) -> None:
        """Whatever was asked for while the store is away."""
        self._admissions.apply_unseen(self.clock.now())
        self._refuse(self._away())
        self._pressure.fall()
        self._after_turn()

    def _away(self) -> StoreRefused:
        reason = self.health.reason
        return StoreRefused(f"The message store {reason}. Try again. {STORE_TROUBLE}")

    async def open_again(self) -> None:
        """Take the lease again, and believe what the store says. Raises StoreError."""
        with contextlib.suppress(StoreError):
            await self._store.close()
        opened = await self._open_store(self.lease.take)
        leases, rules = await self._store.reader_leases(), await self._store.rules()
        outbox = await self._store.outbox_totals()
        self.table.forget_drops()
        begin = await self._first_opening(opened)
        # Whoever is reading is refused by now, and lets go of it.
        async with self.reading:
            self.refuse_all()
            self.table.renew_epoch(opened.epoch)
            self.table.purging().update(opened.purging)
            self._believe(opened.fragments, leases, rules, opened.next_scheduled_at)
            self._recount(outbox)
            self._become(OwnerState.SERVING)
            if begin is not None:
                if not self.is_shared:
                    self.on_first_opening = None
                begin()

    async def _first_opening(self, opened: Opened) -> Callable[[], None] | None:
        if self.on_first_opening is None:
            return None
        self.table.restore(opened.fragments)
        return await self.on_first_opening(await self._store.entities())

    async def turn(self) -> None:
        """Commit what is there, serve receivers, read ahead."""
        async with self.reading:
            if self.lease.has_term and self.lease.is_due():
                await self.lease.keep()
            if self._admissions:
                await self._admissions.apply(self.clock.now())
            if self._must_commit():
                await self._commit()
            if self.clock.now() >= self.room.spared_until:
                self._timed.catch_up(self.clock.now(), self.changes)
                await self.housekeeping.run()
            if self.room.must_ask(self._batch):
                await self.room.ask(self._batch, self.clock.now())
            await self._deliveries.grant_sessions()
            await self._deliveries.refills.read()
        if not self.changes.is_empty():
            self.must_turn = True
        self.health.turn_count += 1
        # Also without a commit: what was admitted may all have been refused.
        self._pressure.fall()
        self._after_turn()

    @property
    def is_full(self) -> bool:
        """The store has no room for messages."""
        return self.room.is_full

    def _must_commit(self) -> bool:
        return (
            not self.changes.is_empty()
            # A duplicate changes nothing, but its sender waits for an answer.
            or not self.listeners.is_empty()
            or self._durable is not None
            or self.changes.log.is_long()
            or self._must_flush()
        )

    def _must_flush(self) -> bool:
        """Operations without a commit of their own have waited long enough for one. A
        store without room is left alone: locks are lost when a commit fails."""
        log, now = self.changes.log, self.clock.now()
        if log.is_empty() or self.room.is_full or now < self.room.spared_until:
            return False
        # A clock that was set back must not delay this for long.
        return not 0 <= now - self._sealed_at < _FLUSH_MS

    def without_leaving(self, messages: list[Message]) -> list[Message]:
        """What was read from the store, without what the open change set removes: a
        window that shrank has dropped messages that expired in it."""
        leaving = set(self.changes.active_removed)
        if not leaving:
            return messages
        return [message for message in messages if message.row_id not in leaving]

    async def commit_now(self) -> bool:
        """For housekeeping, which runs in the loop: commit before going on.

        False if nothing of it happened; then it does not help to try again at once.
        """
        return self.changes.is_empty() or await self._commit()

    @property
    def last_batch(self) -> int:
        return self._batch

    async def _commit_log(self) -> None:
        """At the end: operations that no commit carried yet, and that this is all."""
        if self.room.is_full:
            return
        log = self.changes.log
        if not log.is_empty() or self.book.has_written():
            log.is_last = True
            await self._commit()

    async def _commit(self) -> bool:
        """Commit the open change set; False if nothing of it happened."""
        if self._pace is None:
            return await self._commit_now()
        await self._pace.begin()
        try:
            return await self._commit_now()
        finally:
            self._pace.end()

    async def _commit_now(self) -> bool:
        changes, listeners, durable = self.changes, self.listeners, self._durable
        self.changes, self.listeners, self._durable = ChangeSet(self), Listeners(), None
        promises = self._deliveries.promises.take()
        changes.seal(self.epoch, self._batch + 1, self.clock.now())
        self.book.write(changes.log, self.epoch, changes.batch, self.table)
        self.is_committing = True
        self.health.begin(self.clock.monotonic())
        is_done = False
        try:
            error = await refusal_of_commit(self, self._store, changes)
            is_done = error is None
        except StoreError as fatal:
            # The outcome is unknown, but all who wait must get an answer.
            break_off(promises)
            self._answer_failure(listeners, durable, _cannot_go_on(fatal))
            raise
        finally:
            self.is_committing = False
            self.health.end(self.clock.monotonic(), changes, is_done=is_done)
        if error is None:
            self._batch, self._sealed_at = changes.batch, changes.sealed_at
            self.book.committed(changes.log, changes.batch, self.health.last_ms)
            self.room.commit_done(changes)
            changes.publish()
            self._answer(listeners, durable)
            if changes.outbox_added and self.carrier is not None:
                self.carrier.wake()
            keep(promises)
            for fragment in changes.touched:
                self._deliveries.deliver(fragment)
                self._timed.watch(fragment)
        else:
            self.room.commit_refused(self.clock.now())
            break_off(promises)
            self.book.forget()
            await self._start_over(listeners, durable, error)
        return error is None

    def _answer(
        self, listeners: Listeners, durable: asyncio.Future[None] | None
    ) -> None:
        listeners.committed()
        if durable is not None and not durable.done():
            durable.set_result(None)

    async def _start_over(
        self,
        listeners: Listeners,
        durable: asyncio.Future[None] | None,
        error: ServiceBusError,
    ) -> None:
        """Nothing of the commit happened: refuse it and all that followed."""
        self._answer_failure(listeners, durable, error)
        self._refuse(error)
        batch = await self._store.last_batch()
        next_scheduled_at = await self._store.next_scheduled_at()
        records = await self._store.fragments()
        leases = await self._store.reader_leases()
        rules = await self._store.rules()
        outbox = await self._store.outbox_totals()
        # From here on nothing suspends. What was asked for while the store was being
        # read is based on memory that is not true, and is refused as well.
        self._refuse(error)
        self._batch = batch
        self._believe(records, leases, rules, next_scheduled_at)
        self._recount(outbox)

    def _recount(self, outbox: list[OutboxTotal]) -> None:
        self.outbox.restore(outbox)
        if self.carrier is not None:
            self.carrier.restored()

    def _believe(
        self,
        records: list[FragmentRecord],
        leases: list[ReaderLease],
        rules: list[StoredRule],
        next_scheduled_at: int,
    ) -> None:
        """Memory is what the store says, and nothing else."""
        self.table.restore(records)
        self._learn_leases(leases)
        if self.on_restored is not None:
            self.on_restored(rules)
        self._timed.clear()
        self._deliveries.refills.clear()
        self._deliveries.lose_sessions()
        self._watch_leases()
        self.housekeeping.begin(next_scheduled_at, self.clock.now())
        self._must_serve = True

    def _refuse(self, error: ServiceBusError) -> None:
        """Refuse what waits for the open change set, and drop it."""
        listeners, durable = self.listeners, self._durable
        self.changes, self.listeners, self._durable = ChangeSet(self), Listeners(), None
        self._deliveries.promises.forget()
        self._answer_failure(listeners, durable, error)

    def _answer_failure(
        self,
        listeners: Listeners,
        durable: asyncio.Future[None] | None,
        error: ServiceBusError,
    ) -> None:
        listeners.failed(error)
        if durable is not None and not durable.done():
            durable.set_exception(error)
            # Asked for here, because those who waited may be gone.
            durable.exception()


def owner_of(fragment: Fragment) -> "StoreOwner":
    """Whoever commits what happens to the fragment."""
    return cast(StoreOwner, fragment.home)


def _cannot_go_on(error: StoreError) -> InternalError:
    return InternalError(f"The message store cannot go on: {error}")
