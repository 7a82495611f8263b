"""Restores entities in a catalog that has lost them.

First everything is planned without changes, in transactions that are rolled back. Then
missing fragments are created, and last all entities are added to the catalog at once.
If this is interrupted, the store still has its messages, and the next run does the
rest.

A catalog that cannot be read is renamed, never overwritten.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.clock import SystemClock
from twinbus.config.config import Config, ConfigError
from twinbus.entities.recovery_plan import Found, Recovered, RecoveryPlan
from twinbus.entities.subscription_rules import stored_rule
from twinbus.owner.lease_keeper import LeaseKeeper
from twinbus.process.data_folder import DataFolder
from twinbus.rules.rule import default_rule
from twinbus.store.base import FormatTooNew, Opened, Store, StoreUnreadable
from twinbus.store.catalog import EntityRecord, Unfinished, stored_entity
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.survey import Survey
from twinbus.store.urls import is_for_machines, without_password

_SQLITE_FILES: Final = ("", "-wal", "-shm")


class _Kept(Store, Protocol):
    """A store that outlives its process."""

    async def survey(self) -> Survey: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What was found, and what is done unless it is a dry run."""

    store: str
    store_uuid: bytes
    catalog: str
    # New name of a catalog that cannot be read; None if it can.
    set_aside: str | None
    entities: tuple[Recovered, ...]
    # The record of the namespace is recovered, for it belongs to several stores.
    has_namespaces: bool = False

    def is_needed(self) -> bool:
        return bool(self.entities) or self.set_aside is not None or self.has_namespaces


async def recover(config: Config, now: int, *, is_dry_run: bool) -> list[Recovery]:
    """Add all entities of the stores to the catalog. A result for each store.

    Raises StoreInUse, StoreUnreadable and other StoreErrors, ConfigError.
    """
    stores, catalog = _files(config)
    # All are looked at before anything is changed.
    surveys = [await store.survey() for store in stores]
    records, unfinished, is_unreadable = _look_at(catalog)
    uuids = frozenset(survey.store_uuid for survey in surveys)
    plans: list[RecoveryPlan] = []
    for survey in surveys:
        found = Found(
            store_uuid=survey.store_uuid,
            fragments=survey.fragments,
            stored=survey.entities,
            records=records,
            unfinished=unfinished,
            other_stores=uuids - {survey.store_uuid},
        )
        plans.append(RecoveryPlan(found, config.namespace, now))
        # An entity with fragments in several stores is recovered once.
        records = [*records, *plans[-1].namespaces]
        records += [one.record for one in plans[-1].entities if one.is_new]
    set_aside = str(_free_name(catalog.path)) if is_unreadable else None
    recoveries = [
        Recovery(
            store=store.location,
            store_uuid=survey.store_uuid,
            catalog=catalog.location,
            set_aside=set_aside,
            entities=tuple(plan.entities),
            has_namespaces=bool(plan.namespaces),
        )
        for store, survey, plan in zip(stores, surveys, plans, strict=True)
    ]
    if any(one.is_needed() for one in recoveries) and not is_dry_run:
        if is_unreadable:
            _set_aside(catalog.path)
        for store, plan in zip(stores, plans, strict=True):
            await _carry_out(plan, store, catalog, now)
    return recoveries


def _files(config: Config) -> tuple[list[_Kept], SqliteCatalog]:
    """Raises ConfigError, StoreUnreadable."""
    if not config.data.is_dir():
        raise ConfigError(
            f"There is no data folder {config.data}. Give the one to recover with "
            "--data."
        )
    folder = DataFolder(config)
    stores, catalog = folder.stores(), folder.catalog()
    if is_for_machines(config.catalog):
        raise ConfigError(
            f"The catalog {catalog.location} is in a database. Restore a backup of "
            "that: only a catalog in a file is made anew from its stores."
        )
    kept = [cast(_Kept, store) for store in stores if hasattr(store, "survey")]
    if len(kept) < len(stores) or not isinstance(catalog, SqliteCatalog):
        shown = ", ".join(map(without_password, config.store))
        raise ConfigError(f"The store '{shown}' keeps nothing that could be recovered.")
    for store in kept:
        if isinstance(store, SqliteStore) and not store.path.exists():
            raise StoreUnreadable(
                f"There is no message store {store.path}, so there is nothing to "
                "recover from. Restore a backup of it, or give the right folder with "
                "--data."
            )
    return kept, catalog


def _look_at(
    catalog: SqliteCatalog,
) -> tuple[list[EntityRecord], list[Unfinished], bool]:
    """The entities of the catalog, and whether it cannot be read."""
    if not catalog.exists():
        return [], [], False
    try:
        return *catalog.survey(), False
    except FormatTooNew:
        raise
    except StoreUnreadable:
        return [], [], True


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    return name


def _set_aside(path: Path) -> None:
    name = _free_name(path)
    for suffix in _SQLITE_FILES:
        file = Path(f"{path}{suffix}")
        if file.exists():
            file.rename(f"{name}{suffix}")


async def _carry_out(
    plan: RecoveryPlan, store: _Kept, catalog: SqliteCatalog, now: int
) -> None:
    # A broker that died may have a lease for a few seconds more.
    keeper = LeaseKeeper(store, SystemClock())
    opened = await keeper.take_from_the_dead("twinbus recover")
    try:
        changes = _changes(plan, opened, now)
        if not changes.is_empty():
            changes.seal(opened.epoch, opened.last_batch + 1, now)
            await store.commit(changes)
        await catalog.open()
        try:
            entities = [one.record for one in plan.entities]
            await catalog.put(*plan.namespaces, *entities)
        finally:
            await catalog.close()
    finally:
        await store.close()


def _changes(plan: RecoveryPlan, opened: Opened, now: int) -> ChangeSet:
    """Missing fragments, and entity records with their current names."""
    table = FragmentTable(opened.epoch, opened.fragments)
    table.purging().update(opened.purging)
    changes = ChangeSet()
    for one in plan.entities:
        record = one.record
        changes.entities_put.append(stored_entity(record))
        for index in one.lacking:
            table.admit(record.generation, FragmentSettings(path=record.path))
            fragment = table.create(record.generation, index, changes)
            if record.kind == "subscription" and len(record.placement) == 1:
                rule = stored_rule(fragment.number, default_rule(now))
                changes.rules_put.append(rule)
    return changes
