"""Shared parts of the tests of writing."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from .harness import Namespace


def rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    """A DataFrame with its rows in one partition, in this order."""
    return spark.createDataFrame(list(rows), schema).coalesce(1)


def writer(
    namespace: Namespace, frame: DataFrame, options: dict[str, object]
) -> DataFrameWriter:
    given = {name: str(value) for name, value in options.items()}
    return (
        frame.write.format("servicebus")
        .option("credential", namespace.credential)
        .options(**given)
        .mode("append")
    )


def write(namespace: Namespace, frame: DataFrame, **options: object) -> None:
    writer(namespace, frame, options).save()


def refusal(namespace: Namespace, frame: DataFrame, **options: object) -> str:
    """What a write that must fail says, on one line."""
    with pytest.raises(PySparkException) as caught:
        write(namespace, frame, **options)
    text = str(caught.value)
    assert namespace.bus.key not in text
    return " ".join(text.split())
