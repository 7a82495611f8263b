"""Reads DataFrames in the format `servicebus`."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from twinbus.spark.batch_reader import FilteringReader, ServiceBusReader
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.plain_error import plainly
from twinbus.spark.read_options import ReadOptions, columns_of, read_options
from twinbus.spark.schema import COLUMNS, spark_schema
from twinbus.spark.stream_reader import ServiceBusStreamReader


@plainly
def schema_of(options: Mapping[str, str]) -> StructType:
    reader = OptionReader(options)
    reader.check_no_table()
    return spark_schema(columns_of(reader))


@plainly
def batch_reader(options: Mapping[str, str], schema: StructType) -> ServiceBusReader:
    read = _with_schema(read_options(options, is_stream=False), options, schema)
    return FilteringReader(read) if read.pushes_filters else ServiceBusReader(read)


@plainly
def stream_reader(
    options: Mapping[str, str], schema: StructType
) -> ServiceBusStreamReader:
    read = _with_schema(read_options(options, is_stream=True), options, schema)
    return ServiceBusStreamReader(read)


def _with_schema(
    read: ReadOptions, options: Mapping[str, str], schema: StructType
) -> ReadOptions:
    """Read the columns of the schema: ours, or the user's choice among them, in the
    user's order. Raises OptionError."""
    names = tuple(schema.fieldNames())
    if names == read.columns:
        _check_types(schema)
        return read
    given = OptionReader(options)
    if given.text("columns") is not None or given.text("includeRaw") is not None:
        raise OptionError(
            "Name the columns once: either by .schema(...), or by the options "
            "'columns' and 'includeRaw'."
        )
    _check_types(schema)
    return replace(read, columns=names)


def _check_types(schema: StructType) -> None:
    if not schema.fields:
        raise OptionError("The schema has no columns; have at least sequence_number.")
    for field in schema.fields:
        known = COLUMNS.get(field.name)
        if known is None:
            raise OptionError(
                f"The schema has the column '{field.name}', which messages do not "
                f"have. It may have some of {', '.join(COLUMNS)}; read the body with "
                "from_json or decode."
            )
        if field.dataType != known or not field.nullable:
            raise OptionError(
                f"The schema has '{field.name}' as {field.dataType.simpleString()}"
                f"{'' if field.nullable else ' NOT NULL'}; it is "
                f"{known.simpleString()}, and may be null. Cast it after load()."
            )
    if len(set(schema.fieldNames())) < len(schema.fields):
        raise OptionError("The schema has a column twice.")
