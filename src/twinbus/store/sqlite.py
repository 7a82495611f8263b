"""The embedded store: one SQLite file, written by one process, on this machine.

It answers on the event loop without suspending: handing commits to a thread makes
them wait for the interpreter, which costs more than the disk (decision 0002). A
commit is one transaction whose first statement is the fence (D4): the update of
the lease row finds no row of our epoch when somebody else has become the owner.

What a commit writes is the business of `sqlite_changes.py`, what a purge removes
that of `sqlite_purge.py`, what SQLite's errors mean that of `sqlite_errors.py`;
every statement is in `sql/sqlite_store.sql`.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    OutboxEntry,
    ReaderLease,
    StoredEntity,
    StoredRule,
)
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import SEQUENCE_BITS, SEQUENCE_MASK, base_of
from twinbus.store import sqlite_lease
from twinbus.store.base import (
    PORTION_BYTES,
    TRIMMED_IDS,
    CommitFailed,
    CommitUnknown,
    ExpiryCursor,
    LeaseLost,
    Opened,
    StoreError,
    StoreFull,
    StoreInUse,
    WindowRefill,
)
from twinbus.store.refill_portions import read_portions
from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS
from twinbus.store.rows.sqlite_rows import BodyMissing, messages_of, outlines_of
from twinbus.store.sqlite_changes import write_changes
from twinbus.store.sqlite_confirmed import (
    Confirmation,
    ConfirmedFile,
    commits_lost,
    found_in,
    is_lost,
    read_confirmation,
    refuse_lost_store,
    refuse_lost_tail,
    schema_version,
)
from twinbus.store.sqlite_errors import (
    Busy,
    reading,
    rolled_back,
    transaction,
    unreadable,
)
from twinbus.store.sqlite_file import (
    SqliteFormat,
    connect_to_read,
    migrate,
    open_file,
    settle_log,
)
from twinbus.store.sqlite_fragments import fragment_record
from twinbus.store.sqlite_purge import purge_portion
from twinbus.store.sqlite_room import Room
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_store.sql")

FORMAT: Final = SqliteFormat(
    noun="store",
    application_id=0x74776275,  # "twbu"
    migrations="sqlite_migrations",
    version=4,
    tables=frozenset(
        {
            *("meta", "lease", "fragment", "dropped_fragment", "entity"),
            *("message", "deferred", "scheduled", "shared_body", "body_use"),
            *("session_state", "rule", "reader_lease"),
            *("outbox", "ledger_range", "ledger_id", "operation_log"),
        }
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a look at a store finds."""

    store_uuid: bytes
    fragments: list[FragmentRecord]
    entities: list[StoredEntity]


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
        # Where the numbers of commits are noted besides.
        self._confirmed: ConfirmedFile | None = None
        self._room = Room(self.path)

    @property
    def location(self) -> str:
        return str(self.path)

    # --- ownership ------------------------------------------------------------

    async def open(self, owner: str, now: int) -> Opened:
        if self._open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        # Before the store is looked at: meanwhile a live owner may go on.
        confirmed = read_confirmation(self.path)
        self._refuse_unopened(confirmed)
        self._room.begin()
        try:
            return self._open(owner, now, confirmed)
        except StoreFull:
            if not self._room.make(None):
                raise
        return self._open(owner, now, confirmed)

    def _open(self, owner: str, now: int, confirmed: Confirmation | None) -> Opened:
        db = open_file(self.path, FORMAT)
        try:
            self._take_lease(db, owner, now, confirmed)
            self._open_db = db
            # The epoch must be where a lost log does not take it along.
            settle_log(db, self.path)
            opened = self._opened()
            self._confirmed = ConfirmedFile(self.path, _begun(opened, db))
            return opened
        except BaseException:
            db.close()
            self._let_go()
            raise

    def _refuse_unopened(self, confirmed: Confirmation | None) -> None:
        """Raises CommitsLost, without the traces that opening would leave: SQLite
        clears away a log that it has read, with what is behind a damage in it."""
        if confirmed is None:
            return
        if not self.path.exists():
            refuse_lost_store(self.path, confirmed)
            return
        # What can't be read at all is refused by whoever opens it.
        with suppress(sqlite3.Error), closing(connect_to_read(self.path)) as db:
            found = found_in(db)
            if found is not None and is_lost(confirmed, found):
                raise commits_lost(self.path, confirmed, found)

    def _take_lease(
        self,
        db: sqlite3.Connection,
        owner: str,
        now: int,
        confirmed: Confirmation | None,
    ) -> None:
        try:
            with transaction(db, self.path), reading(self.path):
                # A migration changes it.
                version = schema_version(db)
                migrate(db, self.path, FORMAT)
                found = found_in(db)
                self._tenure = sqlite_lease.take_lease(db, self.path, owner, now)
                if found is not None:
                    found = replace(found, schema_version=version)
                    refuse_lost_tail(self.path, confirmed, found)
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

    def survey(self) -> Survey:
        """What is in the file, which stays as it is, in its format and without an
        owner. Raises as `open` does."""
        if self._open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        self._refuse_unopened(read_confirmation(self.path))
        self._open_db = db = open_file(self.path, FORMAT)
        try:
            with rolled_back(db, self.path):
                migrate(db, self.path, FORMAT, keeps_copy=False)
                sqlite_lease.refuse_if_owned(db, self.path)
                return Survey(
                    store_uuid=self._rows("identity")[0][0],
                    fragments=self._fragments(),
                    entities=self._entities(),
                )
        except Busy as error:
            raise sqlite_lease.in_use(db, self.path) from error
        finally:
            db.close()
            self._open_db = None

    async def close(self) -> None:
        db = self._open_db
        if db is None:
            return
        # A lease that could not be given back is that of a dead process soon; what
        # is in the reserve helps with that.
        self._room.end()
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
        if self._confirmed is not None:
            self._confirmed.close()
            self._confirmed = None
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
        try:
            self._commit(changes)
        except StoreFull:
            # What others did to the disk shall not fail those who settle.
            if not self._room.make(self._db):
                raise
            self._commit(changes)
        self._room.added(changes.pending_bytes)
        if self._confirmed is not None:
            self._confirmed.note(changes.batch)

    def _commit(self, changes: ChangeSet) -> None:
        with self._transaction():
            self._fence_commit(changes)
            write_changes(self._db, changes)

    async def room(self) -> int:
        return self._room.left(self._db)

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

    async def purge(self, fragment_number: int, limit: int) -> bool:
        try:
            return self._purge(fragment_number, limit)
        except StoreFull:
            if not self._room.make(self._db):
                raise
        return self._purge(fragment_number, limit)

    def _purge(self, fragment_number: int, limit: int) -> bool:
        with self._transaction():
            self._fence()
            return purge_portion(self._db, fragment_number, limit)

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        with self._transaction():
            self._fence()
            self._db.execute(_SQL["trim_operations"], (operations_through,))
            trimmed = self._db.execute(_SQL["trim_ledger_ids"], (now, limit))
            return trimmed.rowcount < limit

    async def last_batch(self) -> int:
        if self._in_doubt:
            # A commit whose sync failed is in the WAL, unseen by this connection;
            # a crash now would bring it to life. The next transaction takes its
            # place in the WAL, and only then is what we see what will be.
            with self._transaction():
                self._fence()
        batch: int = self._rows("last_batch")[0][0]
        if self._confirmed is not None:
            self._confirmed.note(batch)
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
        limit_bytes: int = NO_LIMIT,
    ) -> list[Message]:
        # Closed at once: a statement that is not at its end keeps the WAL from
        # being emptied.
        with (
            reading(self.path),
            closing(self._db.execute(_SQL[name], parameters)) as rows,
        ):
            try:
                return messages_of(rows, limit_bytes)
            except BodyMissing as error:
                raise unreadable(self.path, str(error)) from error

    async def fragments(self) -> list[FragmentRecord]:
        return self._fragments()

    def _fragments(self) -> list[FragmentRecord]:
        return [fragment_record(row) for row in self._rows("fragments")]

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        return self._messages(
            "read_active", (base + after, base + SEQUENCE_MASK, limit), limit_bytes
        )

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        return read_portions(self._read_refill, refills, limit, limit_bytes)

    def _read_refill(
        self, refill: WindowRefill, limit: int, limit_bytes: int
    ) -> list[Message]:
        base, session_id = base_of(refill.fragment_number), refill.session_id
        if session_id is None:
            rows = (base + refill.after, base + SEQUENCE_MASK, limit)
            return self._messages("read_active", rows, limit_bytes)
        names = {
            "row_prefix": base >> SEQUENCE_BITS,
            "session_id": session_id,
            "after": base + refill.after,
            "limit": limit,
        }
        return self._messages("read_session", names, limit_bytes)

    async def count_active(self, fragment_number: int) -> int:
        base = base_of(fragment_number)
        count: int = self._rows("count_active", (base, base + SEQUENCE_MASK))[0][0]
        return count

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        if last < first:
            return Outlines()  # below the first row of a store there is no number
        base = base_of(fragment_number)
        rows = self._rows("outlines", (base + first, base + last, limit))
        try:
            return outlines_of(rows)
        except BodyMissing as error:
            raise unreadable(self.path, str(error)) from error

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        return self._messages("read_numbered", (json.dumps(row_ids),))

    async def reader_leases(self) -> list[ReaderLease]:
        return [_reader_lease(row) for row in self._rows("reader_leases")]

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        rows = (base + from_sequence, base + SEQUENCE_MASK, limit)
        return self._messages("browse_deferred", rows, limit_bytes)

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        return self._messages("read_deferred", (json.dumps(row_ids),))

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        size: int = self._rows("deferred_bytes", (json.dumps(row_ids),))[0][0]
        return size

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

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "session_id": session_id,
            "after": base_of(fragment_number) + after,
            "limit": limit,
        }
        return self._messages("read_session", names, limit_bytes)

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "session_id": session_id,
            "first": base_of(fragment_number) + from_sequence,
            "limit": limit,
        }
        return self._messages("browse_session", names, limit_bytes)

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "from": _behind(after),
            "limit": limit,
        }
        return [session_id for (session_id,) in self._rows("active_sessions", names)]

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        active = await self.active_sessions(fragment_number, after, limit)
        with_state = await self.sessions_updated(fragment_number, -1, after, limit)
        # SQLite compares the bytes of texts, Python their characters: in UTF-8 that
        # is the same order.
        return sorted({*active, *with_state})[:limit]

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        parameters = (fragment_number, _behind(after), since, limit)
        rows = self._rows("sessions_updated", parameters)
        return [session_id for (session_id,) in rows]

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        rows = self._rows("session_state", (fragment_number, session_id))
        return rows[0][0] if rows else None

    async def rules(self) -> list[StoredRule]:
        return [
            StoredRule(
                fragment_number=fragment_number,
                name=name,
                definition=definition,
                created_at=created_at,
            )
            for fragment_number, name, definition, created_at in self._rows("rules")
        ]

    async def entities(self) -> list[StoredEntity]:
        return self._entities()

    def _entities(self) -> list[StoredEntity]:
        return [
            StoredEntity(generation=generation, definition=definition)
            for generation, definition in self._rows("entities")
        ]

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        if not without:
            return self._messages("due", (now, limit), PORTION_BYTES)
        prefixes = _row_prefixes(without)
        return self._messages("due_without", (now, prefixes, limit), PORTION_BYTES)

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        if without:
            rows = self._rows("next_scheduled_at_without", (_row_prefixes(without),))
        else:
            rows = self._rows("next_scheduled_at")
        at: int = rows[0][0]
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
        row_id = messages[-1].row_id
        bucket = self._rows("expiry_bucket", (row_id,))[0][0]
        return messages, ExpiryCursor(bucket=bucket, row_id=row_id)

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

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        return {
            unique_id
            for unique_id in unique_ids
            if self._rows("has_ledger_id", (fragment_number, unique_id, now))
        }

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        return self._rows("operations", (after_batch, limit))


def _begun(opened: Opened, db: sqlite3.Connection) -> Confirmation:
    """What is confirmed when a store has been opened."""
    return Confirmation(
        store_uuid=opened.store_uuid,
        schema_version=schema_version(db),
        epoch=opened.epoch,
        batch=opened.last_batch,
    )


def _reader_lease(row: Sequence[Any]) -> ReaderLease:
    return ReaderLease(
        fragment_number=row[0],
        reader=row[1],
        epoch=row[2],
        duration_ms=row[3],
        expires_at=row[4],
        planned_from=row[5],
        planned_through=row[6],
    )


def _row_prefix(fragment_number: int) -> int:
    """What the row ids of the fragment begin with."""
    return base_of(fragment_number) >> SEQUENCE_BITS


def _row_prefixes(fragment_numbers: Sequence[int]) -> str:
    """A JSON array of them."""
    return json.dumps([_row_prefix(number) for number in fragment_numbers])


def _behind(session_id: str | None) -> str:
    """The first id that comes after one, in the order of their bytes."""
    return "" if session_id is None else f"{session_id}\0"
