"""Moves the catalog of a stopped bus, with the key of the root rule.

That the bus is stopped is known from its brokers, which announce themselves in the
catalog, and from its stores: while the catalog is moved, their leases are held here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from twinbus.clock import SystemClock
from twinbus.cluster.running_brokers import running_brokers
from twinbus.config.config import Config, ConfigError
from twinbus.owner.lease_keeper import LeaseKeeper
from twinbus.process.data_folder import DataFolder, keep_root_key, kept_root_key
from twinbus.store.base import Store, StoreError, StoreInUse, StoreMissing
from twinbus.store.catalog_move import CatalogContent, MovableCatalog, move_catalog
from twinbus.store.opening import refuse_missing
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.urls import open_catalog_url


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCatalog:
    """What was done."""

    location: str
    # It is where a bus without --catalog looks for it.
    is_default: bool
    content: CatalogContent
    # What people must know of the root key; empty: nothing.
    key_note: str


async def move_to(config: Config, url: str) -> MovedCatalog:
    """Raises StoreError, StoreInUse, ConfigError."""
    folder = DataFolder(config)
    source, target = _absolute(folder.kept_catalog()), _target(url)
    default = (config.data / "catalog.sqlite3").resolve()
    is_default = isinstance(target, SqliteCatalog) and target.path == default
    if not source.exists():
        raise StoreError(f"There is no catalog {source.location}: see --data.")
    await _refuse_running(source)
    async with _stopped(folder.stores()):
        content = await move_catalog(source, target, _kept_key(config.data))
    note = _keep_key(config.data, content) if is_default else ""
    return MovedCatalog(
        location=target.location, is_default=is_default, content=content, key_note=note
    )


def _target(url: str) -> MovableCatalog:
    try:
        return open_catalog_url(url)
    except StoreError as error:
        raise ConfigError(f"--to: {error}") from None


def _absolute(catalog: MovableCatalog) -> MovableCatalog:
    """Its place is written down, and must mean the same to whoever reads it."""
    if isinstance(catalog, SqliteCatalog):
        return SqliteCatalog(catalog.path.resolve())
    return catalog


async def _refuse_running(catalog: MovableCatalog) -> None:
    await catalog.open_marked()
    try:
        for broker in await running_brokers(catalog):
            raise StoreInUse(
                f"Broker {broker.name} uses the catalog {catalog.location} (process "
                f"{broker.process.pid} on {broker.process.host}). Stop all brokers "
                "first."
            )
    finally:
        await catalog.close()


@asynccontextmanager
async def _stopped(stores: list[Store]) -> AsyncIterator[None]:
    """Nobody has these stores, nor can take them meanwhile. Raises StoreInUse."""
    held: list[Store] = []
    try:
        for store in stores:
            try:
                refuse_missing(store)
                keeper = LeaseKeeper(store, SystemClock())
                await keeper.take_from_the_dead("twinbus catalog move")
            except StoreMissing:
                continue
            held.append(store)
        yield
    finally:
        for store in held:
            await store.close()


def _kept_key(data: Path) -> str:
    try:
        return kept_root_key(data).text
    except OSError:
        return ""


def _keep_key(data: Path, content: CatalogContent) -> str:
    """From now on the key is in the data folder again."""
    kept = _kept_key(data)
    if not kept and content.root_key:
        keep_root_key(data, content.root_key)
    if not kept or not content.root_key or kept == content.root_key:
        return ""
    return (
        f"the key in {data / 'root-key'} is not the one that clients used with the "
        "catalog that was moved."
    )
