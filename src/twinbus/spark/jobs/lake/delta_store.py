"""The messages of a lake as one Delta table, in the folder `messages`.

A batch is staged as files, as for Parquet, and its digests are taken. To publish it is
one transaction of Delta, which puts it in the place of what an earlier attempt wrote;
then the table is read and compared with the digests. Rows carry the name of their
batch: what the manifest does not name is not read, whoever wrote it.

The table is the user's to keep in shape: Delta can rewrite its files at any time, which
changes neither rows nor digests. So the manifest names no files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError, first_line
from twinbus.spark.jobs.lake.file_store import FileStore
from twinbus.spark.jobs.lake.folder import LakeFolder
from twinbus.spark.jobs.lake.layout import MESSAGES, STAGING, LakeHour
from twinbus.spark.jobs.lake.manifest import HourManifest, LakeBatch
from twinbus.spark.jobs.lake.messages import (
    BATCH,
    FOLDER_COLUMNS,
    SourceOf,
    arranged,
    digested,
    lake_schema,
    parts_of,
    read_files,
    sources_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA: Final = "delta"

_LOG: Final = f"{MESSAGES}/_delta_log"
_NAMED: Final = (*FOLDER_COLUMNS, BATCH)

_TABLE_SETTINGS: Final = {
    # A batch, a range or a time is found without reading other files. Delta would
    # take the first columns, and `batch` is one of the last.
    "delta.dataSkippingStatsColumns": "batch,sequence_number,enqueued_time",
}

_MISSING: Final = frozenset(
    (
        "DATA_SOURCE_NOT_FOUND",
        "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
    )
)
"""What Spark answers that has no Delta, or only half of it."""

_UNFIT: Final = re.compile(
    r"NoSuch(Method|Field)Error|AbstractMethodError|IncompatibleClassChangeError"
    r"|NoClassDefFoundError"
)
"""What Java answers if a library was made for another version of another one."""


class DeltaStore:
    """`MessageStore` of a Delta table."""

    def __init__(self, spark: "SparkSession", folder: LakeFolder) -> None:
        """Raises LakeError if Spark has no Delta."""
        self._spark = spark
        self._folder = folder
        self._staging = FileStore(folder)
        # What was staged last.
        self._staged: Mapping[LakeHour, LakeBatch] = {}
        _check_spark(spark, folder.url(MESSAGES))

    def stage(
        self, rows: "DataFrame", batch: str, captured_at: str, source_of: SourceOf
    ) -> dict[LakeHour, LakeBatch]:
        made = self._staging.stage(rows, batch, captured_at, source_of)
        found = {hour: replace(entry, files=()) for hour, entry in made.items()}
        self._staged = found
        return found

    def publish(self, hours: Sequence[LakeHour], batch: str) -> None:
        if not hours:
            return
        assert set(hours) == set(self._staged), "they become visible at once"
        from pyspark.sql.functions import lit

        files = read_files(self._spark, self._folder.url(f"{STAGING}/{batch}"))
        rows = arranged(files).withColumn(BATCH, lit(batch))
        with _unfit_told(self._spark.version):
            self._replace(rows, {BATCH: batch})
            self._folder.sync()
            self._check(batch)

    def _check(self, batch: str) -> None:
        """Raises LakeDamaged unless the table has what was staged."""
        staged = {hour: entry.parts for hour, entry in self._staged.items()}
        source_of = sources_of(
            [
                HourManifest(hour=hour, batches=(entry,))
                for hour, entry in self._staged.items()
            ]
        )
        rows = self._table().where(_condition({BATCH: batch}))
        if parts_of(digested(rows).collect(), source_of) != staged:
            raise LakeDamaged(
                f"{self._folder.name}: the Delta table does not have what was written "
                f"to it as batch {batch}. The batch is not complete: nothing of it "
                "left the bus. Run the capture again, or capture into another folder."
            )

    def withdraw(self, hour: LakeHour, batch: str) -> None:
        if not self._folder.sizes(_LOG):
            return
        none = self._spark.createDataFrame([], lake_schema())
        gone = {"entity": hour.entity, "date": hour.date, "hour": hour.hour}
        with _unfit_told(self._spark.version):
            self._replace(none, {**gone, BATCH: batch})

    def finish(self, batch: str) -> None:
        self._staging.finish(batch)

    def rows(
        self, spark: "SparkSession", manifests: Sequence[HourManifest]
    ) -> "DataFrame":
        from pyspark.sql.functions import broadcast, col

        named = [
            (one.hour.entity, one.hour.date, one.hour.hour, batch.batch)
            for one in manifests
            for batch in one.batches
        ]
        if not named:
            return spark.createDataFrame([], lake_schema())
        # A join, because a condition that names a thousand hours is too much for
        # Spark; and what needs no join keeps folders of other days from being read.
        entities = sorted({one.hour.entity for one in manifests})
        dates = sorted({one.hour.date for one in manifests})
        wanted = self._table().where(
            col("entity").isin(entities) & col("date").isin(dates)
        )
        schema = ", ".join(f"{name} string" for name in _NAMED)
        listed = broadcast(spark.createDataFrame(named, schema))
        found = wanted.join(listed, on=list(_NAMED), how="left_semi")
        return found.select(*lake_schema().fieldNames())

    # --- the table ------------------------------------------------------------

    def _table(self) -> "DataFrame":
        return self._spark.read.format(DELTA).load(self._folder.url(MESSAGES))

    def _replace(self, rows: "DataFrame", where: Mapping[str, str]) -> None:
        """In one transaction, put rows in the place of those with these values."""
        (
            rows.select(*lake_schema().fieldNames())
            .write.format(DELTA)
            .mode("overwrite")
            .partitionBy(*FOLDER_COLUMNS)
            .option("replaceWhere", _condition(where))
            # A session may have another default, which would win.
            .option("partitionOverwriteMode", "static")
            .options(**_TABLE_SETTINGS)
            .save(self._folder.url(MESSAGES))
        )


def _condition(values: Mapping[str, str]) -> str:
    return " AND ".join(f"{name} = {_quoted(text)}" for name, text in values.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _check_spark(spark: "SparkSession", url: str) -> None:
    """Raises LakeError. Nothing is made: it is tried whether Spark knows how to read
    the table, which need not be there."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # There is no table yet, or it is damaged: that is for others to find.
    with suppress(PySparkException, Py4JError), _unfit_told(spark.version):
        spark.read.format(DELTA).load(url).limit(1).collect()


@contextmanager
def _unfit_told(version: str) -> Iterator[None]:
    """Raises LakeError for a Spark that has no Delta, or not one that was made for it:
    then some of its calls work, and some do not."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    package = f"io.delta:delta-spark_{'.'.join(version.split('.')[:2])}_2.13"
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = first_line(error)
        if any(f"[{name}]" in text for name in _MISSING):
            raise LakeError(
                f"This Spark {version} has no Delta. Add the package {package} (with "
                "--packages, or the setting spark.jars.packages), and the settings "
                "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                "spark.sql.catalog.spark_catalog="
                "org.apache.spark.sql.delta.catalog.DeltaCatalog."
            ) from None
        unfit = _UNFIT.search(text)
        if unfit is not None:
            raise LakeError(
                f"The Delta that is there was not made for Spark {version} "
                f"({unfit[0]}). Use the package {package}; if there is none yet, use "
                "an older Spark. What is not in the lake is still on the bus."
            ) from None
        raise
