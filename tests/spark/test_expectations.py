"""S1: what users of Structured Streaming and of SQL expect of a source."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.source import batch_reader, schema_of

from .harness import Collected, Namespace, numbered, run_available


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Of the only source, batch by batch."""
    found = [json.loads(one.json)["sources"] for one in query.recentProgress]
    return [source for [source] in found]


@pytest.mark.parametrize("settlement", ["browse", "exclusive"])
def test_progress_shows_the_backlog(
    spark: SparkSession, namespace: Namespace, tmp_path: Path, settlement: str
) -> None:
    for name in ("orders", "billing"):
        namespace.bus.create_queue(name)
    namespace.send("orders", numbered("o", range(10)))
    namespace.send("billing", numbered("b", range(2)))
    stream = namespace.stream(
        spark,
        "orders,billing",
        settlement=settlement,
        maxMessagesPerBatch=4,
        columns="sequence_number",
    )
    query = run_available(stream, Collected(), tmp_path / "checkpoint")
    batches = [one for one in progress(query) if one["numInputRows"]]
    backlogs = [one["latestOffset"]["backlog"] for one in batches]
    read = [sum(one["numInputRows"] for one in batches[: at + 1]) for at in range(4)]
    assert [12 - count for count in read[: len(backlogs)]] == backlogs
    assert backlogs[-1] == 0
    [last] = [one["latestOffset"] for one in batches[-1:]]
    assert last["entities"] == {
        "orders": {"backlog": 0, "next": {"0": 11}},
        "billing": {"backlog": 0, "next": {"0": 3}},
    }


def test_progress_shows_the_backlog_over_amqp(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(5)))
    stream = strict.stream(spark, "orders", maxMessagesPerBatch=3)
    query = run_available(stream, Collected(), tmp_path / "checkpoint")
    batches = [one for one in progress(query) if one["numInputRows"]]
    assert [one["latestOffset"]["backlog"] for one in batches] == [2, 0]


def test_a_schema_chooses_columns(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one", "two"])

    def read(schema: str, **options: str) -> Any:
        given = namespace.options("orders", **options)
        return spark.read.format("servicebus").options(**given).schema(schema).load()

    found = read("body binary, sequence_number bigint")
    # In the order of the schema.
    assert found.collect() == [
        Row(body=b"one", sequence_number=1),
        Row(body=b"two", sequence_number=2),
    ]
    assert read("sequence_number bigint").count() == 2
    refusals = {
        "bodies binary": "has the column 'bodies', which messages do not have",
        "body string": "has 'body' as string; it is binary",
        "body binary NOT NULL": "as binary NOT NULL; it is binary",
    }
    for schema, text in refusals.items():
        with pytest.raises(PySparkException, match=text):
            read(schema).collect()
    with pytest.raises(PySparkException, match="Name the columns once"):
        read("body binary", columns="header").collect()


def test_columns_that_are_not_wanted_are_not_moved(namespace: Namespace) -> None:
    """Bodies of ten kilobytes, and the bytes of the answers."""
    namespace.bus.create_queue("orders")
    namespace.append([("orders", "x" * 10_000)] * 30)
    moved = {}
    for columns in ("all", "sequence_number"):
        given = namespace.options("orders", columns=columns)
        reader = batch_reader(given, schema_of(given))
        batches = [b for part in reader.partitions() for b in reader.read(part)]
        assert sum(batch.num_rows for batch in batches) == 30
        moved[columns] = sum(batch.nbytes for batch in batches)
    assert moved["all"] > 300_000
    assert moved["sequence_number"] < 1_000


def test_a_frame_has_the_messages_of_its_first_action(
    spark: SparkSession, namespace: Namespace
) -> None:
    """Spark plans once for each load(), and so all actions see the same."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    found = namespace.read(spark, "orders", columns="body")
    assert found.count() == 1
    namespace.send("orders", ["two"])
    assert found.count() == 1
    assert namespace.read(spark, "orders", columns="body").count() == 2


def test_an_old_plan_tells_that_there_are_newer_messages(
    namespace: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("orders", "quiet"):
        namespace.bus.create_queue(name)
    given = namespace.options("orders,quiet", columns="body")
    reader = batch_reader(given, schema_of(given))
    # Nothing is there, and still one task looks.
    [part] = reader.partitions()
    assert isinstance(part, RangePartition)
    age = part._planned
    assert age is not None

    def told(now: int) -> list[str]:
        caplog.clear()
        client = BulkClient(part._connection, 60_000)
        with caplog.at_level(logging.WARNING):
            age.tell_if_old(client, now)
        client.close()
        return [record.getMessage() for record in caplog.records]

    later = age.planned_at + 10_000
    assert told(later) == []
    namespace.send("orders", ["new"])
    assert told(age.planned_at + 9_999) == []
    [text] = told(later)
    assert "'orders' has newer ones (1 of 2 entities do): load() again" in text
    assert [batch for batch in reader.read(part)] == []


def test_sql_reads_by_a_temporary_view(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    options = f"OPTIONS (credential '{namespace.credential}', entities 'orders')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW sb USING servicebus {options}")
    [row] = spark.sql("SELECT decode(body, 'UTF-8') AS text FROM sb").collect()
    assert row.text == "one"
    spark.catalog.dropTempView("sb")


def test_a_table_of_the_catalog_is_refused(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    options = f"OPTIONS (credential '{namespace.credential}', entities 'orders')"
    for statement in (
        f"CREATE TABLE sb USING servicebus {options}",
        f"CREATE TABLE sb USING servicebus {options} AS SELECT 'x' AS body",
    ):
        with pytest.raises(PySparkException, match="Use CREATE TEMPORARY VIEW"):
            spark.sql(statement)
        assert not spark.catalog.tableExists("sb")
    # With columns, Spark asks nobody; then nothing can be done with it.
    spark.sql(f"CREATE TABLE sb (body BINARY) USING servicebus {options}")
    for statement in ("SELECT * FROM sb", "INSERT INTO sb VALUES (X'00')"):
        with pytest.raises(PySparkException, match="Use CREATE TEMPORARY VIEW"):
            spark.sql(statement).collect()
    spark.sql("DROP TABLE sb")
