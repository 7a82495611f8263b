"""Errors for wrong options: they show the option and the remedy, and little else."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .harness import Collected, Namespace, run_available


def told(spark: SparkSession, namespace: Namespace, /, **options: str) -> str:
    """The error that reading with these options gives."""
    given = {"credential": namespace.credential, "entities": "orders", **options}
    given = {name: value for name, value in given.items() if value}
    with pytest.raises(PySparkException) as refused:
        spark.read.format("servicebus").options(**given).load().collect()
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"maxPartitions": "many"}, "'maxPartitions' is 'many'; it must be a whole"),
        ({"columns": "bodies"}, "'columns' has 'bodies'; it must be all, header"),
        ({"settlement": "exclusive"}, "Use spark.readStream"),
        ({"entities": ""}, "Give either 'entities'"),
        ({"credential": ""}, "Give either 'credential'"),
        (
            {"credential": "env:NOT_THERE"},
            "there is no variable NOT_THERE, or it is empty",
        ),
        (
            {"maxOffsetsPerTrigger": "5"},
            "Use 'maxMessagesPerBatch'; it is",
        ),
        ({"maxMesagesPerBatch": "5"}, "Did you mean 'maxMessagesPerBatch'"),
        ({"entities": "nowhere"}, "'entities' names 'nowhere', which does not exist"),
        ({"timeout": "soon"}, "'timeout' is 'soon'; it must be a duration"),
    ],
)
def test_a_wrong_option_is_told(
    spark: SparkSession, namespace: Namespace, options: dict[str, str], text: str
) -> None:
    namespace.bus.create_queue("orders")
    message = told(spark, namespace, **options)
    assert text in message
    # One cause, not a chain of them, and nothing of how the source is made.
    assert "During handling of the above exception" not in message
    assert "The above exception was the direct cause" not in message
    assert "option_reader.py" not in message


def test_an_address_where_nobody_answers_is_told(
    spark: SparkSession, namespace: Namespace
) -> None:
    message = told(spark, namespace, namespace="http://127.0.0.1:1", timeout="1s")
    assert "http://127.0.0.1:1 did not answer within 1 s" in message
    assert "'timeout'" in message


def test_a_wrong_key_is_told(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    text = namespace.bus.connection_string.replace(namespace.bus.key, "wrong")
    namespace.secret_file.write_text(text)
    message = told(spark, namespace)
    assert "401" in message or "signature" in message.lower()
    assert "did not answer" not in message


def test_a_wrong_option_of_a_stream_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    with pytest.raises(PySparkException, match="'alignment' is 'left'; it must be one"):
        stream = namespace.stream(spark, "orders", alignment="left")
        run_available(stream, Collected(), tmp_path / "checkpoint")
