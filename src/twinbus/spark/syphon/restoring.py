"""What Spark does for the job: sending a batch in order, and reading what is deferred.

Both are plans over DataFrames; what is decided in them is in `preparing` and
`appending`.
"""

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit, max, min
from pyspark.sql.pandas.functions import arrow_udf

from twinbus.spark.syphon import preparing, verdicts
from twinbus.spark.syphon.appending import COLUMNS, Appending
from twinbus.spark.syphon.backlog import Bounds, Look
from twinbus.spark.syphon.errors import SideAway
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.parked import ParkedSpan
from twinbus.spark.syphon.preparing import SOURCE_COLUMNS, Preparation
from twinbus.spark.syphon.verdicts import Fate, QueueVerdict, of_fate, read_verdicts

_ORDER: Final = ("entity", "lane", "enqueued_at", "queue", "number")
_KNOWN: Final = ("queue", "number", "is_deferred", "path")
"""What is said of a message beside what a task tells."""


class Restoring:
    """Of one run."""

    def __init__(
        self, spark: SparkSession, options: SyphonOptions, secondary_name: str
    ) -> None:
        self._spark = spark
        self._options = options
        self._secondary_name = secondary_name

    def new(self, rows: DataFrame, look: Look) -> DataFrame:
        """The messages of a batch, as they are to be sent."""
        return self._prepared(rows, look).withColumn("is_deferred", lit(False))

    def returning(
        self, bounds: Bounds, entities: Collection[str], look: Look
    ) -> DataFrame:
        """The deferred messages of these entities, as they are to be sent."""
        return (
            self._prepared(self.deferred(bounds), look)
            .where(col("entity").isin(*entities))
            .withColumn("is_deferred", lit(True))
        )

    def restore(
        self, messages: Sequence[DataFrame], closed: Collection[str]
    ) -> list[QueueVerdict]:
        """Send messages, those of a session in their order wherever they come from,
        but not to entities that are closed. Raises SideAway."""
        prepared = reduce(DataFrame.unionAll, messages)
        appending = Appending(
            primary=self._options.connection("primary"),
            patience_ms=self._options.timeout_ms,
            closed=frozenset(closed),
        )
        append = _udf(appending.columns, verdicts.SCHEMA)
        told = (
            prepared.repartition(self._partitions(), "entity", "lane")
            .sortWithinPartitions(*_ORDER)
            .select(*_KNOWN, append(*COLUMNS).alias("told"))
            .select(*_KNOWN, "told.*")
        )
        found = read_verdicts(told.toArrow())
        for verdict in of_fate(found, Fate.AWAY):
            raise SideAway(verdict.description)
        return found

    def _prepared(self, rows: DataFrame, look: Look) -> DataFrame:
        preparation = Preparation(
            secondary_name=self._secondary_name,
            generations={path: queue.created_at for path, queue in look.items()},
            cover=self._options.cover,
            counts_backlog=self._options.counts_backlog,
        )
        prepare = _udf(preparation.column, preparing.SCHEMA)
        return rows.select(
            col("entity").alias("queue"),
            col("sequence_number").alias("number"),
            prepare(*SOURCE_COLUMNS).alias("prepared"),
        ).select("queue", "number", "prepared.*")

    def _partitions(self) -> int:
        return 2 * self._spark.sparkContext.defaultParallelism

    def deferred(self, bounds: Bounds) -> DataFrame:
        """The deferred messages between these numbers."""
        options = self._options
        parts = [
            self._spark.read.format("servicebus")
            .options(
                credential=options.secondary,
                entities=path,
                states="deferred",
                fromSequence=str(first),
                toSequence=str(last),
                columns=",".join(SOURCE_COLUMNS),
                timeout=f"{options.timeout_ms}ms",
            )
            .load()
            for path, (first, last) in bounds.items()
        ]
        return reduce(DataFrame.unionAll, parts)

    def spans(self, bounds: Bounds) -> list[ParkedSpan]:
        """Whose they are."""
        if not bounds:
            return []
        path_of = _udf(preparing.paths_of, "string")
        found = (
            self.deferred(bounds)
            .select("entity", "sequence_number", path_of("raw").alias("path"))
            .groupBy("entity", "path")
            .agg(
                min("sequence_number").alias("first"),
                max("sequence_number").alias("last"),
                count("*").alias("messages"),
            )
        )
        return [
            ParkedSpan(row.entity, row.path, row["first"], row["last"], row.messages)
            for row in found.collect()
        ]


def _udf(function: Callable[..., Any], schema: str) -> Callable[..., Column]:
    """Over columns of Arrow, which of them its annotations say. What a task does must
    neither be done twice nor be moved before the order is made."""
    make: Any = arrow_udf
    made: Callable[..., Column] = make(function, schema).asNondeterministic()
    return made
