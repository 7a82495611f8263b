"""S1: rows with ids (`idColumn`) that are sent again arrive once."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from .harness import Namespace, numbered
from .writing import rows, write

IDS = {"idColumn": "id"}


def last_words() -> type[DataSource]:
    """The format, with tasks that send all their rows and then fail, at their first
    attempt. Made here because workers do not know this module."""

    class LastWords(DataSource):
        @classmethod
        def name(cls) -> str:
            return "servicebus_failing"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            from pyspark import TaskContext

            from twinbus.spark.sink import ServiceBusWriter, batch_writer

            class Failing(ServiceBusWriter):
                def write(self, iterator: "Iterator[Any]") -> "Any":
                    written = super().write(iterator)
                    context = TaskContext.get()
                    assert context is not None
                    if context.attemptNumber() == 0:
                        raise RuntimeError("these were my last words")
                    return written

            return Failing(batch_writer(self.options, schema, overwrite)._plan)

    return LastWords


def counts(namespace: Namespace, entity: str) -> Counter[str]:
    return Counter(str(m) for m in namespace.peek(entity, count=10_000))


def numbered_rows(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    frame = rows(spark, [(f"r{i}", f"id{i}") for i in range(count)], _SCHEMA)
    return frame.repartition(partitions)


_SCHEMA = "body string, id string"


@pytest.mark.parametrize("options", [IDS, {}], ids=["with ids", "without"])
def test_a_task_that_had_sent_and_is_tried_again(
    spark: SparkSession, namespace: Namespace, options: dict[str, str]
) -> None:
    namespace.bus.create_queue("orders")
    spark.dataSource.register(last_words())
    frame = numbered_rows(spark, 200, 2)
    (
        (frame if options else frame.drop("id"))
        .write.format("servicebus_failing")
        .option("credential", namespace.credential)
        .option("entity", "orders")
        .options(**options)
        .mode("append")
        .save()
    )
    found = counts(namespace, "orders")
    assert len(found) == 200
    # Without ids it is at least once, and the second attempt shows.
    assert set(found.values()) == ({1} if options else {2})


def test_two_tasks_that_send_the_same_rows_at_the_same_time(
    spark: SparkSession, namespace: Namespace
) -> None:
    """As a task and its speculative copy do."""
    namespace.bus.create_queue("orders")
    same = functions.expr("explode(sequence(0, 1999))").alias("number")
    number = functions.col("number").cast("string")
    both = (
        spark.range(0, 2, numPartitions=2)
        .select(same)
        .select(number.alias("body"), number.alias("id"))
    )
    assert both.rdd.getNumPartitions() == 2
    write(namespace, both, entity="orders", maxBytesPerRequest="4k", **IDS)
    found = counts(namespace, "orders")
    assert len(found) == 2000 and set(found.values()) == {1}


def test_a_job_that_is_run_again_sends_what_is_new(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    write(namespace, numbered_rows(spark, 50, 2), entity="orders", **IDS)
    namespace.bus.restart()
    write(namespace, numbered_rows(spark, 60, 3), entity="orders", **IDS)
    assert set(counts(namespace, "orders").values()) == {1}
    assert len(counts(namespace, "orders")) == 60


def test_another_scope_or_entity_is_another_use(
    spark: SparkSession, namespace: Namespace
) -> None:
    for queue in ("orders", "billing"):
        namespace.bus.create_queue(queue)
    frame = numbered_rows(spark, 5, 1)
    write(namespace, frame, entity="orders", **IDS)
    write(namespace, frame, entity="billing", **IDS)
    write(namespace, frame, entity="orders", idScope="reminders", **IDS)
    assert set(counts(namespace, "orders").values()) == {2}
    assert set(counts(namespace, "billing").values()) == {1}


def test_whole_messages_have_ids_too(spark: SparkSession, namespace: Namespace) -> None:
    for queue in ("orders", "copies"):
        namespace.bus.create_queue(queue)
    namespace.send(
        "orders", [ServiceBusMessage(f"{i}", message_id=f"{i}") for i in range(20)]
    )
    read = namespace.read(spark, "orders", columns="raw,message_id")
    for _ in range(2):
        write(namespace, read, entity="copies", idColumn="message_id")
    assert len(counts(namespace, "copies")) == 20
    assert set(counts(namespace, "copies").values()) == {1}


def copy_stream(
    spark: SparkSession, namespace: Namespace, checkpoint: Path, **options: str
) -> StreamingQuery:
    """Copy what is in `orders` to `copies`, and wait for the end of it."""
    stream = namespace.stream(spark, "orders", maxMessagesPerBatch=40)
    query: StreamingQuery = (
        stream.writeStream.format("servicebus")
        .option("credential", namespace.credential)
        .option("entity", "copies")
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    assert not query.isActive and query.exception() is None
    return query


@pytest.mark.parametrize("has_ids", [True, False], ids=["with ids", "without"])
def test_a_stream_whose_last_commit_is_lost_sends_its_batch_again(
    spark: SparkSession, namespace: Namespace, tmp_path: Path, has_ids: bool
) -> None:
    for queue in ("orders", "copies"):
        namespace.bus.create_queue(queue)
    namespace.send(
        "orders",
        [ServiceBusMessage(body, message_id=body) for body in numbered("", range(100))],
    )
    checkpoint = tmp_path / "checkpoint"
    options = {"idColumn": "message_id"} if has_ids else {}
    copy_stream(spark, namespace, checkpoint, **options)
    assert len(namespace.peek("copies")) == 100
    _forget_last_commit(checkpoint)
    copy_stream(spark, namespace, checkpoint, **options)
    found = counts(namespace, "copies")
    assert len(found) == 100
    assert sum(found.values()) == (100 if has_ids else 120)


def _forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had been killed between the sink and the commit log."""
    commits = sorted(
        (entry for entry in (checkpoint / "commits").iterdir() if entry.name.isdigit()),
        key=lambda entry: int(entry.name),
    )
    assert len(commits) == 3
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
