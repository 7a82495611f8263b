"""The owner of a store: one loop that commits, and then answers.

Commands of all connections are applied to the fragments as they arrive and write
into one open change set. The loop wakes, closes the change set, commits it, and
only then are messages published, receivers served and replies sent. While a commit
is under way the next change set fills, so batches grow with load by themselves;
there is no timer, no minimum size, and no way around the loop.

Why no fast path: a reply that overtakes the commit of its own command is a lie
after a crash, and a reply that overtakes an earlier command's commit can show a
state that never was. One loop, one order.

A commit that failed, or whose outcome stays unknown until the store was asked, ends
in one of two ways: it happened after all, or nothing of it did. In the latter case
everything since is refused and memory is rebuilt from the store (D13). A store that
cannot even answer that, or that has a new owner, ends this one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, cast

from twinbus.broker import operation_log, reader_lease, session_lock
from twinbus.broker.admission import Admission
from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    ReaderLease,
    StoredRule,
)
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.held_session import HeldSession
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.receiver import Receiver
from twinbus.broker.sessions import SessionWaiter
from twinbus.clock import Clock
from twinbus.errors import (
    STORE_IS_FULL,
    STORE_TROUBLE,
    InternalError,
    ServerBusy,
    ServiceBusError,
)
from twinbus.limits import PENDING_BYTES, SEND_ID_WINDOW_MS
from twinbus.owner.admissions import Admissions
from twinbus.owner.housekeeping import Housekeeping
from twinbus.owner.lease_keeper import LeaseKeeper
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.promises import Promises, break_off, keep
from twinbus.owner.refills import Refills
from twinbus.owner.session_grants import SessionGrants
from twinbus.owner.timed_fragments import TimedFragments
from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    LeaseLost,
    Opened,
    Store,
    StoreError,
    StoreFull,
)

_log = logging.getLogger(__name__)

_FULL_MS: Final = 5_000
"""How long a full store is spared from what needs room."""

_FIRST_RETURN_MS: Final = 200
_LONGEST_RETURN_MS: Final = 10_000
"""How long a store that failed is left alone before it is opened again."""

_SERVE_AGAIN_MS: Final = 1_000
"""How long receivers wait then: what they take out may not fit either."""


class StoreOwner(Home):
    """Holds a store's fragments and commits what happens to them."""

    # Every message reads some of these. Python finds the attributes of an object with
    # more than thirty of them by hashing their names, unless they have slots.
    __slots__ = (
        *("store", "clock", "_entropy", "table", "store_uuid", "_epoch", "_batch"),
        *("_durable", "_admissions", "_next_actor"),
        *("on_restored", "_on_fatal", "_after_turn", "_on_pressure"),
        *("is_under_pressure", "_serve_at", "_must_serve"),
        *("state", "is_alone", "_return_at", "_return_ms", "_description"),
        *("is_full", "_pending_limit", "_spared_until", "_room_batch"),
        *("_lease", "_dispatches", "_session_dispatches", "_promises", "_refills"),
        *("_awaited", "_grants", "_timed", "housekeeping", "reading", "_opened_at"),
        *("_wake_up", "_must_turn", "_stopping", "_task"),
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
        self.store = store
        self.clock = clock
        self._entropy = entropy
        # Called with the rules of the store after memory was rebuilt from it.
        self.on_restored: Callable[[list[StoredRule]], None] | None = None
        # Called once if this owner cannot go on.
        self._on_fatal = on_fatal
        # Called after every turn: connections write what they have.
        self._after_turn = after_turn
        # Called when pending bytes pass the budget, and when they are below again.
        self._on_pressure = on_pressure
        self.is_under_pressure = False
        self._assume_room()
        self.state = OwnerState.OPENING
        # No other store is served here: when this one fails the process ends.
        self.is_alone = True
        # When a store that failed is opened again, and how long it is waited then.
        self._return_at = 0
        self._return_ms = _FIRST_RETURN_MS
        self._description = ""
        # Set by `open`.
        self._lease = LeaseKeeper(store, clock)
        self.table = FragmentTable(0, [], self)
        self.store_uuid = b""
        self._epoch = 0
        self._batch = 0
        self._opened_at = 0
        # Ends with the open change set.
        self._durable: asyncio.Future[None] | None = None
        # What must look at the store before it can be applied.
        self._admissions = Admissions(store)
        # Receivers by fragment number, those of held sessions apart.
        self._dispatches: dict[int, Dispatch] = {}
        self._session_dispatches: dict[HeldSession, Dispatch] = {}
        self._promises = Promises(self._dispatches)
        self._refills = Refills(self)
        # Fragments at which somebody waits for a session that may be had.
        self._awaited: dict[int, Fragment] = {}
        self._grants = SessionGrants(self)
        self._timed = TimedFragments()
        self._next_actor = operation_log.THE_BUS + 1
        self.housekeeping = Housekeeping(self)
        # Held by whoever reads the store and then changes what it read: the loop,
        # and requests. What was read stays true but for the open change set.
        self.reading = asyncio.Lock()
        self._wake_up: asyncio.Future[None] | None = None
        self._must_turn = False
        # Receivers are to be served by the next tick, after a failed commit: at
        # once, and a full store would be asked again and again in no time.
        self._must_serve = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def _assume_room(self) -> None:
        # The store was full: until then messages are refused, so that completing and
        # deleting, which make room, get through; and so are larger ones at any time.
        self.refuses_until = 0
        self.room_bytes = NO_LIMIT
        # It has no room for messages, and is asked again by every tick.
        self.is_full = False
        # Up to which commit it was asked.
        self._room_batch = -1
        # Reading pauses beyond it: less than usual while room is scarce.
        self._pending_limit = PENDING_BYTES
        # A commit found no room, not even for a removal: until then time is not
        # let pass, and receivers are not served.
        self._spared_until = 0
        self._serve_at = 0

    # --- life -----------------------------------------------------------------

    async def open(self, description: str) -> None:
        """Take the lease and learn what there is. Raises StoreError."""
        self._description = description
        opened = await self._open_store()
        self.store_uuid = opened.store_uuid
        self.table = FragmentTable(opened.epoch, opened.fragments, self)
        self.table.purging().update(opened.purging)
        self._learn_leases(await self.store.reader_leases())
        self.housekeeping.begin(opened.next_scheduled_at, self.clock.now())
        self.state = OwnerState.SERVING

    async def _open_store(self) -> Opened:
        self._opened_at = self.clock.now()
        opened = await self._lease.take(self._description)
        self._epoch = opened.epoch
        self._batch = opened.last_batch
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

    async def stop(self) -> None:
        """Commit what was accepted, then give the store back."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task
        await self.store.close()

    # --- for those who command ------------------------------------------------

    def wake(self) -> None:
        """Something was written to the open change set, or can be delivered."""
        self._must_turn = True
        if self._wake_up is not None:
            # Every message comes by here; all but the first of a turn are done now.
            sleeper, self._wake_up = self._wake_up, None
            if not sleeper.done():
                sleeper.set_result(None)
        # A call of `_pending_bytes` for every message would be one too many.
        pending_bytes = self.changes.pending_bytes + self._admissions.pending_bytes
        if pending_bytes > self._pending_limit and not self.is_under_pressure:
            self.is_under_pressure = True
            self._on_pressure(True)

    def _pending_bytes(self) -> int:
        return self.changes.pending_bytes + self._admissions.pending_bytes

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

    def introduce(self, description: str) -> int:
        """A number for the operation log, for somebody who will act."""
        actor = self._next_actor
        self._next_actor += 1
        self.changes.log.introduce(actor, description)
        return actor

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        self.housekeeping.expect(scheduled_at)

    def entropy(self, count: int) -> bytes:
        return self._entropy(count)

    # --- receivers ------------------------------------------------------------

    def join(self, fragment: Fragment, receiver: Receiver) -> None:
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is None:
            dispatch = Dispatch(fragment, receiver.session, self._entropy)
            if receiver.session is None:
                self._dispatches[fragment.number] = dispatch
            else:
                self._session_dispatches[receiver.session] = dispatch
        dispatch.join(receiver)

    def _dispatch_of(self, fragment: Fragment, receiver: Receiver) -> Dispatch | None:
        if receiver.session is None:
            return self._dispatches.get(fragment.number)
        return self._session_dispatches.get(receiver.session)

    def leave(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver is gone, and its session is free for others."""
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is None:
            return
        dispatch.leave(receiver)
        if receiver.session is not None:
            del self._session_dispatches[receiver.session]
            session_lock.close(fragment, receiver.session, self.changes)
            self.wake()
        elif not dispatch.has_receivers() and not dispatch.has_promises():
            del self._dispatches[fragment.number]

    def wait_for_session(self, fragment: Fragment, waiter: SessionWaiter) -> None:
        """Grant a session as soon as it can be had; the waiter is told."""
        fragment.the_sessions().waiters.append(waiter)
        self._awaited[fragment.number] = fragment
        self.watch(fragment)
        self.wake()

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver can take messages; it may be served before this returns."""
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is not None:
            dispatch.offer_capacity(receiver)
            self.serve(dispatch)

    def deliver(self, fragment: Fragment) -> None:
        """Serve the fragment's receivers from memory."""
        if fragment.sessions is not None:
            self._deliver_to_sessions(fragment)
            return
        dispatch = self._dispatches.get(fragment.number)
        if dispatch is not None:
            self.serve(dispatch)

    def _deliver_to_sessions(self, fragment: Fragment) -> None:
        sessions = fragment.the_sessions()
        for session in sessions.take_stirred():
            dispatch = self._session_dispatches.get(session)
            if dispatch is not None:
                self.serve(dispatch)
        if sessions.waiters and not fragment.is_dropped:
            self._awaited[fragment.number] = fragment
            self.wake()

    def serve(self, dispatch: Dispatch) -> None:
        """Deliver what the window has to those who can take it."""
        dispatch.deliver(self.clock.now(), self.changes)
        self.watch(dispatch.fragment)
        if dispatch.has_promises():
            self._promises.add(dispatch)
        if dispatch.wants_refill():
            self._refills.want(dispatch)
            self.wake()
        else:
            dispatch.served()
            if not self.changes.is_empty():
                self.wake()

    def watch(self, fragment: Fragment) -> None:
        """Look at the fragment when time passes, if time matters to it."""
        self._timed.watch(fragment)

    def _watch_leases(self) -> None:
        """Those of before end in time, though nobody touches their fragments."""
        for fragment in self.table.leased():
            self.watch(fragment)

    # --- time -----------------------------------------------------------------

    def tick(self) -> None:
        """Apply what is due in memory; the loop does what is due on disk."""
        if self.state is not OwnerState.SERVING:
            self.wake()
            return
        now = self.clock.now()
        # The clock may have been set back since; that must not prolong the pause.
        self.refuses_until = min(self.refuses_until, now + _FULL_MS)
        self._spared_until = min(self._spared_until, now + _FULL_MS)
        is_spared = now < self._spared_until
        if not is_spared:
            self._timed.let_time_pass(now, self.changes)
            self.table.drop_again(self.changes)
        if self._must_serve and now >= self._serve_at:
            self._must_serve = False
            for dispatch in list(self._dispatches.values()):
                dispatch.ask_everybody()
                self.serve(dispatch)
        is_due = not is_spared and self.housekeeping.is_due(now)
        if self._must_commit() or is_due or self.is_full or self._lease.is_due():
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
        while not await self._serves_to_the_end():
            if self.is_alone or not await self._returns():
                return

    async def _serves_to_the_end(self) -> bool:
        """False if the store could not go on."""
        try:
            while not (self._stopping and not self._must_turn):
                await self._woken()
                await self.turn()
            await self._commit_log()
        except StoreError as error:
            _log.critical("the store cannot go on: %s", error)
            self._fail(error)
        except Exception as bug:
            # What is in memory cannot be trusted any more; what is durable can.
            _log.critical("the store's owner stops because of a bug", exc_info=True)
            self._fail(StoreError(f"internal error: {bug!r}"))
        return self.state is OwnerState.SERVING

    async def _woken(self) -> None:
        if self._must_turn:
            # A store need not suspend; without this nobody else would come to
            # anything while a backlog is forwarded, expired or purged.
            await asyncio.sleep(0)
        else:
            self._wake_up = asyncio.get_running_loop().create_future()
            await self._wake_up
        self._must_turn = False

    def _fail(self, error: StoreError) -> None:
        is_lost = isinstance(error, LeaseLost)
        self.state = OwnerState.LOST if is_lost else OwnerState.UNAVAILABLE
        self._refuse(_cannot_go_on(error))
        self._on_fatal(error)

    # --- a store that is away -------------------------------------------------

    async def _returns(self) -> bool:
        """Refuse everything until the store can be opened again; False if this owner
        is stopped before."""
        self._give_up_memory()
        while not self._stopping:
            await self._woken()
            self._refuse_all()
            if self.clock.now() >= self._return_at and await self._is_open_again():
                return True
        return False

    def _give_up_memory(self) -> None:
        """Another owner may change what is stored: no lock holds, and nothing that was
        read is delivered."""
        self.table.restore(self.table.records())
        self._timed.clear()
        self._refills.clear()
        self._lose_sessions()
        self._return_ms = _FIRST_RETURN_MS
        self._return_at = self.clock.now() + self._return_ms

    def _refuse_all(self) -> None:
        self._admissions.apply_unseen(self.clock.now())
        self._refuse(
            ServerBusy(f"The message store is away. Try again. {STORE_TROUBLE}")
        )
        self._relieve()
        self._after_turn()

    async def _is_open_again(self) -> bool:
        try:
            async with self.reading:
                await self._open_again()
        except StoreError as error:
            self._return_ms = min(2 * self._return_ms, _LONGEST_RETURN_MS)
            self._return_at = self.clock.now() + self._return_ms
            _log.warning("the store is still away: %s", error)
            return False
        _log.warning("the store is back")
        return True

    async def _open_again(self) -> None:
        with contextlib.suppress(StoreError):
            await self.store.close()
        opened = await self._open_store()
        leases, rules = await self.store.reader_leases(), await self.store.rules()
        self._refuse_all()
        self.table.renew_epoch(opened.epoch)
        self.table.purging().update(opened.purging)
        self._believe(opened.fragments, leases, rules, opened.next_scheduled_at)
        self.state = OwnerState.SERVING

    async def turn(self) -> None:
        """Commit what is there, serve receivers, read ahead."""
        async with self.reading:
            if self._lease.is_due():
                await self._lease.keep()
            if self._admissions:
                await self._admissions.apply(self.clock.now())
            if self._must_commit():
                await self._commit()
            if self.clock.now() >= self._spared_until:
                self._timed.catch_up(self.clock.now(), self.changes)
                await self.housekeeping.run()
            if self.is_full or self._room_batch != self._batch:
                await self._heed_room()
            await self._grant_sessions()
            await self._refills.read()
        if not self.changes.is_empty():
            self._must_turn = True
        # Also without a commit: what was admitted may all have been refused.
        self._relieve()
        self._after_turn()

    async def _heed_room(self) -> None:
        """Stop senders while the store has no room for what they send, before a
        commit fails for it, and with it those of others who settle."""
        self._room_batch = self._batch
        self.room_bytes = await self.store.room()
        self._pending_limit = min(PENDING_BYTES, self.room_bytes or PENDING_BYTES)
        if self.room_bytes == 0:
            if not self.is_full:
                _log.error(
                    "the store is full: messages are refused until some were received "
                    "or there is room on its disk again"
                )
            self.is_full = True
            self.refuses_until = self.clock.now() + _FULL_MS
        elif self.is_full:
            _log.warning("the store has room again: messages are taken")
            self.is_full = False
            self.refuses_until = self._spared_until

    def _must_commit(self) -> bool:
        return (
            not self.changes.is_empty()
            # A duplicate changes nothing, and its sender waits all the same.
            or not self.listeners.is_empty()
            or self._durable is not None
            or self.changes.log.is_long()
        )

    async def _grant_sessions(self) -> None:
        awaited, self._awaited = self._awaited, {}
        for fragment in awaited.values():
            await self._grants.serve(fragment)

    def without_leaving(self, messages: list[Message]) -> list[Message]:
        """What was read from the store, but for what the open change set removes: a
        window that shrank has let go of messages that expired in it."""
        leaving = set(self.changes.active_removed)
        if not leaving:
            return messages
        return [message for message in messages if message.row_id not in leaving]

    async def commit_now(self) -> bool:
        """For housekeeping, which runs in the loop: commit before going on.

        False if nothing of it happened; then trying again at once is no use.
        """
        return self.changes.is_empty() or await self._commit()

    @property
    def last_batch(self) -> int:
        return self._batch

    async def _commit_log(self) -> None:
        """At the end: operations that no commit carried yet."""
        if not self.changes.log.is_empty():
            await self._commit()

    async def _commit(self) -> bool:
        """Commit the open change set; False if nothing of it happened."""
        changes, listeners, durable = self.changes, self.listeners, self._durable
        self.changes, self.listeners, self._durable = ChangeSet(self), Listeners(), None
        promises = self._promises.take()
        changes.seal(self._epoch, self._batch + 1, self.clock.now())
        try:
            error = await self._try_commit(changes)
        except StoreError as fatal:
            # Nobody knows what happened, but nobody shall wait for ever.
            self._answer_failure(listeners, durable, _cannot_go_on(fatal))
            raise
        if error is None:
            self._batch = changes.batch
            changes.publish()
            self._answer(listeners, durable)
            keep(promises)
            for fragment in changes.touched:
                self.deliver(fragment)
                self.watch(fragment)
        else:
            break_off(promises)
            self.changes.log.introduce_those_of(changes.log)
            await self._start_over(listeners, durable, error)
        return error is None

    async def _try_commit(self, changes: ChangeSet) -> ServiceBusError | None:
        """Commit; returns why nothing of it happened, or None if it did."""
        try:
            await self.store.commit(changes)
            return None
        except StoreFull as error:
            _log.error("commit %d refused, the store is full: %s", changes.batch, error)
            now = self.clock.now()
            self.refuses_until = self._spared_until = now + _FULL_MS
            self._serve_at = now + _SERVE_AGAIN_MS
            return ServerBusy(STORE_IS_FULL)
        except CommitFailed as error:
            _log.error("commit %d failed: %s", changes.batch, error)
        except CommitUnknown as error:
            _log.error("commit %d has an unknown outcome: %s", changes.batch, error)
            if await self.store.last_batch() == changes.batch:
                return None
        return ServerBusy(
            "The message store could not take the operation; nothing of it happened. "
            f"Try again. {STORE_TROUBLE}"
        )

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
        batch = await self.store.last_batch()
        next_scheduled_at = await self.store.next_scheduled_at()
        records = await self.store.fragments()
        leases = await self.store.reader_leases()
        rules = await self.store.rules()
        # From here on nothing suspends: whatever was asked for while the store was
        # being read rests on memory that is void, and is refused as well.
        self._refuse(error)
        self._batch = batch
        self._believe(records, leases, rules, next_scheduled_at)

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
        self._refills.clear()
        self._lose_sessions()
        self._watch_leases()
        self.housekeeping.begin(next_scheduled_at, self.clock.now())
        self._must_serve = True

    def _lose_sessions(self) -> None:
        """No lock is left: tell the holders, and let those who wait go on."""
        for dispatch in list(self._session_dispatches.values()):
            dispatch.lose_session()
        self._session_dispatches.clear()
        for fragment in self.table.loaded():
            if fragment.sessions is not None and fragment.sessions.waiters:
                self._awaited[fragment.number] = fragment
                self.watch(fragment)

    def _refuse(self, error: ServiceBusError) -> None:
        """Refuse what waits for the open change set, and drop it."""
        changes, listeners, durable = self.changes, self.listeners, self._durable
        self.changes, self.listeners, self._durable = ChangeSet(self), Listeners(), None
        # Those who act stay, and are introduced only once.
        self.changes.log.introduce_those_of(changes.log)
        self._promises.forget()
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
            # Whoever waited may have gone; then nobody will ask for it.
            durable.exception()

    def _relieve(self) -> None:
        if self.is_under_pressure and self._pending_bytes() <= self._pending_limit // 2:
            self.is_under_pressure = False
            self._on_pressure(False)


def owner_of(fragment: Fragment) -> "StoreOwner":
    """Whoever commits what happens to the fragment."""
    return cast(StoreOwner, fragment.home)


def _cannot_go_on(error: StoreError) -> InternalError:
    return InternalError(f"The message store cannot go on: {error}")
