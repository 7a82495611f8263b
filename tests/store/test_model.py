"""Stores against the model: after any sequence of operations both are the same, even if
an owner died in between."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bench.postgres_server import PostgresServer
from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    LedgerId,
    LedgerRange,
    OutboxEntry,
    ReaderLease,
    SessionState,
    SharedBody,
    StoredRule,
)
from twinbus.broker.message import (
    ACTIVE,
    DEFERRED,
    SCHEDULED,
    Annex,
    Message,
    restored_message,
)
from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import base_of
from twinbus.store.base import CommitFailed, ExpiryCursor, Opened, Store, WindowRefill
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store
from twinbus.store.postgres import PostgresStore
from twinbus.store.sqlite import SqliteStore

from .places import PostgresPlace

Result = TypeVar("Result")

NOW = 1_700_000_000_000
FRAGMENTS = (0, 1, 40_000)
TOPIC = 7
NO_LIMIT = 1 << 40

row_ids = st.builds(
    lambda number, sequence: base_of(number) + sequence,
    st.sampled_from(FRAGMENTS),
    st.integers(1, 12),
)
session_ids = st.sampled_from([None, "", "a", "a\0", "b"])
annexes = st.none() | st.builds(
    Annex,
    dead_letter_reason=st.none() | st.text("ab", max_size=3),
    modified=st.dictionaries(st.text("kl", max_size=2), st.binary(max_size=2)),
)


def messages(state: int) -> st.SearchStrategy[list[Message]]:
    """New messages of a state, few and small."""
    is_scheduled = state == SCHEDULED
    times = st.integers(NOW, NOW + 200_000)
    return st.lists(
        st.builds(
            restored_message,
            row_ids,
            st.binary(max_size=8),
            st.integers(0, 2**63 - 1),
            st.just(NOW),
            st.sampled_from([0, 1, 59_999, 60_000, 90_000]),
            st.integers(0, 3),
            st.just(state),
            times if is_scheduled else st.just(0),
            annexes,
            session_ids,
        ),
        max_size=5,
        unique_by=lambda message: message.row_id,
    )


def values(message: Message) -> tuple[Any, ...]:
    return (
        *(message.row_id, message.raw, message.layout, message.enqueued_at),
        *(message.ttl_ms, message.expires_at, message.delivery_count),
        *(message.state, message.scheduled_at, message.annex),
        *(message.session_id, message.body_id, message.is_shared),
    )


async def outcome_of(operation: Coroutine[Any, Any, Result]) -> Result | str:
    """What came of it, a refusal included."""
    try:
        return await operation
    except CommitFailed:
        return "refused"


def _columns(found: Outlines) -> tuple[list[int], ...]:
    return found.row_ids, found.enqueued_at, found.sizes, found.body_ids


class TwoStores(RuleBasedStateMachine):
    """Everything is done to both stores, and must look the same."""

    def tested(self) -> Store:
        return SqliteStore(Path(self.folder.name) / "store.sqlite3")

    def abandon(self, store: Store) -> None:
        """Its process has died."""
        assert isinstance(store, MemoryStore | SqliteStore)
        store.abandon()

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        """What is in the tables of the tested store."""
        tested = self.stores[1]
        assert isinstance(tested, SqliteStore)
        return tested._db.execute(statement).fetchall()

    @initialize()
    def open_both(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.stores: tuple[Store, Store] = (MemoryStore(), self.tested())
        self.opened = self._open()

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                self.loop.run_until_complete(store.close())
            self.loop.close()
            self.folder.cleanup()

    def _open(self) -> list[Opened]:
        return [
            self.loop.run_until_complete(open_store(store, "model", NOW))
            for store in self.stores
        ]

    def _both(self, name: str, *args: Any, **named: Any) -> Any:
        """Do it to both; returns the answer, which must be the same."""
        model, tested = (
            self.loop.run_until_complete(
                outcome_of(getattr(store, name)(*args, **named))
            )
            for store in self.stores
        )
        assert model == tested, name
        return tested

    def _both_read(self, name: str, *args: Any) -> None:
        model, tested = (
            self.loop.run_until_complete(getattr(store, name)(*args))
            for store in self.stores
        )
        assert [values(m) for m in model] == [values(m) for m in tested], name

    def _commit(self, changes: ChangeSet) -> None:
        batch = self._both("last_batch") + 1
        changes.seal(self.opened[0].epoch, batch, NOW)
        self._both("commit", changes)

    @rule(
        active=messages(ACTIVE), deferred=messages(DEFERRED), later=messages(SCHEDULED)
    )
    def add(
        self, active: list[Message], deferred: list[Message], later: list[Message]
    ) -> None:
        changes = ChangeSet()
        changes.active_added += active
        changes.deferred_added += deferred
        changes.scheduled_added += later
        self._commit(changes)

    def _found(self) -> list[Message]:
        """Every message, as the tested store has it."""
        store = self.stores[1]
        return [
            message
            for number in FRAGMENTS
            for message in self.loop.run_until_complete(
                store.browse(number, 0, 100, NO_LIMIT)
            )
        ]

    @rule(active=st.lists(row_ids), deferred=st.lists(row_ids), later=st.lists(row_ids))
    def remove(self, active: list[int], deferred: list[int], later: list[int]) -> None:
        changes = ChangeSet()
        changes.active_removed += active
        changes.deferred_removed += deferred
        changes.scheduled_removed += later
        removed = {ACTIVE: active, DEFERRED: deferred, SCHEDULED: later}
        changes.bodies_released += [
            message.body_id
            for message in self._found()
            if message.is_shared and message.row_id in removed[message.state]
        ]
        self._commit(changes)

    @rule(
        sequence=st.integers(1, 5),
        active=messages(ACTIVE),
        deferred=messages(DEFERRED),
        later=messages(SCHEDULED),
    )
    def fan_out(
        self,
        sequence: int,
        active: list[Message],
        deferred: list[Message],
        later: list[Message],
    ) -> None:
        body = SharedBody(body_id=base_of(TOPIC) + sequence, raw=b"shared")
        copies = [*active, *deferred, *later]
        for copy in copies:
            copy.raw = body.raw
            copy.body_id = body.body_id
            copy.is_shared = True
        changes = ChangeSet()
        changes.bodies_added.append(body)
        changes.active_added += active
        changes.deferred_added += deferred
        changes.scheduled_added += later
        changes.bodies_taken += [body.body_id] * len(copies)
        self._commit(changes)

    @rule(
        session_id=st.sampled_from(["", "a", "b"]),
        state=st.none() | st.binary(max_size=2),
        updated_at=st.integers(NOW, NOW + 9),
    )
    def keep_state(self, session_id: str, state: bytes | None, updated_at: int) -> None:
        changes = ChangeSet()
        changes.session_states.append(
            SessionState(
                fragment_number=1,
                session_id=session_id,
                state=state,
                updated_at=updated_at,
            )
        )
        self._commit(changes)

    @rule(
        number=st.sampled_from(FRAGMENTS),
        removed=st.lists(st.sampled_from("xyz")),
        put=st.lists(st.tuples(st.sampled_from("xyz"), st.integers(NOW, NOW + 3))),
    )
    def change_rules(
        self, number: int, removed: list[str], put: list[tuple[str, int]]
    ) -> None:
        changes = ChangeSet()
        changes.rules_removed += [(number, name) for name in removed]
        changes.rules_put += [
            StoredRule(
                fragment_number=number, name=name, definition=f"{at}", created_at=at
            )
            for name, at in put
        ]
        self._commit(changes)

    @rule(active=messages(ACTIVE), deferred=messages(DEFERRED))
    def change(self, active: list[Message], deferred: list[Message]) -> None:
        changes = ChangeSet()
        changes.active_changed += active
        changes.deferred_changed += deferred
        self._commit(changes)

    @rule(number=st.sampled_from(FRAGMENTS), count=st.integers(0, 5))
    def count(self, number: int, count: int) -> None:
        changes = ChangeSet()
        changes.records.append(
            FragmentRecord(
                number=number,
                generation=bytes(16),
                index=0,
                sub_queue=0,
                active_count=count,
            )
        )
        self._commit(changes)

    @rule(
        number=st.sampled_from(FRAGMENTS),
        readers=st.lists(st.sampled_from(["", "spark", "\u00e9"]), max_size=3),
        expires_at=st.sampled_from([0, NOW]),
        planned=st.tuples(st.integers(0, 9), st.integers(-1, 9)),
    )
    def lease(
        self,
        number: int,
        readers: list[str],
        expires_at: int,
        planned: tuple[int, int],
    ) -> None:
        changes = ChangeSet()
        for epoch, reader in enumerate(readers):
            changes.reader_leases.append(
                ReaderLease(
                    fragment_number=number,
                    reader=reader,
                    epoch=epoch,
                    duration_ms=60_000,
                    expires_at=expires_at,
                    planned_from=planned[0],
                    planned_through=planned[1],
                )
            )
        self._commit(changes)

    @rule(number=st.sampled_from(FRAGMENTS))
    def drop(self, number: int) -> None:
        changes = ChangeSet()
        changes.dropped.append(number)
        self._commit(changes)

    @rule(number=st.sampled_from(FRAGMENTS))
    def purge(self, number: int) -> None:
        while not self._both("purge", number, 4):
            pass

    @rule(first=st.integers(0, 30), length=st.integers(1, 6))
    def restore(self, first: int, length: int) -> None:
        changes = ChangeSet()
        changes.ledger_ranges.append(
            LedgerRange(
                source="s", generation=b"g", first=first, last=first + length - 1
            )
        )
        self._commit(changes)

    @rule(unique_id=st.binary(max_size=1), forget_at=st.integers(NOW, NOW + 9))
    def see(self, unique_id: bytes, forget_at: int) -> None:
        changes = ChangeSet()
        changes.ledger_ids.append(
            LedgerId(fragment_number=1, unique_id=unique_id, forget_at=forget_at)
        )
        self._commit(changes)

    @rule(added=st.integers(1, 6), removed=st.integers(1, 6))
    def send_out(self, added: int, removed: int) -> None:
        changes = ChangeSet()
        changes.outbox_added.append(
            OutboxEntry(entry_id=added, target="t", raw=b"r", origin=b"o")
        )
        if removed != added:
            changes.outbox_removed.append(removed)
        self._commit(changes)

    @rule(before=st.integers(NOW, NOW + 9))
    def trim(self, before: int) -> None:
        through = self._both("last_batch") - 3
        self._both("trim", operations_through=through, now=before)

    @rule()
    def close_and_open(self) -> None:
        for store in self.stores:
            self.loop.run_until_complete(store.close())
        self.opened = self._open()

    @rule()
    def die_and_open(self) -> None:
        for store in self.stores:
            self.abandon(store)
        self.opened = self._open()

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def what_is_read_is_the_same(self) -> None:
        for number in FRAGMENTS:
            self._both_read("browse", number, 0, 100, NO_LIMIT)
            self._both_read("browse", number, 3, 4, 9)
            self._both_read("browse_deferred", number, 2, 3, NO_LIMIT)
            self._both_read("read_active", number, 2, 3, NO_LIMIT)
        self._both_read("due", NOW + 100_000, 5)
        self._both("next_scheduled_at")
        self._both("fragments")
        self._both("outbox", 4)
        self._both("restored", "s", b"g", list(range(40)))
        self._both("seen", 1, [b"", *(bytes([i]) for i in range(256))], NOW + 4)
        self._both("operations", 0, 100)

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def ranges_and_their_readers_are_the_same(self) -> None:
        for number in FRAGMENTS:
            for first, last, limit in ((0, 99, 99), (3, 9, 4), (1, 2, 9), (0, -1, 9)):
                model, tested = (
                    self.loop.run_until_complete(
                        store.outlines(number, first, last, limit)
                    )
                    for store in self.stores
                )
                assert _columns(model) == _columns(tested)
        names = [base_of(number) + i for number in FRAGMENTS for i in range(4)]
        model, tested = (
            sorted(
                values(m) for m in self.loop.run_until_complete(s.read_numbered(names))
            )
            for s in self.stores
        )
        assert model == tested
        self._both("reader_leases")

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def sessions_and_rules_are_the_same(self) -> None:
        for number in FRAGMENTS:
            for session_id in ("", "a", "a\0", "b", "c"):
                self._both_read("read_session", number, session_id, 2, 3, NO_LIMIT)
                self._both_read("browse_session", number, session_id, 2, 4, 9)
            for after in (None, "", "a", "b"):
                self._both("active_sessions", number, after, 2)
                self._both("sessions", number, after, 3)
        for session_id in ("", "a", "b"):
            self._both("session_state", 1, session_id)
        self._both("sessions_updated", 1, NOW + 4, None, 2)
        self._both("rules")

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def refills_are_the_same(self) -> None:
        refills = [
            WindowRefill(
                fragment_number=number,
                session_id=session_id,
                after=after,
                limit=4,
                limit_bytes=20,
            )
            for number in FRAGMENTS
            for session_id, after in ((None, 0), (None, 5), ("", 0), ("a", 2))
        ]
        for limit, limit_bytes in ((99, NO_LIMIT), (5, NO_LIMIT), (99, 12), (1, 1)):
            model, tested = (
                self.loop.run_until_complete(
                    s.read_refills(refills, limit, limit_bytes)
                )
                for s in self.stores
            )
            assert [list(map(values, p)) for p in model] == [
                list(map(values, p)) for p in tested
            ]
            assert 0 < len(tested) <= len(refills)
            assert sum(map(len, tested)) <= limit

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def bodies_are_those_that_are_used(self) -> None:
        used = Counter(m.body_id for m in self._found() if m.is_shared)
        uses = self.select("SELECT body_id, use_count FROM body_use")
        assert dict(uses) == used
        bodies = self.select("SELECT body_id FROM shared_body")
        assert {body_id for (body_id,) in bodies} == set(used)

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def what_expires_is_the_same(self) -> None:
        for now in (NOW, NOW + 60_000, NOW + 200_000):
            cursor = ExpiryCursor()
            while True:
                (model, after), (tested, cursor) = (
                    self.loop.run_until_complete(store.expired(now, cursor, 2))
                    for store in self.stores
                )
                assert [values(m) for m in model] == [values(m) for m in tested]
                assert after == cursor
                if not model:
                    break

    @invariant()
    @precondition(lambda self: hasattr(self, "stores"))
    def what_an_owner_is_told_is_the_same(self) -> None:
        model, tested = self.opened
        assert model.epoch == tested.epoch
        assert model.last_batch == tested.last_batch
        assert model.fragments == tested.fragments
        assert model.purging == tested.purging
        assert model.next_scheduled_at == tested.next_scheduled_at


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(max_examples=30, stateful_step_count=25)


def test_postgres_is_like_the_model(postgres_server: PostgresServer) -> None:
    class WithPostgres(TwoStores):
        def tested(self) -> Store:
            self.place = PostgresPlace(postgres_server)
            return self.place.store()

        def abandon(self, store: Store) -> None:
            if isinstance(store, PostgresStore):
                self.loop.run_until_complete(store.abandon())
                self.loop.run_until_complete(self.place.orphan())
            else:
                super().abandon(store)

        def select(self, statement: str) -> list[tuple[Any, ...]]:
            return self.place.run(statement)

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        WithPostgres, settings=settings(max_examples=6, stateful_step_count=15)
    )
