"""Entities that are created, deleted and created again while a stream reads them."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from .harness import Collected, Namespace, numbered, run_available
from .running import forget_batch, last_offset, running, until


def pattern(
    spark: SparkSession, namespace: Namespace, text: str, **options: object
) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return (
        spark.readStream.format("servicebus")
        .option("credential", namespace.credential)
        .option("entityPattern", text)
        .options(settlement="exclusive", **given)
        .load()
    )


def filled(namespace: Namespace, *names: str) -> None:
    for name in names:
        namespace.bus.create_queue(name)
        namespace.send(name, numbered(f"{name}-", range(3)))


def test_an_entity_that_comes_later_joins_a_running_stream(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    filled(namespace, "q-a")
    collected = Collected()
    stream = pattern(spark, namespace, "q-*")
    with running(stream, collected, tmp_path / "checkpoint") as query:
        until(lambda: len(collected.rows) == 3, query)
        filled(namespace, "q-b")
        until(lambda: len(collected.rows) == 6, query)
        until(lambda: namespace.peek("q-b") == [], query)
    assert sorted(collected.bodies) == sorted(
        numbered("q-a-", range(3)) + numbered("q-b-", range(3))
    )


def test_an_entity_that_was_added_between_runs_is_read_from_its_begin(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    filled(namespace, "a")
    collected = Collected()
    one = namespace.stream(spark, "a", settlement="exclusive")
    run_available(one, collected, tmp_path / "checkpoint")
    filled(namespace, "b")
    both = namespace.stream(spark, "a,b", settlement="exclusive")
    run_available(both, collected, tmp_path / "checkpoint")
    assert collected.bodies[3:] == numbered("b-", range(3))
    assert namespace.peek("b") == []


def test_an_entity_that_is_not_named_any_more_is_settled_and_let_go(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """The last run was killed after its batch, so nothing is settled yet."""
    filled(namespace, "a", "b")
    checkpoint = tmp_path / "checkpoint"
    both = namespace.stream(spark, "a,b", settlement="exclusive")
    collected = Collected()
    query = (
        both.writeStream.foreachBatch(collected)
        .option("checkpointLocation", str(checkpoint))
        .trigger(once=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert len(collected.rows) == len(namespace.peek("a") + namespace.peek("b")) == 6
    one = namespace.stream(spark, "a", settlement="exclusive")
    namespace.send("a", ["later"])
    run_available(one, collected, checkpoint)
    assert collected.bodies[6:] == ["later"]
    assert namespace.peek("a") == [] == namespace.peek("b")
    assert list(last_offset(checkpoint)["entities"]) == ["a"]
    namespace.send("b", ["for receivers"])
    assert namespace.receive("b") == ["for receivers"]


@pytest.mark.parametrize("is_named", [True, False])
def test_an_entity_that_is_gone_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path, is_named: bool
) -> None:
    filled(namespace, "q-a", "q-b")

    def stream(loss: str) -> DataFrame:
        options = {"settlement": "exclusive", "failOnDataLoss": loss}
        if is_named:
            return namespace.stream(spark, "q-a,q-b", **options)
        return pattern(spark, namespace, "q-*", failOnDataLoss=loss)

    checkpoint = tmp_path / "checkpoint"
    collected = Collected()
    run_available(stream("auto"), collected, checkpoint)
    namespace.bus.delete_queue("q-b")
    namespace.send("q-a", ["later"])
    told = r"(?s)'q-b' was read .* does not exist any more.*failOnDataLoss to false"
    with pytest.raises(StreamingQueryException, match=told):
        run_available(stream("auto"), collected, checkpoint)
    assert namespace.bodies("q-a") == ["later"]
    run_available(stream("false"), collected, checkpoint)
    assert collected.bodies[6:] == ["later"]
    assert namespace.peek("q-a") == []


def test_an_entity_that_was_made_again_begins_anew(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Its numbers begin at one again, and those of the checkpoint mean nothing."""
    namespace.bus.create_queue("a")
    namespace.send("a", numbered("old", range(30)))
    checkpoint = tmp_path / "checkpoint"
    collected = Collected()

    def stream(loss: str) -> DataFrame:
        return namespace.stream(
            spark,
            "a",
            settlement="exclusive",
            failOnDataLoss=loss,
            maxMessagesPerBatch=20,
        )

    run_available(stream("auto"), collected, checkpoint)
    namespace.bus.delete_queue("a")
    namespace.bus.create_queue("a")
    namespace.send("a", numbered("new", range(50)))
    with pytest.raises(StreamingQueryException, match=r"(?s)'a' was read .*made again"):
        run_available(stream("auto"), collected, checkpoint)
    assert len(namespace.peek("a")) == 50
    run_available(stream("false"), collected, checkpoint)
    assert collected.bodies[30:] == numbered("new", range(50))
    assert namespace.peek("a") == []


def test_an_entity_made_again_under_a_running_stream_loses_nothing_new(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Spark commits the batch of before after it has planned one of the new entity."""
    filled(namespace, "q-a", "q-b")
    collected = Collected()
    stream = pattern(
        spark, namespace, "q-*", failOnDataLoss="false", maxMessagesPerBatch=4
    )
    with running(stream, collected, tmp_path / "checkpoint") as query:
        until(lambda: namespace.peek("q-b") == [] and len(collected.rows) == 6, query)
        namespace.bus.delete_queue("q-b")
        namespace.bus.create_queue("q-b")
        namespace.send("q-b", numbered("new", range(20)))
        until(lambda: len(collected.rows) >= 26, query)
        until(lambda: namespace.peek("q-b") == [], query)
    assert collected.bodies[6:] == numbered("new", range(20))


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_batch_that_cannot_be_read_again_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path, is_made_again: bool
) -> None:
    """Killed within a batch, and the entity is gone when the query comes back."""
    filled(namespace, "a", "b")
    checkpoint = tmp_path / "checkpoint"
    strict = namespace.stream(spark, "a,b", settlement="exclusive")
    run_available(strict, Collected(), checkpoint)
    namespace.send("a", ["more"])
    namespace.send("b", ["lost"])
    run_available(strict, Collected(), checkpoint)
    forget_batch(checkpoint, "commits", 1)
    namespace.bus.delete_queue("b")
    if is_made_again:
        namespace.bus.create_queue("b")
        namespace.send("b", ["new"])
    told = r"(?s)'b' was read by a batch .*failOnDataLoss to false"
    with pytest.raises(StreamingQueryException, match=told):
        run_available(strict, Collected(), checkpoint)
    loose = namespace.stream(
        spark, "a,b", settlement="exclusive", failOnDataLoss="false"
    )
    collected = Collected()
    namespace.send("a", ["later"])
    run_available(loose, collected, checkpoint)
    assert sorted(collected.bodies) == (
        ["later", "new"] if is_made_again else ["later"]
    )


def test_a_name_that_never_was_there_is_told_whatever_the_options(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    filled(namespace, "a")
    namespace.bus.create_topic("events")
    for name in ("b", "events"):
        stream = namespace.stream(
            spark, f"a,{name}", settlement="exclusive", failOnDataLoss="false"
        )
        told = f"(?s)'entities' names '{name}', which does not exist .*subscription"
        with pytest.raises(StreamingQueryException, match=told):
            run_available(stream, Collected(), tmp_path / name)
