"""The columns of a message, for Spark and for Arrow.

Both are made from one table, because Spark compares the columns that a source yields
with its schema exactly.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

RAW: Final = "raw"
"""The whole message as AMQP bytes: the one form that loses nothing."""

PROPERTIES: Final = "application_properties"
PROPERTY_TYPES: Final = "application_property_types"
"""The AMQP types of application properties that are not strings."""

AMQP_TYPES: Final = "amqp_types"
"""The AMQP types of ids that are not strings, and of bodies that are not data."""

BODY_COLUMNS: Final = (PROPERTIES, PROPERTY_TYPES, "body", AMQP_TYPES)

TYPES_NOTE: Final = "servicebus.types"
"""Metadata of a column: which other column has the types of its values. Spark keeps it
as long as the column is passed on unchanged."""

_TEXTS: Final = MapType(StringType(), StringType(), True)

COLUMNS: Final[dict[str, DataType]] = {
    "entity": StringType(),
    "subqueue": StringType(),
    "partition": IntegerType(),
    "sequence_number": LongType(),
    "enqueued_time": TimestampType(),
    "message_id": StringType(),
    "session_id": StringType(),
    "partition_key": StringType(),
    "correlation_id": StringType(),
    "subject": StringType(),
    "to": StringType(),
    "reply_to": StringType(),
    "reply_to_session_id": StringType(),
    "content_type": StringType(),
    "time_to_live_ms": LongType(),
    "scheduled_time": TimestampType(),
    "expires_at": TimestampType(),
    "delivery_count": IntegerType(),
    "state": StringType(),
    "dead_letter_source": StringType(),
    "dead_letter_reason": StringType(),
    "dead_letter_description": StringType(),
    PROPERTIES: _TEXTS,
    PROPERTY_TYPES: _TEXTS,
    "body": BinaryType(),
    AMQP_TYPES: _TEXTS,
    "size_bytes": IntegerType(),
    RAW: BinaryType(),
}


def spark_schema(columns: Sequence[str]) -> StructType:
    return StructType(
        [StructField(name, COLUMNS[name], True, _metadata(name)) for name in columns]
    )


def _metadata(name: str) -> dict[str, str] | None:
    return {TYPES_NOTE: PROPERTY_TYPES} if name == PROPERTIES else None


@cache
def arrow_schema(columns: tuple[str, ...]) -> "pa.Schema":
    """What Spark expects of a source with these columns."""
    import pyarrow as pa

    types = {
        StringType: pa.string(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        TimestampType: pa.timestamp("us", tz="UTC"),
        BinaryType: pa.binary(),
        MapType: pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(name, types[type(COLUMNS[name])]) for name in columns])
