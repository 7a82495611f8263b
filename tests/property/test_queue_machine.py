"""A queue against a list: both agree after any sequence of operations.

The machine drives fragments, their dispatch and a store by hand, like the owner of a
store, with commits that succeed, commits that fail and crashes. The model is a list of
entries; a failed commit or a crash restores a copy of that list.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from unit.broker.world import run

from twinbus.broker import expiry, schedule, settlement
from twinbus.broker.changes import ChangeSet
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import READY, Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.broker.row_id import sequence_of
from twinbus.errors import MessageLockLost
from twinbus.limits import WINDOW_BYTES
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store

GENERATION = bytes(16)
ACTOR = 1


# --- the model ------------------------------------------------------------------


@dataclass
class Entry:
    """One message, as anybody would describe it."""

    name: bytes
    dead: bool = False
    where: str = "active"
    number: int = 0
    delivery_count: int = 0
    ttl_ms: int = 0
    expires_at: int = 0
    due_at: int = 0
    locked_until: int = 0
    # Committed, and neither promised nor on its way back.
    visible: bool = False

    def end_of_lock(self) -> tuple[bool, int, int]:
        return self.dead, self.locked_until, self.number


@dataclass
class Model:
    """All messages of a queue and its dead-letter queue, in the order of numbers."""

    entries: list[Entry] = field(default_factory=list)
    next_number: dict[bool, int] = field(default_factory=lambda: {False: 1, True: 1})

    def place(self, entry: Entry, dead: bool, where: str, now: int) -> None:
        entry.number = self.next_number[dead]
        self.next_number[dead] += 1
        entry.dead, entry.where = dead, where
        entry.locked_until, entry.visible = 0, False
        has_end = entry.ttl_ms and where == "active" and not dead
        entry.expires_at = now + entry.ttl_ms if has_end else 0

    def dead_letter(self, entry: Entry, now: int) -> None:
        entry.ttl_ms = 0
        self.place(entry, True, "active", now)

    def fail_delivery(self, entry: Entry, limit: int, now: int) -> None:
        if not entry.dead:
            entry.delivery_count += 1
        entry.locked_until, entry.visible = 0, False
        if not entry.dead and entry.delivery_count >= limit:
            self.dead_letter(entry, now)

    def of(self, dead: bool, where: str) -> list[Entry]:
        found = [e for e in self.entries if e.dead == dead and e.where == where]
        return sorted(found, key=lambda entry: entry.number)

    def ready(self, dead: bool) -> list[Entry]:
        return [e for e in self.of(dead, "active") if e.visible and not e.locked_until]

    def commit(self) -> None:
        for entry in self.entries:
            entry.visible = not entry.locked_until

    def restart(self) -> None:
        for entry in self.entries:
            entry.locked_until, entry.visible = 0, True


# --- the machine ----------------------------------------------------------------


class Client(Receiver):
    """Takes as many messages as it is told to."""

    def __init__(self, peek_lock: bool) -> None:
        super().__init__(ACTOR, peek_lock)
        self.wanted = 0
        self.locks: list[MessageLock] = []
        self.removed: list[bytes] = []

    def capacity(self) -> int:
        return self.wanted

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self.wanted -= len(locks)
        self.locks += locks

    def deliver_removed(self, messages: list[Message]) -> None:
        self.removed += [message.raw for message in messages]

    def served(self) -> None:
        """A drain is the link's."""

    def session_lost(self) -> None:
        raise AssertionError("it has no session")


sides = st.booleans()
picks = st.integers(0, 10_000)


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        limit=st.integers(1, 3), default_ttl=st.sampled_from([0, 50]), dead=sides
    )
    def create(self, limit: int, default_ttl: int, dead: bool) -> None:
        self.settings = FragmentSettings(
            path="orders",
            lock_duration_ms=30,
            max_delivery_count=limit,
            default_ttl_ms=default_ttl,
            dead_letter_on_expiration=dead,
        )
        self.now = 1_000_000
        self.sent_count = self.batch = self.entropy_count = 0
        self.model, self.durable = Model(), Model()
        self.held: list[tuple[Entry | None, MessageLock, bool]] = []
        self.changes = ChangeSet()
        self.store = MemoryStore()
        self.open()
        self.table.create(GENERATION, 0, self.changes)
        self.seal_and_commit()
        self.join()

    def open(self) -> None:
        opened = run(open_store(self.store, "machine", self.now))
        self.epoch = opened.epoch
        self.table = FragmentTable(opened.epoch, opened.fragments)
        self.table.admit(GENERATION, self.settings)

    def join(self) -> None:
        self.clients: dict[tuple[bool, bool], Client] = {}
        self.dispatches: dict[bool, Dispatch] = {}
        for dead in (False, True):
            self.dispatches[dead] = Dispatch(self.fragment(dead), None, self.entropy)

    def entropy(self, count: int) -> bytes:
        """Never the same bytes twice; no need to be random."""
        self.entropy_count += 1
        return self.entropy_count.to_bytes(ENTROPY_BYTES, "big") * (
            count // ENTROPY_BYTES
        )

    def client(self, dead: bool, peek_lock: bool) -> Client:
        """The receiver of that kind; it attaches when it is first needed."""
        client = self.clients.get((dead, peek_lock))
        if client is None:
            client = self.clients[dead, peek_lock] = Client(peek_lock)
            self.dispatches[dead].join(client)
        return client

    def fragment(self, dead: bool) -> Fragment:
        main = self.table.find(GENERATION, 0, MAIN)
        assert main is not None
        return self.table.sub_queue_of(main, DEAD_LETTER) if dead else main

    # --- sending --------------------------------------------------------------

    def new_message(self, ttl_ms: int, due_at: int = 0) -> tuple[Message, Entry]:
        self.sent_count += 1
        name = b"%06d" % self.sent_count
        default = self.settings.default_ttl_ms
        effective = min(ttl_ms or default, default or ttl_ms)
        entry = Entry(name, ttl_ms=effective, due_at=due_at)
        self.model.entries.append(entry)
        return Message(name, 0, ttl_ms, due_at), entry

    @rule(count=st.integers(1, 40), ttl_ms=st.sampled_from([0, 0, 20, 100]))
    def send(self, count: int, ttl_ms: int) -> None:
        for _ in range(count):
            message, entry = self.new_message(ttl_ms)
            self.fragment(False).enqueue(message, ACTOR, self.now, self.changes)
            self.model.place(entry, False, "active", self.now)

    @rule(delay=st.integers(1, 60), ttl_ms=st.sampled_from([0, 20]))
    def schedule(self, delay: int, ttl_ms: int) -> None:
        message, entry = self.new_message(ttl_ms, self.now + delay)
        fragment = self.fragment(False)
        schedule.schedule(fragment, message, ACTOR, self.now, self.changes)
        self.model.place(entry, False, "scheduled", self.now)

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        self.commit()
        scheduled = self.model.of(False, "scheduled")
        if scheduled:
            entry = scheduled[pick % len(scheduled)]
            fragment = self.fragment(False)
            row_id = fragment.row_id(entry.number)
            [message] = run(self.store.read_scheduled([row_id]))
            schedule.cancel(fragment, message, ACTOR, self.now, self.changes)
            self.model.entries.remove(entry)

    # --- receiving ------------------------------------------------------------

    @rule(dead=sides, wanted=st.integers(1, 30))
    def receive(self, dead: bool, wanted: int) -> None:
        client = self.client(dead, True)
        client.wanted = wanted
        self.serve(client, dead)
        for lock in client.locks:
            entry = self.model_delivers(dead, lock.message)
            self.note_lock(entry, lock.locked_until)
            self.held.append((entry, lock, dead))
        if self.changes.is_empty():
            assert client.wanted == 0 or self.unexpired(dead) == []
        client.locks, client.wanted = [], 0

    @rule(dead=sides, wanted=st.integers(1, 30))
    def receive_and_delete(self, dead: bool, wanted: int) -> None:
        client = self.client(dead, False)
        client.wanted = wanted
        self.serve(client, dead)
        promised = self.dispatches[dead].take_promises()
        for _, messages in promised:
            for message in messages:
                self.model.entries.remove(self.model_delivers(dead, message))
        client.promised_count = client.wanted = 0

    def serve(self, client: Client, dead: bool) -> None:
        """Deliver as the owner does; it reads the disk after a commit only."""
        dispatch, fragment = self.dispatches[dead], self.fragment(dead)
        is_clean = self.changes.is_empty()
        dispatch.offer_capacity(client)
        dispatch.deliver(self.now, self.changes)
        while is_clean and dispatch.wants_refill():
            window = fragment.window
            after, limit = window.loaded_through, window.room()
            found = run(
                self.store.read_active(fragment.number, after, limit, WINDOW_BYTES)
            )
            through = sequence_of(found[-1].row_id) if found else window.tail
            fragment.refill(found, through)
            dispatch.deliver(self.now, self.changes)

    def model_delivers(self, dead: bool, message: Message) -> Entry:
        """The next ready entry, after those that expire on the way to it."""
        entry = self.model.ready(dead)[0]
        while 0 < entry.expires_at <= self.now:
            self.expire(entry)
            entry = self.model.ready(dead)[0]
        assert (entry.name, entry.number) == (message.raw, sequence_of(message.row_id))
        assert entry.delivery_count == message.delivery_count
        return entry

    def unexpired(self, dead: bool) -> list[Entry]:
        """What is ready; the expired ones were met on the way."""
        for entry in self.model.ready(dead):
            if 0 < entry.expires_at <= self.now:
                self.expire(entry)
        return self.model.ready(dead)

    @rule(dead=sides, pick=picks)
    def receive_deferred(self, dead: bool, pick: int) -> None:
        self.commit()
        deferred = [e for e in self.model.of(dead, "deferred") if not e.locked_until]
        if deferred:
            entry = deferred[pick % len(deferred)]
            fragment = self.fragment(dead)
            row_id = fragment.row_id(entry.number)
            [message] = run(self.store.read_deferred([row_id]))
            lock = fragment.lock_deferred(
                message, self.now, self.entropy(ENTROPY_BYTES)
            )
            self.note_lock(entry, lock.locked_until)
            self.held.append((entry, lock, dead))

    @rule(dead=sides, peek_lock=st.booleans())
    def leave(self, dead: bool, peek_lock: bool) -> None:
        client = self.clients.pop((dead, peek_lock), None)
        if client is not None:
            self.dispatches[dead].leave(client)

    # --- settling -------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(pick=picks, outcome=st.sampled_from(["complete", "abandon", "release"]))
    def settle(self, pick: int, outcome: str) -> None:
        entry, lock, dead = self.held.pop(pick % len(self.held))
        arguments = (ACTOR, self.now, self.changes)
        fragment = self.fragment(dead)
        with self.lost_unless(entry):
            if outcome == "complete":
                settlement.complete(fragment, lock, *arguments)
            elif outcome == "abandon":
                settlement.abandon(fragment, lock, None, *arguments)
            else:
                settlement.release(fragment, lock, *arguments)
        if entry is None:
            return
        if outcome == "complete":
            self.model.entries.remove(entry)
        elif outcome == "abandon":
            limit = self.settings.max_delivery_count
            self.model.fail_delivery(entry, limit, self.now)
        else:
            entry.locked_until, entry.visible = 0, False

    @precondition(lambda self: self.held)
    @rule(pick=picks, defer=st.booleans())
    def set_aside(self, pick: int, defer: bool) -> None:
        entry, lock, dead = self.held.pop(pick % len(self.held))
        fragment, now, changes = self.fragment(dead), self.now, self.changes
        with self.lost_unless(entry):
            if defer:
                settlement.defer(fragment, lock, None, ACTOR, now, changes)
            else:
                settlement.dead_letter(
                    fragment, lock, "why", None, None, ACTOR, now, changes
                )
        if entry is None:
            return
        if defer:
            entry.where, entry.locked_until, entry.visible = "deferred", 0, False
        elif dead:
            entry.locked_until, entry.visible = 0, False
        else:
            self.model.dead_letter(entry, now)

    def lost_unless(self, entry: Entry | None) -> Any:
        if entry is None:
            return pytest.raises(MessageLockLost)
        return pytest.MonkeyPatch.context()

    @precondition(lambda self: self.held)
    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        entry, lock, dead = self.held[pick % len(self.held)]
        with self.lost_unless(entry):
            found = self.fragment(dead).lock_of(lock.token, self.now)
            assert found is lock
        if entry is not None:
            self.note_lock(entry, self.fragment(dead).renew(lock, self.now))

    def note_lock(self, entry: Entry, locked_until: int) -> None:
        entry.locked_until = locked_until

    @rule(duration=st.sampled_from([5, 30, 90]))
    def change_lock_duration(self, duration: int) -> None:
        self.settings.lock_duration_ms = duration
        self.table.update(GENERATION, self.settings)

    # --- time -----------------------------------------------------------------

    @rule(passed=st.integers(1, 70))
    def let_time_pass(self, passed: int) -> None:
        self.commit()
        self.now += passed
        for dead in (False, True):
            expiry.let_time_pass(self.fragment(dead), self.now, self.changes)
        ended = [e for e in self.model.entries if 0 < e.locked_until <= self.now]
        for entry in sorted(ended, key=Entry.end_of_lock):
            self.lose_lock(entry)
        self.model_lets_expire(in_memory=True)
        self.commit()
        self.activate()
        expiry.let_time_pass(self.fragment(False), self.now, self.changes)
        self.model_lets_expire(in_memory=True)
        self.commit()
        self.sweep()
        self.model_lets_expire(in_memory=False)
        self.commit()

    def model_lets_expire(self, *, in_memory: bool) -> None:
        ready = self.model.ready(False)
        if in_memory:
            ready.sort(key=lambda entry: entry.expires_at)
        for entry in ready:
            if 0 < entry.expires_at <= self.now:
                assert in_memory or not self.is_loaded(entry)
                if self.is_loaded(entry) == in_memory:
                    self.expire(entry)

    def lose_lock(self, entry: Entry) -> None:
        self.held = [
            (None if known is entry else known, lock, dead)
            for known, lock, dead in self.held
        ]
        self.model.fail_delivery(entry, self.settings.max_delivery_count, self.now)

    def is_loaded(self, entry: Entry) -> bool:
        """Of what is ready in memory nothing is left that should have expired."""
        in_memory = self.fragment(False).window.ready_messages()
        assert all(message.raw != entry.name for message in in_memory)
        return entry.number <= self.fragment(False).window.loaded_through

    def activate(self) -> None:
        for message in run(self.store.due(self.now, 1_000)):
            schedule.activate(self.fragment(False), message, self.now, self.changes)
            [entry] = [e for e in self.model.entries if e.name == message.raw]
            assert entry.where == "scheduled" and entry.due_at <= self.now
            self.model.place(entry, False, "active", self.now)
        self.commit()
        assert all(e.due_at > self.now for e in self.model.of(False, "scheduled"))

    def sweep(self) -> None:
        fragment = self.fragment(False)
        number = fragment.number
        for message in run(self.store.read_active(number, 0, 1_000_000, 1 << 40)):
            expiry.expire_unloaded(fragment, message, self.now, self.changes)

    def expire(self, entry: Entry) -> None:
        if self.settings.dead_letter_on_expiration:
            self.model.dead_letter(entry, self.now)
        else:
            self.model.entries.remove(entry)

    # --- commits, failures, crashes -------------------------------------------

    @rule()
    def commit(self) -> None:
        self.seal_and_commit()
        self.model.commit()
        self.durable = deepcopy(self.model)
        self.check_store()

    def seal_and_commit(self) -> None:
        changes, self.changes = self.changes, ChangeSet()
        self.batch += 1
        changes.seal(self.epoch, self.batch, self.now)
        run(self.store.commit(changes))
        changes.publish()

    def check_store(self) -> None:
        for dead in (False, True):
            fragment = self.fragment(dead)
            found = run(self.store.browse(fragment.number, 0, 1_000_000, 1 << 40))
            entries = [e for e in self.model.entries if e.dead == dead]
            assert [
                (message.raw, sequence_of(message.row_id), message.delivery_count)
                for message in found
            ] == sorted(
                ((e.name, e.number, e.delivery_count) for e in entries),
                key=lambda row: row[1],
            )

    @rule()
    def commit_fails(self) -> None:
        self.changes.seal(self.epoch, self.batch + 1, self.now)
        self.changes = ChangeSet()
        self.table.restore(run(self.store.fragments()))
        self.go_back()

    @rule()
    def crash(self) -> None:
        self.store.abandon()
        self.changes = ChangeSet()
        self.open()
        self.go_back()
        self.join()

    def go_back(self) -> None:
        """All since the last commit, and every lock, is forgotten."""
        self.model = deepcopy(self.durable)
        self.model.restart()
        self.held = [(None, lock, dead) for _, lock, dead in self.held]

    # --- what holds at any time -----------------------------------------------

    @invariant()
    def counters_are_those_of_the_model(self) -> None:
        for dead in (False, True):
            fragment = self.fragment(dead)
            entries = [e for e in self.model.entries if e.dead == dead]
            assert fragment.active_count == len(self.model.of(dead, "active"))
            assert fragment.deferred_count == len(self.model.of(dead, "deferred"))
            assert fragment.scheduled_count == len(self.model.of(dead, "scheduled"))
            assert fragment.size_bytes == sum(len(e.name) for e in entries)
            assert fragment.next_sequence == self.model.next_number[dead]

    @invariant()
    def the_window_is_in_order(self) -> None:
        for dead in (False, True):
            fragment = self.fragment(dead)
            window = fragment.window
            ready = [message.row_id for message in window.ready_messages()]
            assert ready == sorted(set(ready))
            assert window.loaded_through <= window.tail < fragment.next_sequence
            assert not set(ready) & set(fragment.locks)
            assert all(m.place == READY for m in window.ready_messages())

    @invariant()
    def locks_are_those_of_the_model(self) -> None:
        for dead in (False, True):
            locks = self.fragment(dead).locks.values()
            entries = [e for e in self.model.entries if e.dead == dead]
            assert {lock.message.raw: lock.locked_until for lock in locks} == {
                entry.name: entry.locked_until
                for entry in entries
                if entry.locked_until
            }


# To explain a failure, Hypothesis traces every line: minutes, for this many steps.
QueueMachine.TestCase.settings = hypothesis_settings(
    stateful_step_count=40, phases=[phase for phase in Phase if phase != Phase.explain]
)
test_a_queue_behaves_like_a_list = QueueMachine.TestCase
