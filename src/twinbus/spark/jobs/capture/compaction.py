"""Makes one file of the many small ones of an hour, and finishes what a crash left.

Safe at any point: the new files are written and compared with the old ones, the
manifest is replaced at once, and only then the old files are removed. A run that finds
a compaction under way looks at the manifest: if it has the new batch, the old files are
removed; if not, the new ones are.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from twinbus.spark.jobs.capture.batch_writer import withdraw
from twinbus.spark.jobs.lake.coverage import read_coverages
from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.lake import Lake
from twinbus.spark.jobs.lake.layout import STAGING, LakeHour
from twinbus.spark.jobs.lake.manifest import (
    HourManifest,
    LakeBatch,
    write_manifest,
)
from twinbus.spark.jobs.lake.messages import sources_of
from twinbus.spark.jobs.lake.stores import MessageStore
from twinbus.spark.jobs.lake.under_way import (
    COMPACTION,
    UnderWay,
    end_under_way,
    read_under_way,
    write_under_way,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "c"
_SETTLING_MS = 120_000
"""After the end of an hour, until it is compacted: its last messages may still come."""


def compactable(
    lake: Lake, hours: Sequence[LakeHour], least: int, now: int
) -> list[HourManifest]:
    """Hours that are over and have many files, in more than one batch."""
    found = []
    for hour in hours:
        if _ends_at(hour) + _SETTLING_MS > now:
            continue
        manifest = lake.manifest(hour)
        if len(manifest.batches) > 1 and len(manifest.files()) >= least:
            found.append(manifest)
    return found


def _ends_at(hour: LakeHour) -> int:
    began = datetime.fromisoformat(f"{hour.date}T{hour.hour}:00:00").replace(tzinfo=UTC)
    return int(began.timestamp()) * 1000 + 3_600_000


def compact(
    spark: "SparkSession",
    lake: Lake,
    store: MessageStore,
    manifest: HourManifest,
    captured_at: str,
) -> None:
    """Make one batch of all batches of an hour. Raises LakeError."""
    lake.check_files(manifest)
    hour, folder = manifest.hour, lake.folder
    name = f"{_PREFIX}{uuid4().hex[:12]}"
    replaced = tuple(one.batch for one in manifest.batches)
    under_way = UnderWay(kind=COMPACTION, batch=name, hours=(hour,), replaces=replaced)
    write_under_way(folder, under_way)
    rows = store.rows(spark, [manifest]).drop("batch")
    made = store.stage(rows, name, captured_at, sources_of([manifest]))
    entry = made.get(hour)
    if entry is None or len(made) != 1 or entry.parts != manifest.parts:
        store.finish(name)
        end_under_way(folder)
        raise LakeDamaged(
            f"{folder.name}: the files of '{hour.entity}' of {hour.date}, hour "
            f"{hour.hour}, do not have what the manifest says: one of them was "
            "changed. Nothing was compacted; restore them from a copy of the lake."
        )
    store.publish([hour], name)
    write_manifest(
        folder, lake.identity.lake, HourManifest(hour=hour, batches=(entry,))
    )
    _remove(store, hour, replaced)
    store.finish(name)
    end_under_way(folder)


def _remove(store: MessageStore, hour: LakeHour, batches: Sequence[str]) -> None:
    for batch in batches:
        store.withdraw(hour, batch)


def recover(lake: Lake, store: MessageStore, query_ids: Sequence[str]) -> None:
    """Finish or undo what a killed run left. A batch of a query that goes on is left to
    Spark, which repeats it."""
    under_way = read_under_way(lake.folder)
    if under_way is not None and under_way.kind == COMPACTION:
        [hour] = under_way.hours
        if _has(lake.manifest(hour).batches, under_way.batch):
            _remove(store, hour, under_way.replaces)
        else:
            store.withdraw(hour, under_way.batch)
        end_under_way(lake.folder)
    elif under_way is not None:
        query_id = under_way.batch.partition("-")[0]
        if query_id in query_ids:
            return
        # A complete batch stays: others skip what its coverage has looked at.
        covered = read_coverages(lake.folder).get(query_id)
        if covered is None or covered.last_batch != under_way.batch:
            for hour in under_way.hours:
                withdraw(lake, store, hour, under_way.batch)
        end_under_way(lake.folder)
    for name in lake.folder.sizes(STAGING):
        lake.folder.remove(f"{STAGING}/{name}")


def _has(batches: Sequence[LakeBatch], name: str) -> bool:
    return any(one.batch == name for one in batches)
