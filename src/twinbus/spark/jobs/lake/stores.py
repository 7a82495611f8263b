"""How the messages of a lake are stored: as Parquet files, or as a Delta table.

A batch is staged, then published. Nothing reads it before the manifest
names it, so a batch that was not finished does no harm, and is made again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from twinbus.spark.jobs.lake.delta_store import DELTA, DeltaStore
from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.file_store import FileStore
from twinbus.spark.jobs.lake.folder import LakeFolder
from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import HourManifest, LakeBatch
from twinbus.spark.jobs.lake.messages import SourceOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET: Final = "parquet"


class MessageStore(Protocol):
    """The messages of one lake."""

    def stage(
        self, rows: "DataFrame", batch: str, captured_at: str, source_of: SourceOf
    ) -> dict[LakeHour, LakeBatch]:
        """Write the rows of a batch, in place of what an earlier attempt wrote; what
        was written, as it can be read."""

    def publish(self, hours: Sequence[LakeHour], batch: str) -> None:
        """Put what was staged where readers look for it."""

    def withdraw(self, hour: LakeHour, batch: str) -> None:
        """Remove what a batch has of an hour."""

    def finish(self, batch: str) -> None:
        """Remove what is left of staging it."""

    def rows(
        self, spark: "SparkSession", manifests: Sequence[HourManifest]
    ) -> "DataFrame":
        """The messages of these hours: what the manifest names, and nothing else."""


def open_store(spark: "SparkSession", folder: LakeFolder, data: str) -> MessageStore:
    """Changes nothing. Raises LakeError for a format that lakes do not have, or that
    this Spark does not have."""
    if data == PARQUET:
        return FileStore(folder)
    if data == DELTA:
        return DeltaStore(spark, folder)
    raise LakeError(
        f"'{data}' is not a format of lakes: use {PARQUET} or {DELTA}. To have a table "
        "in another format, read the files with Spark and write it."
    )
