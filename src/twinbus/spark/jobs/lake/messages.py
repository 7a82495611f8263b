"""The rows of a lake: their columns, how they are written and read, their digests.

A row has the columns of the format `servicebus`, with the whole message as `raw`, and
`generation`, which tells an entity from one of the same name that was deleted. Four
columns are names of folders: `entity`, `date`, `hour` and `batch`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import (
    HourManifest,
    LakeBatch,
    LakeFile,
    LakePart,
    joined_parts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

FOLDER_COLUMNS: Final = ("entity", "date", "hour")
GENERATION: Final = "generation"
BATCH: Final = "batch"

_ROWS_PER_FILE: Final = 250_000
"""Numbers of a fragment that go to the same file, so that a large batch has many."""

SourceOf = Callable[[str, str], str]
"""By entity and generation: what was read."""


def lake_schema(*, has_batch: bool = True) -> "StructType":
    """The columns of a lake in their order."""
    from pyspark.sql.types import StringType, StructField, StructType

    from twinbus.spark.schema import COLUMNS, spark_schema

    own = [name for name in COLUMNS if name != "entity"]
    folders = (*FOLDER_COLUMNS, BATCH) if has_batch else FOLDER_COLUMNS
    names = (GENERATION, *folders)
    texts = [StructField(name, StringType(), True) for name in names]
    return StructType([*spark_schema(own).fields, *texts])


def with_hours(rows: "DataFrame") -> "DataFrame":
    """With the columns `date` and `hour`, in UTC whatever the session's zone is."""
    seconds = "unix_seconds(enqueued_time)"
    return rows.selectExpr(
        "*",
        f"cast(date_from_unix_date(cast(floor({seconds} / 86400) AS int)) AS string) "
        "AS date",
        f"lpad(cast(pmod(floor({seconds} / 3600), 24) AS string), 2, '0') AS hour",
    )


def arranged(rows: "DataFrame") -> "DataFrame":
    """With the rows of a file together, and in order."""
    from pyspark.sql.functions import expr

    spread = expr(f"sequence_number div {_ROWS_PER_FILE}")
    return rows.repartition(*FOLDER_COLUMNS, spread).sortWithinPartitions(
        *FOLDER_COLUMNS, GENERATION, "partition", "sequence_number"
    )


def write_files(rows: "DataFrame", url: str) -> None:
    """Write rows as files below a folder, in place of what is there."""
    names = lake_schema(has_batch=False).fieldNames()
    chosen = arranged(rows.select(*names))
    chosen.write.mode("overwrite").partitionBy(*FOLDER_COLUMNS).parquet(url)


def read_files(spark: "SparkSession", url: str) -> "DataFrame":
    """The rows of such a folder."""
    return spark.read.schema(lake_schema(has_batch=False)).parquet(url)


def written_files(
    spark: "SparkSession",
    url: str,
    batch: str,
    captured_at: str,
    source_of: SourceOf,
) -> dict[LakeHour, LakeBatch]:
    """What such a folder has, as it can be read from there."""
    rows = read_files(spark, url)
    found = digested(rows, "_metadata.file_name", "_metadata.file_size").collect()
    return batches_of(found, batch, captured_at, source_of)


def digested(rows: "DataFrame", *more: str) -> "DataFrame":
    """Counts, bounds and digests of rows, by fragment and hour."""
    from pyspark.sql.functions import expr

    keys = [*FOLDER_COLUMNS, GENERATION, "partition", *more]
    hashed = "xxhash64(sequence_number, raw)"
    return rows.groupBy(*keys).agg(
        expr("count(*) AS count"),
        expr("min(sequence_number) AS first"),
        expr("max(sequence_number) AS last"),
        expr("sum(cast(size_bytes AS bigint)) AS bytes"),
        expr(f"bit_xor({hashed}) AS xor"),
        expr(f"sum(cast({hashed} AS decimal(38,0))) AS sum"),
        expr("min(unix_millis(enqueued_time)) AS first_enqueued_at"),
        expr("max(unix_millis(enqueued_time)) AS last_enqueued_at"),
    )


def hour_of_row(row: "Row") -> LakeHour:
    return LakeHour(row.date, row.hour, row.entity)


def part_of(row: "Row", source_of: SourceOf) -> LakePart:
    """From a row of `digested`."""
    return LakePart(
        source=source_of(row.entity, row.generation),
        generation=row.generation,
        fragment=row.partition,
        first=row["first"],
        last=row["last"],
        count=row["count"],
        bytes=row["bytes"],
        xor=f"{row['xor'] & (1 << 64) - 1:016x}",
        sum=str(int(row["sum"])),
        first_enqueued_at=row.first_enqueued_at,
        last_enqueued_at=row.last_enqueued_at,
    )


def parts_of(
    rows: Sequence["Row"], source_of: SourceOf
) -> dict[LakeHour, tuple[LakePart, ...]]:
    """From rows of `digested`: what each hour has."""
    found: dict[LakeHour, list[LakePart]] = {}
    for row in rows:
        found.setdefault(hour_of_row(row), []).append(part_of(row, source_of))
    return {hour: joined_parts(parts) for hour, parts in found.items()}


def batches_of(
    rows: Sequence["Row"], batch: str, captured_at: str, source_of: SourceOf
) -> dict[LakeHour, LakeBatch]:
    """From rows of `digested` by file."""
    parts: dict[LakeHour, list[LakePart]] = {}
    files: dict[LakeHour, dict[str, LakeFile]] = {}
    for row in rows:
        hour = hour_of_row(row)
        parts.setdefault(hour, []).append(part_of(row, source_of))
        there = files.setdefault(hour, {})
        known = there.get(row.file_name)
        there[row.file_name] = LakeFile(
            name=row.file_name,
            bytes=row.file_size,
            rows=row["count"] + (0 if known is None else known.rows),
        )
    return {
        hour: LakeBatch(
            batch=batch,
            captured_at=captured_at,
            files=tuple(files[hour][name] for name in sorted(files[hour])),
            parts=joined_parts(found),
        )
        for hour, found in parts.items()
    }


def sources_of(manifests: Sequence[HourManifest]) -> SourceOf:
    """As the manifests have it."""
    known: Mapping[tuple[str, str], str] = {
        (manifest.hour.entity, part.generation): part.source
        for manifest in manifests
        for part in manifest.parts
    }
    return lambda entity, generation: known.get((entity, generation), entity)
