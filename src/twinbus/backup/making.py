"""Makes a backup of a bus, which may run meanwhile.

The folder is filled under another name and gets its own when all of it is on disk. What
an interrupted backup leaves has no manifest, and the next one to the same place removes
it.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from twinbus import __version__
from twinbus.backup.manifest import (
    CATALOG,
    BackedUpStore,
    BackupManifest,
    Progress,
    described,
    write_manifest,
)
from twinbus.backup.new_identity import catalog_text
from twinbus.backup.one_moment import (
    CatalogSource,
    SnapshotSource,
    StoreSource,
    hold_one_moment,
)
from twinbus.backup.sqlite_source import SqliteCatalogSource, SqliteStoreSource
from twinbus.clock import SystemClock
from twinbus.config.config import Config, ConfigError
from twinbus.entities.record_description import NAMESPACE
from twinbus.entities.store_entries import remembered_stores
from twinbus.process.data_folder import DataFolder
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog_move import CatalogContent
from twinbus.store.memory import MemoryStore
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_file import sync_folder
from twinbus.store.urls import open_store_urls

ROOT_KEY: Final = "root-key"
TLS: Final = "tls"


async def make_backup(config: Config, to: Path, progress: Progress) -> BackupManifest:
    """Raises StoreError, ConfigError, OSError."""
    _refuse_existing(to)
    stores, catalog = store_sources(config), _catalog_source(config)
    unfinished = to.with_name(f".{to.name}.unfinished")
    with _emptied(unfinished):
        try:
            manifest = await _fill(config, unfinished, stores, catalog, progress)
            _sync_all(unfinished)
            unfinished.rename(to)
            sync_folder(to.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        finally:
            for source in (*stores, catalog):
                await source.close()
    return manifest


def _refuse_existing(to: Path) -> None:
    if to.exists():
        raise ConfigError(f"{to} is there already. Name a folder that is not.")


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """A folder that nobody else fills, without what an interrupted backup left in it.
    Raises StoreInUse."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # The end of the process gives it back.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        yield
    except BlockingIOError:
        raise StoreInUse(f"Another backup fills {folder} at present.") from None
    finally:
        os.close(descriptor)


def store_sources(config: Config) -> list[StoreSource]:
    """Raises ConfigError."""
    if not config.store:
        return [SqliteStoreSource(config.data / "messages.sqlite3")]
    try:
        stores = open_store_urls(config.store)
    except StoreError as error:
        raise ConfigError(str(error)) from None
    sources: list[StoreSource] = []
    for url, store in zip(config.store, stores, strict=True):
        if isinstance(store, MemoryStore):
            raise ConfigError("A store in memory cannot be backed up: see --store.")
        if isinstance(store, SqliteStore):
            sources.append(SqliteStoreSource(store.path.resolve()))
        else:
            from twinbus.backup.postgres_source import PostgresStoreSource

            sources.append(PostgresStoreSource(url))
    return sources


def _catalog_source(config: Config) -> CatalogSource:
    """Raises ConfigError."""
    catalog = DataFolder(config).kept_catalog()
    if isinstance(catalog, SqliteCatalog):
        return SqliteCatalogSource(catalog.path)
    from twinbus.backup.postgres_source import PostgresCatalogSource

    return PostgresCatalogSource(config.catalog)


async def _fill(
    config: Config,
    folder: Path,
    stores: Sequence[StoreSource],
    catalog: CatalogSource,
    progress: Progress,
) -> BackupManifest:
    began_at = SystemClock().now()
    sources: list[SnapshotSource] = [catalog, *stores]
    for source in sources:
        await source.open()
    moment = await hold_one_moment(sources)
    content = await catalog.content(folder)
    _write_private(folder / CATALOG, catalog_text(content))
    copied = []
    for number, store in enumerate(stores, 1):
        copied.append(await store.copy(folder, f"store-{number}", progress))
    _refuse_incomplete(content, copied)
    _copy_keys(config.data, folder)
    manifest = BackupManifest(
        backup_id=secrets.token_hex(16),
        twinbus_version=__version__,
        began_at=began_at,
        moment_at=moment.at,
        held_ms=moment.held_ms,
        catalog_location=catalog.location,
        entity_count=sum(one.kind != NAMESPACE for one in content.entities),
        stores=tuple(copied),
        files=described(folder, progress),
    )
    write_manifest(folder, manifest).chmod(0o600)
    return manifest


def _refuse_incomplete(
    content: CatalogContent, stores: Sequence[BackedUpStore]
) -> None:
    """Raises ConfigError if entities are in stores that were not named."""
    here = {bytes.fromhex(store.uuid) for store in stores}
    places = {
        uuid: place for place, uuid in remembered_stores(content.entities).items()
    }
    for entity in content.entities:
        for uuid in entity.placement if entity.kind != NAMESPACE else ():
            if uuid not in here:
                raise ConfigError(
                    f"The {entity.kind} '{entity.path}' is in the store "
                    f"{places.get(uuid, uuid.hex())}, which is not among those that "
                    "are backed up. Name all stores of the bus, with --store."
                )


def _copy_keys(data: Path, folder: Path) -> None:
    """The root key and the certificates of the bus, if it has its own."""
    if (data / ROOT_KEY).is_file():
        _write_private(folder / ROOT_KEY, (data / ROOT_KEY).read_text())
    if (data / TLS).is_dir():
        shutil.copytree(data / TLS, folder / TLS)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


def _sync_all(folder: Path) -> None:
    """All of it is on disk before it has its name."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
