"""Any sequence of session operations, against a model of what sessions promise.

The owner of a store, its grants, fragments and dispatches are the real ones, over a
store in memory; receivers and the loop belong to this test. The model gets the requests
and checks the results:

- a session has one holder, and its messages come in order, each to that holder;
- a message that returns comes first, with the right delivery count;
- nobody waits for a session while one that has messages is free;
- a failed commit and a restart lose every session lock and nothing else.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from unit.broker.world import run

from twinbus.broker import operation_log, session_lock, settlement
from twinbus.broker.changes import ChangeSet, SessionState
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import ACTIVE, DEFERRED, Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.broker.sessions import SessionWaiter
from twinbus.errors import ServiceBusError, SessionCannotBeLocked, SessionLockLost
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import CommitFailed
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.testing.clock import ManualClock

GENERATION = b"g" * 16
LOCK_MS = 10_000
MAX_DELIVERIES = 3
NOW = 1_800_000_000_000
NAMES = ("", "a", "b", "c")

names = st.sampled_from(NAMES)
picks = st.integers(0, 10_000)


class FailingStore(MemoryStore):
    """Fails the next commit when it is told to."""

    fails_next = False

    async def commit(self, changes: ChangeSet) -> None:
        if self.fails_next:
            self.fails_next = False
            raise CommitFailed("told to")
        await super().commit(changes)


class Copy:
    """A message as the model sees it."""

    def __init__(self, uid: bytes, expires_at: int) -> None:
        self.uid = uid
        self.expires_at = expires_at
        self.count = 0
        self.state = ACTIVE
        self.holder: Holder | None = None

    def is_ready(self, now: int) -> bool:
        return (
            self.holder is None and self.state == ACTIVE and not self.has_expired(now)
        )

    def has_expired(self, now: int) -> bool:
        """It may be gone; deferred messages are not."""
        return (
            self.holder is None and self.state == ACTIVE and 0 < self.expires_at <= now
        )


class Holder(Receiver):
    """A receiver that holds a session."""

    def __init__(
        self, machine: "SessionMachine", session: HeldSession, peek_lock: bool
    ) -> None:
        super().__init__(1, peek_lock)
        self.machine = machine
        self.session = session
        self.name = session.session_id
        session.receiver = self
        self.credit = 0
        self.locks: dict[bytes, MessageLock] = {}
        self.is_lost = False

    def capacity(self) -> int:
        return self.credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        for lock in locks:
            self.credit -= 1
            self.machine.delivered(self, lock.message).holder = self
            self.locks[lock.message.raw] = lock

    def deliver_removed(self, messages: list[Message]) -> None:
        for message in messages:
            self.credit -= 1
            copy = self.machine.delivered(self, message)
            self.machine.copies[self.name].remove(copy)

    def served(self) -> None:
        """A drain is the link's."""

    def session_lost(self) -> None:
        """Leaves at once, as links do."""
        self.is_lost = True
        assert self.machine.holders.pop(self.name) is self
        self.machine.owner.leave(self.machine.queue, self)


class Asker(SessionWaiter):
    """A client that asks for a session."""

    def __init__(
        self, machine: "SessionMachine", name: str | None, peek_lock: bool
    ) -> None:
        super().__init__(name)
        self.machine = machine
        self.peek_lock = peek_lock
        self.holder: Holder | None = None
        self.error: ServiceBusError | None = None

    def granted(self, session: HeldSession) -> None:
        machine = self.machine
        assert session.session_id not in machine.holders, "held by two"
        holder = self.holder = Holder(machine, session, self.peek_lock)
        machine.holders[holder.name] = holder
        machine.owner.join(machine.queue, holder)

    def refused(self, error: ServiceBusError) -> None:
        self.error = error


class SessionMachine(RuleBasedStateMachine):
    """Sessions of one queue."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(NOW)
        self.disk = MemoryDisk()
        self.entropy_count = 0
        self.sent_count = 0
        self.copies: dict[str, list[Copy]] = {name: [] for name in NAMES}
        self.states: dict[str, bytes | None] = dict.fromkeys(NAMES)
        self.dead: list[bytes] = []
        self.holders: dict[str, Holder] = {}
        self.askers: list[Asker] = []
        self.start()
        self.owner.table.create(GENERATION, 0, self.owner.changes)
        self.settle()

    def start(self) -> None:
        self.store = FailingStore(self.disk)
        self.owner = StoreOwner(
            self.store,
            self.clock,
            self.entropy,
            on_fatal=self.on_fatal,
            after_turn=self.after_turn,
            on_pressure=self.on_pressure,
        )
        run(self.owner.open("test"))
        self.owner.table.admit(
            GENERATION,
            FragmentSettings(
                path="q",
                lock_duration_ms=LOCK_MS,
                max_delivery_count=MAX_DELIVERIES,
                requires_session=True,
            ),
        )

    def on_fatal(self, error: Exception) -> None:
        raise AssertionError("the owner gave up") from error

    def after_turn(self) -> None:
        """Connections write then; there are none."""

    def on_pressure(self, is_high: bool) -> None:
        raise AssertionError("so little cannot be too much")

    def entropy(self, count: int) -> bytes:
        """Never the same bytes twice; no need to be random."""
        self.entropy_count += 1
        return self.entropy_count.to_bytes(ENTROPY_BYTES, "big") * count

    @property
    def queue(self) -> Fragment:
        found = self.owner.table.find(GENERATION, 0, MAIN)
        assert found is not None
        return found

    @property
    def now(self) -> int:
        return self.clock.now()

    def settle(self) -> None:
        """Let the owner do all there is to do."""
        self.owner.wake()
        while self.owner.must_turn:
            self.owner.must_turn = False
            run(self.owner.turn())

    def settle_unless(self, is_hasty: bool) -> None:
        """What follows in haste finds the commit still to come."""
        if not is_hasty:
            self.settle()

    def is_settled(self) -> bool:
        return not self.owner.must_turn and self.owner.changes.is_empty()

    # --- what the bus does ----------------------------------------------------

    def delivered(self, holder: Holder, message: Message) -> Copy:
        """The model expects exactly this one next."""
        assert self.holders[holder.name] is holder
        assert message.session_id == holder.name
        ready = [copy for copy in self.copies[holder.name] if copy.is_ready(self.now)]
        assert ready, f"{message.raw!r} should not be there"
        assert (message.raw, message.delivery_count) == (ready[0].uid, ready[0].count)
        return ready[0]

    def lost(self, holder: Holder) -> None:
        """What the end of a session's lock does to its messages."""
        for copy in list(self.copies[holder.name]):
            if copy.holder is holder:
                self.count(holder.name, copy)

    def count(self, name: str, copy: Copy) -> None:
        copy.holder = None
        copy.count += 1
        if copy.count >= MAX_DELIVERIES:
            self.copies[name].remove(copy)
            self.dead.append(copy.uid)

    def freed(self, holder: Holder) -> None:
        """What giving a session up does to its messages."""
        for copy in self.copies[holder.name]:
            if copy.holder is holder:
                copy.holder = None

    # --- sending --------------------------------------------------------------

    @rule(
        name=names,
        count=st.integers(1, 5),
        ttl_ms=st.sampled_from([0, 0, 7_000]),
        is_hasty=st.booleans(),
    )
    def send(self, name: str, count: int, ttl_ms: int, is_hasty: bool) -> None:
        self._send(name, count, ttl_ms)
        self.settle_unless(is_hasty)

    def _send(self, name: str, count: int, ttl_ms: int) -> None:
        for _ in range(count):
            self.sent_count += 1
            uid = b"%d" % self.sent_count
            message = Message(uid, 0, ttl_ms, 0)
            message.session_id = name
            self.queue.enqueue(message, 1, self.now, self.owner.changes)
            self.copies[name].append(Copy(uid, self.now + ttl_ms if ttl_ms else 0))

    @precondition(lambda self: self.may_disturb())
    @rule(name=names)
    def send_in_vain(self, name: str) -> None:
        """The commit fails: nothing was sent, and no session is held any more."""
        self.settle()
        before = list(self.copies[name])
        held = list(self.holders.values())
        self._send(name, 2, 0)
        self.copies[name] = before
        self.store.fails_next = True
        for holder in held:
            self.freed(holder)
        self.settle()
        assert all(holder.is_lost for holder in held)

    # --- holding --------------------------------------------------------------

    @rule(name=names, peek_lock=st.booleans())
    def accept_named(self, name: str, peek_lock: bool) -> None:
        was_held = name in self.holders
        asker = Asker(self, name, peek_lock)
        self.owner.wait_for_session(self.queue, asker)
        self.settle()
        if was_held:
            assert isinstance(asker.error, SessionCannotBeLocked)
        else:
            assert asker.holder is not None

    @precondition(lambda self: len(self.askers) < 3)
    @rule(peek_lock=st.booleans())
    def ask_for_the_next(self, peek_lock: bool) -> None:
        asker = Asker(self, None, peek_lock)
        self.askers.append(asker)
        self.owner.wait_for_session(self.queue, asker)
        self.settle()

    @precondition(lambda self: self.askers)
    @rule(pick=picks)
    def stop_asking(self, pick: int) -> None:
        asker = self.askers.pop(pick % len(self.askers))
        self.queue.the_sessions().leave(asker)

    @precondition(lambda self: self.holders)
    @rule(pick=picks, count=st.integers(1, 6))
    def give_credit(self, pick: int, count: int) -> None:
        holder = self._holder(pick)
        holder.credit += count
        self.owner.offer_capacity(self.queue, holder)
        self.settle()
        if holder.credit and not holder.is_lost:
            ready = [c for c in self.copies[holder.name] if c.is_ready(self.now)]
            assert ready == [], "it was left waiting"

    @precondition(lambda self: self.holders)
    @rule(pick=picks, is_hasty=st.booleans())
    def close(self, pick: int, is_hasty: bool) -> None:
        holder = self._holder(pick)
        self.freed(holder)
        del self.holders[holder.name]
        self.owner.leave(self.queue, holder)
        self.settle_unless(is_hasty)

    @precondition(lambda self: self.holders)
    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        holder = self._holder(pick)
        session = session_lock.held(self.queue, holder.name, self.now)
        assert session is holder.session
        assert session_lock.renew(self.queue, session, self.now) == self.now + LOCK_MS

    def _holder(self, pick: int) -> Holder:
        return list(self.holders.values())[pick % len(self.holders)]

    # --- settling -------------------------------------------------------------

    @precondition(lambda self: any(h.locks for h in self.holders.values()))
    @rule(
        pick=picks,
        how=st.sampled_from(["complete", "abandon", "release", "defer", "dead-letter"]),
        is_hasty=st.booleans(),
    )
    def settle_one(self, pick: int, how: str, is_hasty: bool) -> None:
        holders = [holder for holder in self.holders.values() if holder.locks]
        holder = holders[pick % len(holders)]
        uid = list(holder.locks)[pick % len(holder.locks)]
        lock = holder.locks.pop(uid)
        [copy] = [copy for copy in self.copies[holder.name] if copy.uid == uid]
        self._settle(lock, how)
        self._model_settle(holder.name, copy, how)
        self.settle_unless(is_hasty)

    def _settle(self, lock: MessageLock, how: str) -> None:
        queue, now, changes = self.queue, self.now, self.owner.changes
        if how == "complete":
            settlement.complete(queue, lock, 1, now, changes)
        elif how == "abandon":
            settlement.abandon(queue, lock, None, 1, now, changes)
        elif how == "release":
            settlement.release(queue, lock, 1, now, changes)
        elif how == "defer":
            settlement.defer(queue, lock, None, 1, now, changes)
        else:
            settlement.dead_letter(queue, lock, "r", None, None, 1, now, changes)

    def _model_settle(self, name: str, copy: Copy, how: str) -> None:
        if how == "abandon":
            self.count(name, copy)
            return
        copy.holder = None
        if how == "defer":
            copy.state = DEFERRED
        elif how != "release":
            self.copies[name].remove(copy)
        if how == "dead-letter":
            self.dead.append(copy.uid)

    @precondition(lambda self: any(h.locks for h in self.holders.values()))
    @rule(pick=picks)
    def settle_after_the_session_was_closed(self, pick: int) -> None:
        holders = [holder for holder in self.holders.values() if holder.locks]
        holder = holders[pick % len(holders)]
        lock = next(iter(holder.locks.values()))
        self.freed(holder)
        del self.holders[holder.name]
        self.owner.leave(self.queue, holder)
        try:
            settlement.complete(self.queue, lock, 1, self.now, self.owner.changes)
        except SessionLockLost:
            self.settle()
        else:
            raise AssertionError("a lost lock settled its message")

    @precondition(lambda self: self.holders)
    @rule(pick=picks)
    def receive_deferred(self, pick: int) -> None:
        self.settle()
        holder = self._holder(pick)
        copies = [
            copy
            for copy in self.copies[holder.name]
            if copy.state == DEFERRED and copy.holder is None
        ]
        if not copies or not holder.peek_lock:
            return
        copy = copies[pick % len(copies)]
        [message] = [m for m in self._stored(holder.name) if m.raw == copy.uid]
        assert message.state == DEFERRED
        entropy = self.entropy(1)
        lock = self.queue.lock_deferred(message, self.now, entropy, holder.session)
        self.owner.changes.log.record(operation_log.LOCK, 1, message, self.now)
        holder.locks[copy.uid] = lock
        copy.holder = holder

    @precondition(lambda self: self.holders)
    @rule(pick=picks, state=st.sampled_from([None, b"", b"one", b"two"]))
    def set_state(self, pick: int, state: bytes | None) -> None:
        holder = self._holder(pick)
        self.owner.changes.session_states.append(
            SessionState(
                fragment_number=self.queue.number,
                session_id=holder.name,
                state=state,
                updated_at=self.now,
            )
        )
        self.states[holder.name] = state
        self.settle()

    def may_disturb(self) -> bool:
        """Now and then: what ends all sessions ends all that could go wrong in them."""
        return self.sent_count % 4 == 0

    # --- time and accidents ---------------------------------------------------

    @rule(milliseconds=st.sampled_from([1, 1, 500, 3_000, 10_000, 70_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        ends = {
            holder: holder.session.locked_until  # type: ignore[union-attr]
            for holder in self.holders.values()
        }
        self.clock.advance(milliseconds)
        ended = {
            holder
            for holder, locked_until in ends.items()
            if locked_until <= self.now and holder.peek_lock
        }
        for holder in ended:
            self.lost(holder)
        self.owner.tick()
        self.settle()
        assert {holder for holder in ends if holder.is_lost} == ended

    @precondition(lambda self: self.may_disturb())
    @rule()
    def restart(self) -> None:
        self.settle()
        for holder in self.holders.values():
            self.freed(holder)
        self.holders.clear()
        self.askers.clear()
        run(self.store.close())
        self.start()
        self.settle()

    # --- what must hold -------------------------------------------------------

    def _stored(self, name: str) -> list[Message]:
        read = self.store.browse_session(self.queue.number, name, 0, 1000, 1 << 30)
        found: list[Message] = run(read)
        return found

    @precondition(is_settled)
    @invariant()
    def nobody_waits_in_vain(self) -> None:
        self.askers = [asker for asker in self.askers if asker.holder is None]
        if not self.askers:
            return
        for name, copies in self.copies.items():
            if name not in self.holders:
                assert not any(copy.is_ready(self.now) for copy in copies), name

    @precondition(is_settled)
    @invariant()
    def store_has_what_the_model_has(self) -> None:
        for name, copies in self.copies.items():
            stored = {m.raw: (m.delivery_count, m.state) for m in self._stored(name)}
            for copy in copies:
                if copy.uid in stored or not copy.has_expired(self.now):
                    assert stored.pop(copy.uid) == (copy.count, copy.state)
            assert stored == {}

    @precondition(is_settled)
    @invariant()
    def states_are_kept(self) -> None:
        for name, state in self.states.items():
            read = self.store.session_state(self.queue.number, name)
            assert run(read) == state

    @precondition(is_settled)
    @invariant()
    def dead_letters_are_kept(self) -> None:
        dead = self.owner.table.record_of(GENERATION, 0, DEAD_LETTER)
        assert (0 if dead is None else dead.active_count) == len(self.dead)

    @precondition(is_settled)
    @invariant()
    def counters_add_up(self) -> None:
        record = self.queue.record()
        stored = [message for name in NAMES for message in self._stored(name)]
        active = sum(message.state == ACTIVE for message in stored)
        assert record.active_count == active
        assert record.deferred_count == len(stored) - active


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None
)
