"""The embedded store: one SQLite file, written by one process, on this machine.

It answers on the event loop without suspending: handing commits to a thread makes
them wait for the interpreter, which costs more than the disk (decision 0002). A
commit is one transaction whose first statement is the fence (D4): the update of
the lease row finds no row of our epoch when somebody else has become the owner.

What the rows look like is `sqlite_rows.py`'s business, what SQLite's errors mean
that of `sqlite_errors.py`; every statement is in `sql/sqlite_store.sql`.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    LedgerRange,
    OutboxEntry,
)
from twinbus.broker.message import Message
from twinbus.broker.row_id import SEQUENCE_MASK, base_of
from twinbus.store import sqlite_lease
from twinbus.store.base import (
    PORTION_BYTES,
    CommitFailed,
    CommitUnknown,
    ExpiryCursor,
    LeaseLost,
    Opened,
    StoreError,
    StoreInUse,
)
from twinbus.store.sqlite_errors import Busy, reading, transaction
from twinbus.store.sqlite_file import SqliteFormat, migrate, open_file
from twinbus.store.sqlite_rows import (
    EXPIRY_BUCKET_MS,
    active_values,
    changed_rows,
    deferred_rows,
    messages_of,
    row_ranges,
    scheduled_rows,
)
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_store.sql")

FORMAT: Final = SqliteFormat(
    noun="store",
    application_id=0x74776275,  # "twbu"
    migrations="sqlite_migrations",
    version=1,
    tables=frozenset(
        {
            *("meta", "lease", "fragment", "dropped_fragment"),
            *("message", "deferred", "scheduled"),
            *("outbox", "ledger_range", "ledger_id", "operation_log"),
        }
    ),
)

_ROWS_PER_INSERT: Final = 25
"""One statement for so many rows takes a quarter less time than one for each; more
rows gain nothing."""


def _insert_active_statements() -> list[str]:
    """The statement for each number of rows."""
    head, values, row = _SQL["insert_active"].rstrip(";").partition("VALUES ")
    return [
        head + values + ", ".join([row] * count)
        for count in range(_ROWS_PER_INSERT + 1)
    ]


_INSERT_ACTIVE: Final = _insert_active_statements()

_PURGED_TABLES: Final = ("purge_active", "purge_deferred", "purge_scheduled")
_NO_LIMIT: Final = (1 << 63) - 1


@final
class SqliteStore:
    """A store in a file, which is made when it is first opened."""

    def __init__(self, path: Path | str) -> None:
        self.path: Path = Path(path)
        # The connection while the store is open.
        self._open_db: sqlite3.Connection | None = None
        # The epoch this object holds the lease in.
        self._epoch: int = 0
        # What this process owns through this object.
        self._tenure: sqlite_lease.Tenure | None = None
        # A commit's outcome is unknown until a later transaction has settled it.
        self._in_doubt: bool = False

    # --- ownership ------------------------------------------------------------

    async def open(self, owner: str, now: int) -> Opened:
        if self._open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        db = open_file(self.path, FORMAT)
        try:
            self._take_lease(db, owner, now)
            self._open_db = db
            return self._opened()
        except BaseException:
            db.close()
            self._let_go()
            raise

    def _take_lease(self, db: sqlite3.Connection, owner: str, now: int) -> None:
        try:
            with transaction(db, self.path), reading(self.path):
                migrate(db, self.path, FORMAT)
                self._tenure = sqlite_lease.take_lease(db, self.path, owner, now)
        except Busy as error:
            raise sqlite_lease.in_use(db, self.path) from error

    def _opened(self) -> Opened:
        store_uuid, epoch, batch = self._rows("identity")[0]
        self._epoch = epoch
        return Opened(
            store_uuid=store_uuid,
            epoch=epoch,
            last_batch=batch,
            fragments=self._fragments(),
            purging=[number for (number,) in self._rows("dropped_fragments")],
            next_scheduled_at=self._rows("next_scheduled_at")[0][0],
        )

    async def close(self) -> None:
        db = self._open_db
        if db is None:
            return
        # A lease that could not be given back is that of a dead process soon.
        with suppress(sqlite3.Error):
            db.execute(_SQL["give_lease_back"], (self._epoch,))
        db.close()
        self._let_go()

    def abandon(self) -> None:
        """Let go without giving the lease back, as the end of the process would."""
        if self._open_db is not None:
            self._open_db.close()
            self._let_go()

    def _let_go(self) -> None:
        self._open_db = None
        self._in_doubt = False
        if self._tenure is not None:
            sqlite_lease.forget(self._tenure)
            self._tenure = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._open_db is None:
            raise StoreError(f"{self.path} is not open.")
        return self._open_db

    # --- writing --------------------------------------------------------------

    async def commit(self, changes: ChangeSet) -> None:
        with self._transaction():
            self._fence_commit(changes)
            self._write_messages(changes)
            self._write_fragments(changes)
            self._write_ledgers(changes)
            if not changes.log.is_empty():
                blob = changes.log.encode(changes.sealed_at)
                self._db.execute(_SQL["insert_operations"], (changes.batch, blob))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with transaction(self._db, self.path):
                yield
        except CommitUnknown:
            self._in_doubt = True
            raise
        self._in_doubt = False

    def _fence_commit(self, changes: ChangeSet) -> None:
        names = {"epoch": changes.epoch, "batch": changes.batch}
        if self._db.execute(_SQL["fence_commit"], names).rowcount == 1:
            return
        _, epoch, batch = self._rows("identity")[0]
        if epoch != changes.epoch:
            raise self._lease_lost()
        raise CommitFailed(
            f"{self.path}: commit {changes.batch} does not follow {batch}."
        )

    def _fence(self) -> None:
        if self._db.execute(_SQL["fence"], (self._epoch,)).rowcount != 1:
            raise self._lease_lost()

    def _lease_lost(self) -> LeaseLost:
        return LeaseLost(f"{self.path} has been taken over by another process.")

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._db.executemany(_SQL[name], rows)

    def _write_messages(self, changes: ChangeSet) -> None:
        self._many("delete_active", row_ranges(changes.active_removed))
        self._insert_active(changes.active_added)
        self._many("change_active", changed_rows(changes.active_changed))
        self._many("delete_deferred", row_ranges(changes.deferred_removed))
        self._many("insert_deferred", deferred_rows(changes.deferred_added))
        self._many("change_deferred", changed_rows(changes.deferred_changed))
        self._many("delete_scheduled", row_ranges(changes.scheduled_removed))
        self._many("insert_scheduled", scheduled_rows(changes.scheduled_added))

    def _insert_active(self, messages: list[Message]) -> None:
        for begin in range(0, len(messages), _ROWS_PER_INSERT):
            end = min(begin + _ROWS_PER_INSERT, len(messages))
            values = active_values(messages, begin, end)
            self._db.execute(_INSERT_ACTIVE[end - begin], values)

    def _write_fragments(self, changes: ChangeSet) -> None:
        self._many("put_fragment", [_fragment_row(r) for r in changes.records])
        # After the records: a fragment may be touched and dropped in one commit.
        dropped = [(number,) for number in changes.dropped]
        self._many("delete_fragment", dropped)
        self._many("drop_fragment", dropped)

    def _write_ledgers(self, changes: ChangeSet) -> None:
        self._many("delete_outbox", [(i,) for i in changes.outbox_removed])
        self._many(
            "insert_outbox",
            [(e.entry_id, e.target, e.raw, e.origin) for e in changes.outbox_added],
        )
        for ledger_range in changes.ledger_ranges:
            self._add_range(ledger_range)
        self._many(
            "put_ledger_id",
            [(i.fragment_number, i.unique_id, i.seen_at) for i in changes.ledger_ids],
        )

    def _add_range(self, added: LedgerRange) -> None:
        """Add a range as one row with those it overlaps or adjoins."""
        names = {
            "source": added.source,
            "generation": added.generation,
            "first": added.first,
            "last": added.last,
        }
        first, last = self._db.execute(_SQL["touching_ranges"], names).fetchone()
        if first is not None:
            self._db.execute(
                _SQL["delete_ranges"], (added.source, added.generation, first, last)
            )
            first, last = min(first, added.first), max(last, added.last)
        else:
            first, last = added.first, added.last
        self._db.execute(
            _SQL["insert_range"], (added.source, added.generation, first, last)
        )

    async def purge(self, fragment_number: int, limit: int) -> bool:
        base = base_of(fragment_number)
        with self._transaction():
            self._fence()
            left = limit
            for name in _PURGED_TABLES:
                parameters = (base, base + SEQUENCE_MASK, left)
                left -= self._db.execute(_SQL[name], parameters).rowcount
            left -= self._db.execute(
                _SQL["purge_ledger_ids"], (fragment_number, left)
            ).rowcount
            if left > 0:
                self._db.execute(_SQL["forget_dropped_fragment"], (fragment_number,))
        return left > 0

    async def trim(self, *, operations_through: int, ids_seen_before: int) -> None:
        with self._transaction():
            self._fence()
            self._db.execute(_SQL["trim_operations"], (operations_through,))
            self._db.execute(_SQL["trim_ledger_ids"], (ids_seen_before,))

    async def last_batch(self) -> int:
        if self._in_doubt:
            # A commit whose sync failed is in the WAL, unseen by this connection;
            # a crash now would bring it to life. The next transaction takes its
            # place in the WAL, and only then is what we see what will be.
            with self._transaction():
                self._fence()
        batch: int = self._rows("last_batch")[0][0]
        return batch

    # --- reading --------------------------------------------------------------

    def _rows(
        self, name: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Any]:
        with reading(self.path):
            return self._db.execute(_SQL[name], parameters).fetchall()

    def _messages(
        self,
        name: str,
        parameters: Sequence[Any] | Mapping[str, Any],
        limit_bytes: int = _NO_LIMIT,
    ) -> list[Message]:
        # Closed at once: a statement that is not at its end keeps the WAL from
        # being emptied.
        with (
            reading(self.path),
            closing(self._db.execute(_SQL[name], parameters)) as rows,
        ):
            return messages_of(rows, limit_bytes)

    async def fragments(self) -> list[FragmentRecord]:
        return self._fragments()

    def _fragments(self) -> list[FragmentRecord]:
        return [_fragment_record(row) for row in self._rows("fragments")]

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        return self._messages(
            "read_active", (base + after, base + SEQUENCE_MASK, limit), limit_bytes
        )

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        return self._messages("read_deferred", (json.dumps(row_ids),))

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        return self._messages("read_scheduled", (json.dumps(row_ids),))

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        names = {
            "first": base + from_sequence,
            "last": base + SEQUENCE_MASK,
            "limit": limit,
        }
        return self._messages("browse", names, limit_bytes)

    async def due(self, now: int, limit: int) -> list[Message]:
        return self._messages("due", (now, limit), PORTION_BYTES)

    async def next_scheduled_at(self) -> int:
        at: int = self._rows("next_scheduled_at")[0][0]
        return at

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        # A message expires at `expires_at`, so a bucket is past with its last one.
        current_bucket = (now + 1) // EXPIRY_BUCKET_MS
        names = {
            "bucket": after.bucket,
            "row_id": after.row_id,
            "current_bucket": current_bucket,
            "limit": limit,
        }
        messages = self._messages("expired", names, PORTION_BYTES)
        if not messages:
            return [], ExpiryCursor()
        last = messages[-1]
        bucket = last.expires_at // EXPIRY_BUCKET_MS
        return messages, ExpiryCursor(bucket=bucket, row_id=last.row_id)

    async def outbox(self, limit: int) -> list[OutboxEntry]:
        return [
            OutboxEntry(entry_id=entry_id, target=target, raw=raw, origin=origin)
            for entry_id, target, raw, origin in self._rows("outbox", (limit,))
        ]

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        found = set()
        for sequence in sequences:
            rows = self._rows("range_before", (source, generation, sequence))
            if rows and sequence <= rows[0][0]:
                found.add(sequence)
        return found

    async def seen(self, fragment_number: int, unique_ids: list[bytes]) -> set[bytes]:
        return {
            unique_id
            for unique_id in unique_ids
            if self._rows("has_ledger_id", (fragment_number, unique_id))
        }

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        return self._rows("operations", (after_batch, limit))


def _fragment_row(record: FragmentRecord) -> tuple[Any, ...]:
    return (
        record.number,
        record.generation,
        record.index,
        record.sub_queue,
        record.next_sequence,
        record.last_enqueued_at,
        record.active_count,
        record.deferred_count,
        record.scheduled_count,
        record.size_bytes,
    )


def _fragment_record(row: Iterable[Any]) -> FragmentRecord:
    (
        number,
        generation,
        index,
        sub_queue,
        next_sequence,
        last_enqueued_at,
        active_count,
        deferred_count,
        scheduled_count,
        size_bytes,
    ) = row
    return FragmentRecord(
        number=number,
        generation=generation,
        index=index,
        sub_queue=sub_queue,
        next_sequence=next_sequence,
        last_enqueued_at=last_enqueued_at,
        active_count=active_count,
        deferred_count=deferred_count,
        scheduled_count=scheduled_count,
        size_bytes=size_bytes,
    )
