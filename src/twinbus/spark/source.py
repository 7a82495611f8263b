"""Reads DataFrames in the format `servicebus`."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from twinbus.spark.batch_reader import ServiceBusReader
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.plain_error import plainly
from twinbus.spark.read_options import columns_of, read_options
from twinbus.spark.schema import spark_schema
from twinbus.spark.stream_reader import ServiceBusStreamReader


@plainly
def schema_of(options: Mapping[str, str]) -> StructType:
    return spark_schema(columns_of(OptionReader(options)))


@plainly
def batch_reader(options: Mapping[str, str], schema: StructType) -> ServiceBusReader:
    read = read_options(options, is_stream=False)
    _check_schema(schema, read.columns)
    return ServiceBusReader(read)


@plainly
def stream_reader(
    options: Mapping[str, str], schema: StructType
) -> ServiceBusStreamReader:
    read = read_options(options, is_stream=True)
    _check_schema(schema, read.columns)
    return ServiceBusStreamReader(read)


def _check_schema(schema: StructType, columns: tuple[str, ...]) -> None:
    """Raises OptionError for a user's schema that is not that of the format."""
    if schema != spark_schema(columns):
        raise OptionError(
            "The format servicebus has a schema of its own: leave .schema(...) out, "
            "and choose columns with the option 'columns'."
        )
