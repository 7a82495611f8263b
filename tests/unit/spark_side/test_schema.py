"""The columns of a message are the same for Spark, for Arrow and for the bus."""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from twinbus.doors.http.bulk import arrow
from twinbus.spark.schema import COLUMNS, RAW, arrow_schema, spark_schema

ALL = tuple(COLUMNS)


def test_arrow_is_what_spark_makes_of_the_schema() -> None:
    """Spark compares exactly: time zones, widths, nullability, names within maps."""
    expected = to_arrow_schema(spark_schema(ALL), timezone="UTC")
    assert arrow_schema(ALL).equals(expected)
    assert [field.nullable for field in arrow_schema(ALL)] == [True] * len(ALL)


def test_the_bus_answers_with_these_columns_in_this_order() -> None:
    empty = arrow.MessageStream(ALL, {}).finish()
    with pa.ipc.open_stream(empty) as stream:
        assert stream.schema.equals(arrow_schema(ALL))


def test_some_columns_are_some_fields() -> None:
    some = ("entity", "sequence_number", RAW)
    assert spark_schema(some).names == list(some)
    assert arrow_schema(some).names == list(some)
