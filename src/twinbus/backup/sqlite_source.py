"""Copies a store or a catalog out of a SQLite file, while others write to it."""

from contextlib import closing
from pathlib import Path
from typing import final

from twinbus.backup.manifest import SQLITE, BackedUpStore, Progress
from twinbus.backup.sqlite_snapshot import SqliteSnapshot
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog_move import CatalogContent, check_marks
from twinbus.store.sqlite_audit import SqliteAudit
from twinbus.store.sqlite_catalog import FORMAT as CATALOG_FORMAT
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_file import connect_to_read
from twinbus.store.sqlite_format import FORMAT as STORE_FORMAT


@final
class SqliteStoreSource(SqliteSnapshot):
    """A store in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, STORE_FORMAT)

    async def copy(self, folder: Path, name: str, progress: Progress) -> BackedUpStore:
        place = f"{name}.sqlite3"
        uuid, version, epoch, batch = self.db.execute(
            "SELECT store_uuid, format_version, epoch, batch FROM meta, lease"
        ).fetchone()
        self.copy_file(folder / place, progress)
        message_count = _verified(folder / place, version, progress)
        return BackedUpStore(
            kind=SQLITE,
            location=self.location,
            uuid=uuid.hex(),
            format_version=version,
            epoch=epoch,
            batch=batch,
            message_count=message_count,
            place=place,
        )


@final
class SqliteCatalogSource(SqliteSnapshot):
    """A catalog in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, CATALOG_FORMAT)

    async def content(self, folder: Path) -> CatalogContent:
        """From a copy: an older format is brought to the current one there."""
        copy = folder / "catalog.sqlite3"
        self.copy_file(copy, lambda _: None)
        catalog = SqliteCatalog(copy)
        try:
            check_marks(self.location, await catalog.open_marked())
            return await catalog.content()
        finally:
            await catalog.close()
            _remove(copy)


def _remove(file: Path) -> None:
    """With its log, and with the copy that a migration keeps of it."""
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()


def _verified(copy: Path, version: int, progress: Progress) -> int:
    """How many messages the copy has. Raises StoreUnreadable if it is damaged: then
    its original is. One of an older format is counted when it is restored."""
    if version == STORE_FORMAT.version:
        audit = SqliteAudit(copy, None, lambda _: progress(f"checking {copy.name}"))
        audit.run()
        troubles = [one.text for one in audit.findings if one.is_damage]
        count = audit.message_count
    else:
        with closing(connect_to_read(copy)) as db:
            rows = db.execute("PRAGMA integrity_check(1)").fetchall()
            (count,) = db.execute(
                "SELECT (SELECT count(*) FROM message) + (SELECT count(*) FROM "
                "deferred) + (SELECT count(*) FROM scheduled)"
            ).fetchone()
        troubles = [text for (text,) in rows if text != "ok"]
    if troubles:
        raise StoreUnreadable(
            f"The store is damaged, and is not backed up: {troubles[0]}. Stop the bus "
            "and run 'twinbus check'."
        )
    return int(count)
