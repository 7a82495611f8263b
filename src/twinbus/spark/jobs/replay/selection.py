"""What of a lake is to be replayed: checked before anything is sent.

Whole hours are checked: that no file is gone or torn, and that they have what the
manifest says, by count and digest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinbus.spark.jobs.job_errors import JobRefused
from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.lake import Lake
from twinbus.spark.jobs.lake.manifest import HourManifest
from twinbus.spark.jobs.lake.messages import (
    digested,
    parts_of,
    sources_of,
)
from twinbus.spark.jobs.lake.stores import MessageStore
from twinbus.spark.jobs.lake.unreadable import unreadable_told
from twinbus.spark.jobs.replay.options import ReplayOptions
from twinbus.spark.jobs.replay.summary import ReplayFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Selection:
    """Hours of a lake that may have what is wanted, in the order of time."""

    options: ReplayOptions
    manifests: Sequence[HourManifest]

    @property
    def entities(self) -> list[str]:
        return sorted({manifest.hour.entity for manifest in self.manifests})

    def wanted(self, rows: "DataFrame") -> "DataFrame":
        """Those of the rows that are wanted. Raises JobRefused."""
        from pyspark.errors import AnalysisException, ParseException

        options = self.options
        conditions = [
            (options.start_at, "unix_millis(enqueued_time) >= {}"),
            (options.end_at, "unix_millis(enqueued_time) < {}"),
            (options.from_sequence, "sequence_number >= {}"),
            (options.to_sequence, "sequence_number <= {}"),
        ]
        for bound, text in conditions:
            if bound is not None:
                rows = rows.where(text.format(bound))
        if options.where is None:
            return rows
        try:
            return rows.where(options.where)
        except (AnalysisException, ParseException) as error:
            first = str(error).strip().splitlines()[0]
            raise JobRefused(
                f"--where is not a condition over the columns of a lake: {first} The "
                "columns are in docs/reference/lake.md."
            ) from None


def select(lake: Lake, options: ReplayOptions) -> Selection:
    """Raises LakeError, JobRefused."""
    known = {entity.lower() for entity in lake.entities()}
    if not known:
        raise LakeError(
            f"{lake.folder.name} is empty: nothing was captured into it yet."
        )
    for entity in options.entities:
        if entity.lower() not in known:
            raise JobRefused(
                f"{lake.folder.name} has nothing of '{entity}'. It has "
                f"{', '.join(lake.entities())}."
            )
    hours = lake.hours(options.entities or None, options.start_at, options.end_at)
    found = [lake.manifest(hour) for hour in hours]
    return Selection(options, [one for one in found if _may_have(one, options)])


def _may_have(manifest: HourManifest, options: ReplayOptions) -> bool:
    """Whether an hour has numbers of the wanted range."""
    low = options.from_sequence or 0
    high = options.to_sequence
    return any(
        part.last >= low and (high is None or part.first <= high)
        for part in manifest.parts
    )


def check_content(
    spark: "SparkSession",
    lake: Lake,
    store: MessageStore,
    manifests: Sequence[HourManifest],
) -> None:
    """Raises LakeDamaged."""
    for manifest in manifests:
        lake.check_files(manifest)
    with unreadable_told(lake, "Nothing was sent."):
        rows = digested(store.rows(spark, manifests)).collect()
    found = parts_of(rows, sources_of(manifests))
    for manifest in manifests:
        hour = manifest.hour
        if found.get(hour, ()) != manifest.parts:
            raise LakeDamaged(
                f"{lake.folder.name}: the files of '{hour.entity}' of {hour.date}, "
                f"hour {hour.hour}, do not have what the manifest says: one of them "
                "was changed. Restore them from a copy of the lake. Nothing was sent."
            )


def flows_of(rows: "DataFrame", targets: dict[str, str]) -> tuple[ReplayFlow, ...]:
    """What the rows are, by entity."""
    from pyspark.sql.functions import expr

    found = rows.groupBy("entity").agg(
        expr("count(*) AS messages"),
        expr("sum(cast(size_bytes AS bigint)) AS bytes"),
        expr("min(sequence_number) AS first"),
        expr("max(sequence_number) AS last"),
        expr("min(unix_millis(enqueued_time)) AS first_enqueued_at"),
        expr("max(unix_millis(enqueued_time)) AS last_enqueued_at"),
    )
    return tuple(
        ReplayFlow(target=targets[row.entity], **row.asDict())
        for row in sorted(found.collect(), key=lambda row: str(row.entity))
    )
