"""Makes a SQLite store from the copy in a backup, with a new identity."""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, final

from twinbus.backup.manifest import SQLITE, BackedUpStore, Progress
from twinbus.backup.new_identity import (
    EPOCHS_SKIPPED,
    SEQUENCES_SKIPPED,
    NewIdentity,
)
from twinbus.broker.changes import StoredEntity
from twinbus.outbox.outbox_arrival import LEDGER
from twinbus.store.audit_findings import Finding
from twinbus.store.catalog import EntityRecord
from twinbus.store.sqlite_audit import SqliteAudit
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_confirmed import accept_loss, found_in
from twinbus.store.sqlite_errors import refusal, transaction
from twinbus.store.sqlite_file import (
    connect_to_read,
    migrate,
    open_file,
    sync_folder,
)
from twinbus.store.sqlite_format import FORMAT
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_restore.sql")
_BESIDE: Final = ("", "-wal", "-shm", "-journal", "-confirmed", "-reserve")


@final
class SqliteStoreTarget:
    """A file that is not there yet."""

    kind: str = SQLITE

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def location(self) -> str:
        return str(self._path)

    async def exists(self) -> bool:
        return any(path.exists() for path in _files(self._path))

    async def write(
        self, folder: Path, store: BackedUpStore, new: NewIdentity, progress: Progress
    ) -> None:
        """Raises StoreError, OSError."""
        progress(f"copying {store.place} to {self.location}")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._path.with_name(f"{self._path.name}.restoring")
        shutil.copyfile(folder / store.place, unfinished)
        unfinished.chmod(0o600)
        try:
            _renew(unfinished, store, new)
            descriptor = os.open(unfinished, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            unfinished.rename(self._path)
            _note_commit(self._path)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    async def discard(self, epoch: int) -> bool:
        """Remove what an interrupted restore has written here. False if somebody has
        used it since."""
        if self._path.exists():
            with closing(sqlite3.connect(self._path)) as db:
                (found,) = db.execute("SELECT epoch FROM lease").fetchone()
            if found != epoch + EPOCHS_SKIPPED:
                return False
        remove_file(self._path.with_name(f"{self._path.name}.restoring"))
        remove_file(self._path)
        return True

    async def findings(
        self, entities: Sequence[EntityRecord], catalog: Path | None
    ) -> list[Finding]:
        """What `twinbus check` would find. Raises StoreError."""
        audit = SqliteAudit(self._path, catalog, lambda _: None)
        audit.run()
        return audit.findings


def _renew(path: Path, store: BackedUpStore, new: NewIdentity) -> None:
    """Raises StoreError."""
    db = open_file(path, FORMAT)
    try:
        with transaction(db, path):
            migrate(db, path, FORMAT, keeps_copy=False)
            _rewrite(db, store, new)
        # Where several stores are served, a file without a log is not taken.
        db.execute("PRAGMA journal_mode = WAL").fetchall()
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    finally:
        db.close()


def _note_commit(path: Path) -> None:
    """From its first start on it is known whether commits are missing."""
    with closing(connect_to_read(path)) as db:
        accept_loss(path, found_in(db))


def _rewrite(db: sqlite3.Connection, store: BackedUpStore, new: NewIdentity) -> None:
    db.execute(_SQL["put_uuid"], (new.of_store(store).uuid,))
    db.execute(_SQL["put_epoch"], (store.epoch + EPOCHS_SKIPPED,))
    db.execute(_SQL["skip_sequences"], (SEQUENCES_SKIPPED,))
    db.execute(_SQL["end_readers"], (new.now,))
    for name in new.names:
        db.execute(_SQL["rename_targets"], (name.old_uuid.hex(), name.uuid.hex()))
        db.execute(_SQL["rename_ledger"], (name.uuid, LEDGER, name.old_uuid))
    for generation, definition in db.execute(_SQL["definitions"]).fetchall():
        stored = StoredEntity(generation=generation, definition=definition)
        renamed = new.renamed_copy(stored)
        db.execute(_SQL["put_definition"], (renamed.definition, generation))


def _files(path: Path) -> list[Path]:
    return [Path(f"{path}{suffix}") for suffix in _BESIDE]


def remove_file(path: Path) -> None:
    """With what lies beside it."""
    for file in _files(path):
        file.unlink(missing_ok=True)


def catalog_file(catalog: object) -> Path | None:
    """Of a catalog that is a file."""
    return catalog.path if isinstance(catalog, SqliteCatalog) else None
