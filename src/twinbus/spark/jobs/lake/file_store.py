"""The messages of a lake as Parquet files: staged, then moved hour by hour."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinbus.spark.jobs.lake.folder import LakeFolder
from twinbus.spark.jobs.lake.layout import (
    MESSAGES,
    STAGING,
    LakeHour,
    date_of,
    entity_of,
    hour_of,
)
from twinbus.spark.jobs.lake.manifest import HourManifest, LakeBatch
from twinbus.spark.jobs.lake.messages import (
    SourceOf,
    lake_schema,
    write_files,
    written_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FileStore:
    """`MessageStore` of Parquet files."""

    def __init__(self, folder: LakeFolder) -> None:
        self._folder = folder

    def stage(
        self, rows: "DataFrame", batch: str, captured_at: str, source_of: SourceOf
    ) -> dict[LakeHour, LakeBatch]:
        url = self._folder.url(f"{STAGING}/{batch}")
        write_files(rows, url)
        return written_files(rows.sparkSession, url, batch, captured_at, source_of)

    def publish(self, hours: Sequence[LakeHour], batch: str) -> None:
        staged = self._staged(batch)
        for hour in hours:
            self._folder.move(staged[hour], hour.batch(batch))

    def _staged(self, batch: str) -> dict[LakeHour, str]:
        """Spark quotes names of folders in its own way."""
        found = {}
        top = f"{STAGING}/{batch}"
        for name in self._folder.sizes(top):
            entity = entity_of(name)
            for day in self._folder.sizes(f"{top}/{name}") if entity else ():
                for end in self._folder.sizes(f"{top}/{name}/{day}"):
                    date, hour = date_of(day), hour_of(end)
                    if entity and date and hour:
                        at = LakeHour(date, hour, entity)
                        found[at] = f"{top}/{name}/{day}/{end}"
        return found

    def withdraw(self, hour: LakeHour, batch: str) -> None:
        self._folder.remove(hour.batch(batch))

    def finish(self, batch: str) -> None:
        self._folder.remove(f"{STAGING}/{batch}")

    def rows(
        self, spark: "SparkSession", manifests: Sequence[HourManifest]
    ) -> "DataFrame":
        places = [
            self._folder.url(manifest.hour.batch(batch.batch))
            for manifest in manifests
            for batch in manifest.batches
        ]
        if not places:
            return spark.createDataFrame([], lake_schema())
        base = self._folder.url(MESSAGES)
        reader = spark.read.schema(lake_schema()).option("basePath", base)
        return reader.parquet(*places)
