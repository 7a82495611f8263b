"""S1: filters of a query that the bus applies, where they are asked for."""

from collections.abc import Iterator
from datetime import timedelta
from functools import reduce

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThan

from twinbus.spark.batch_reader import FilteringReader
from twinbus.spark.source import batch_reader, schema_of

from .harness import Namespace

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.unset(SETTING)


def test_a_filter_finds_what_it_finds_without(
    pushing: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    for n in range(6):
        message = ServiceBusMessage(f"{n}", session_id="ab"[n % 2] if n < 4 else None)
        namespace.send("orders", [message])
        namespace.bus.advance(60)
    with namespace.receiver("orders") as receiver:
        [first] = receiver.receive_messages(1, max_wait_time=10)
        receiver.defer_message(first)
    times = [message.enqueued_time_utc for message in namespace.peek("orders")]
    at = f"timestamp'{times[3].isoformat(sep=' ')}'"  # type: ignore[union-attr]
    second = f"({at} + interval 1 microsecond)"
    wanted = {
        "sequence_number BETWEEN 2 AND 3": "12",
        f"enqueued_time > {at}": "45",
        f"enqueued_time < {second} AND state <> 'deferred'": "123",
        "session_id IN ('a', 'nobody') AND state = 'active' AND body = '2'": "2",
        "session_id IS NULL AND sequence_number >= 6": "5",
        "state = 'active' AND state = 'deferred'": "",
    }
    # A DataFrame for each filter: Spark keeps one plan for each load().
    queries = [
        namespace.read(pushing, "orders", pushFilters="true", states="active,deferred")
        .where(condition)
        .selectExpr(f"{place} AS query", "decode(body, 'UTF-8') AS body")
        for place, condition in enumerate(wanted)
    ]
    rows = reduce(DataFrame.unionAll, queries).collect()
    found = {
        condition: "".join(sorted(row.body for row in rows if row.query == place))
        for place, condition in enumerate(wanted)
    }
    assert found == wanted


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThan(("sequence_number",), 2)], "234"),
        ([GreaterThan(("sequence_number",), 100)], ""),
        ([LessThan(("sequence_number",), 0)], ""),
        ([EqualTo(("sequence_number",), (1 << 63) - 1)], ""),
        ([GreaterThan(("sequence_number",), (1 << 63) - 1)], ""),
        ([EqualTo(("state",), "deferred")], "0"),
        ([EqualTo(("session_id",), "a")], "024"),
        ([In(("session_id",), ("b", "x")), LessThan(("sequence_number",), 3)], "1"),
    ],
)
def test_a_reader_finds_what_is_left_to_it(
    namespace: Namespace, filters: list[Filter], expected: str
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send(
        "orders", [ServiceBusMessage(f"{n}", session_id="ab"[n % 2]) for n in range(5)]
    )
    with namespace.receiver("orders") as receiver:
        [first] = receiver.receive_messages(1, max_wait_time=10)
        receiver.defer_message(first)
    given = namespace.options(
        "orders", pushFilters="true", states="active,deferred", columns="body"
    )
    reader = batch_reader(given, schema_of(given))
    assert isinstance(reader, FilteringReader)
    assert reader.pushFilters(filters) == []
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    bodies = [body for batch in batches for body in batch.column(0).to_pylist()]
    assert "".join(sorted(body.decode() for body in bodies)) == expected


def test_the_plan_shows_what_is_pushed(
    pushing: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    read = namespace.read(pushing, "orders", pushFilters="true")
    chosen = read.where("sequence_number > 5 AND session_id = 's' AND subject = 'x'")
    plan = chosen._jdf.queryExecution().explainString(
        pushing._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )
    [pushed] = [line for line in plan.splitlines() if "PushedFilters" in line]
    assert "GreaterThan(sequence_number,5)" in pushed
    assert "EqualTo(session_id,s)" in pushed
    assert "subject" not in pushed


def test_without_being_asked_nothing_is_pushed(
    pushing: SparkSession, namespace: Namespace
) -> None:
    """Spark keeps one plan for each load(): with filters in it, a second query on the
    same DataFrame would miss messages. So they are pushed only where they are asked
    for."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", [f"{n}" for n in range(5)])
    read = namespace.read(pushing, "orders")
    assert read.where("sequence_number > 3").count() == 2
    assert read.count() == 5


def test_sparks_setting_has_to_be_on(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    read = namespace.read(spark, "orders", pushFilters="true")
    with pytest.raises(PySparkException, match=SETTING):
        read.count()


def test_filters_over_amqp(pushing: SparkSession, strict: Namespace) -> None:
    strict.bus.create_queue("orders")
    for n in range(4):
        strict.send("orders", [ServiceBusMessage(f"{n}", session_id="ab"[n % 2])])
        strict.bus.advance(60)
    at = strict.bus.now() - timedelta(seconds=150)
    conditions = {
        "sequence_number > 1 AND sequence_number <= 3 AND session_id = 'b'": "1",
        f"enqueued_time > timestamp'{at.isoformat(sep=' ')}'": "23",
    }
    found = {}
    for condition in conditions:
        rows = strict.read(pushing, "orders", pushFilters="true").where(condition)
        found[condition] = "".join(sorted(r.body.decode() for r in rows.collect()))
    assert found == conditions


def test_sessions_are_chosen_by_an_option(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send(
        "orders", [ServiceBusMessage(f"{n}", session_id="abc"[n % 3]) for n in range(6)]
    )
    found = namespace.read(spark, "orders", sessions="c, a", failOnDataLoss="true")
    assert sorted(row.body.decode() for row in found.collect()) == list("0235")
