"""Makes a bus from a backup, in places where nothing is yet.

The order: the backup is verified; every place is looked at; a mark is put into the data
folder; stores, keys and at last the catalog are written; what was written is checked;
the mark is removed. Before the mark is gone no bus starts with the folder. A restore
that fails removes what it has written, and one that was killed is run again.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from twinbus.backup.making import ROOT_KEY, TLS
from twinbus.backup.manifest import (
    CATALOG,
    BackedUpStore,
    BackupManifest,
    Progress,
    read_manifest,
    verify_files,
)
from twinbus.backup.new_identity import NewIdentity, catalog_of, named_anew
from twinbus.backup.sqlite_target import (
    SqliteStoreTarget,
    catalog_file,
    remove_file,
)
from twinbus.clock import SystemClock
from twinbus.config.config import Config, ConfigError
from twinbus.process.data_folder import DataFolder
from twinbus.process.restore_mark import (
    RestoreMark,
    is_mark,
    mark_of,
    put_mark,
    remove_mark,
)
from twinbus.store.audit_findings import Finding
from twinbus.store.base import StoreError, StoreUnreadable
from twinbus.store.catalog import EntityRecord
from twinbus.store.catalog_move import MovableCatalog
from twinbus.store.memory import MemoryStore
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.urls import open_store_urls


class PlaceTaken(StoreError):
    """There is something where a bus would be restored to."""


class StoreTarget(Protocol):
    """Where a store goes to."""

    kind: str

    @property
    def location(self) -> str: ...

    async def exists(self) -> bool: ...

    async def write(
        self, folder: Path, store: BackedUpStore, new: NewIdentity, progress: Progress
    ) -> None: ...

    async def discard(self, epoch: int) -> bool: ...

    async def findings(
        self, entities: Sequence[EntityRecord], catalog: Path | None
    ) -> list[Finding]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A verified backup, and where it goes."""

    folder: Path
    manifest: BackupManifest
    data: Path
    targets: Sequence[StoreTarget]
    catalog: MovableCatalog
    # With its password, if it has one.
    catalog_url: str = field(repr=False)

    @property
    def places(self) -> list[str]:
        return [*(target.location for target in self.targets), self.catalog.location]


async def plan_restore(folder: Path, config: Config, progress: Progress) -> RestorePlan:
    """Verify the backup, and look whether all places are free. Changes nothing.
    Raises StoreError, ConfigError."""
    manifest = read_manifest(folder)
    plan = RestorePlan(
        folder=folder,
        manifest=manifest,
        data=config.data,
        targets=_targets(config, manifest),
        catalog=DataFolder(config).kept_catalog(),
        catalog_url=config.catalog,
    )
    verify_files(folder, manifest, progress)
    mark = mark_of(plan.data)
    if mark is None:
        await _refuse_taken(plan)
    elif (mark.backup_id, mark.places) != (manifest.backup_id, plan.places):
        raise PlaceTaken(
            f"Another restore into {plan.data} has not ended: that of {mark.backup} to "
            f"{', '.join(mark.places)}. Run it again, or name another folder."
        )
    return plan


async def carry_out(plan: RestorePlan, progress: Progress) -> None:
    """Raises StoreError, ConfigError, OSError; then nothing of it is left."""
    mark = mark_of(plan.data)
    if mark is not None:
        await _discard(plan, mark)
    made_folder = not plan.data.exists()
    plan.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = RestoreMark(
        backup=str(plan.folder),
        backup_id=plan.manifest.backup_id,
        places=plan.places,
        made_folder=made_folder,
    )
    put_mark(plan.data, mark)
    try:
        await _write(plan, progress)
    except BaseException:
        await _discard(plan, mark)
        raise
    remove_mark(plan.data)
    _remove_empty(mark, plan.data)


def _targets(config: Config, manifest: BackupManifest) -> list[StoreTarget]:
    """Raises ConfigError."""
    targets: list[StoreTarget] = []
    if not config.store:
        targets.append(SqliteStoreTarget(config.data / "messages.sqlite3"))
    else:
        try:
            stores = open_store_urls(config.store)
        except StoreError as error:
            raise ConfigError(str(error)) from None
        for url, store in zip(config.store, stores, strict=True):
            if isinstance(store, SqliteStore):
                targets.append(SqliteStoreTarget(store.path))
            elif not isinstance(store, MemoryStore):
                from twinbus.backup.postgres_target import PostgresStoreTarget

                targets.append(PostgresStoreTarget(url))
    kinds = [store.kind for store in manifest.stores]
    if kinds != [target.kind for target in targets]:
        raise ConfigError(
            f"The backup has these stores: {', '.join(kinds)}. Name a place of the "
            "same kind for each, in this order, with --store."
        )
    return targets


async def _refuse_taken(plan: RestorePlan) -> None:
    """Raises PlaceTaken."""
    if plan.data.exists():
        for path in plan.data.iterdir():
            if not is_mark(path):
                raise PlaceTaken(
                    f"The data folder {plan.data} is not empty ({path.name}). Nothing "
                    "was changed. Name another with --data, or move it away."
                )
    for target in plan.targets:
        if await target.exists():
            raise PlaceTaken(
                f"There is a store in {target.location} already. Nothing was changed. "
                "Name another place with --store."
            )
    if plan.catalog.exists():
        raise PlaceTaken(
            f"There is a catalog in {plan.catalog.location} already. Nothing was "
            "changed. Name another place with --catalog."
        )


async def _write(plan: RestorePlan, progress: Progress) -> None:
    manifest = plan.manifest
    locations = [target.location for target in plan.targets]
    now = SystemClock().now()
    new = named_anew(manifest.stores, locations, now)
    for store, target in zip(manifest.stores, plan.targets, strict=True):
        await target.write(plan.folder, store, new, progress)
    _copy_keys(plan.folder, plan.data)
    content = new.catalog(catalog_of((plan.folder / CATALOG).read_text()))
    progress(f"writing {plan.catalog.location}")
    await plan.catalog.open_marked()
    try:
        await plan.catalog.replace_content(content, "backup")
        await plan.catalog.mark_arrived()
    finally:
        await plan.catalog.close()
    for target in plan.targets:
        progress(f"checking {target.location}")
        found = await target.findings(content.entities, catalog_file(plan.catalog))
        for finding in found:
            if finding.is_damage:
                raise StoreUnreadable(
                    f"The restored store is damaged: {finding.line()}"
                )


def _copy_keys(folder: Path, data: Path) -> None:
    if (folder / ROOT_KEY).exists():
        shutil.copyfile(folder / ROOT_KEY, data / ROOT_KEY)
        (data / ROOT_KEY).chmod(0o600)
    if (folder / TLS).exists():
        shutil.copytree(folder / TLS, data / TLS)


async def _discard(plan: RestorePlan, mark: RestoreMark) -> None:
    """Remove what a restore that did not end has written. Raises PlaceTaken."""
    for store, target in zip(plan.manifest.stores, plan.targets, strict=True):
        if not await target.discard(store.epoch):
            raise PlaceTaken(
                f"A bus has used {target.location} since a restore to there was "
                "interrupted. Nothing was changed."
            )
    await _discard_catalog(plan)
    (plan.data / ROOT_KEY).unlink(missing_ok=True)
    shutil.rmtree(plan.data / TLS, ignore_errors=True)
    remove_mark(plan.data)
    _remove_empty(mark, plan.data)


def _remove_empty(mark: RestoreMark, data: Path) -> None:
    """A folder that was made for the mark alone."""
    if mark.made_folder and data.exists() and not any(data.iterdir()):
        data.rmdir()


async def _discard_catalog(plan: RestorePlan) -> None:
    if isinstance(plan.catalog, SqliteCatalog):
        remove_file(plan.catalog.path)
    else:
        from twinbus.backup.postgres_target import drop_catalog

        await drop_catalog(plan.catalog_url)
