"""Columns of messages as Arrow.

`pyarrow` is optional and slow to import, so it is imported when a request needs it.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

# Columns of an answer, in their order, with the names of their Arrow types.
TYPES: Final[Mapping[str, str]] = {
    "entity": "string",
    "subqueue": "string",
    "partition": "int32",
    "sequence_number": "int64",
    "enqueued_time": "instant",
    "message_id": "string",
    "session_id": "string",
    "partition_key": "string",
    "correlation_id": "string",
    "subject": "string",
    "to": "string",
    "reply_to": "string",
    "reply_to_session_id": "string",
    "content_type": "string",
    "time_to_live_ms": "int64",
    "scheduled_time": "instant",
    "expires_at": "instant",
    "delivery_count": "int32",
    "state": "string",
    "dead_letter_source": "string",
    "dead_letter_reason": "string",
    "dead_letter_description": "string",
    "application_properties": "texts",
    "application_property_types": "texts",
    "body": "binary",
    "amqp_types": "texts",
    "size_bytes": "int32",
    "raw": "binary",
}

CONSTANT: Final = ("entity", "subqueue", "partition")
"""Columns with the same value for all messages of a range."""


@cache
def is_available() -> bool:
    return find_spec("pyarrow") is not None


@cache
def _types() -> "dict[str, pa.DataType]":
    import pyarrow as pa

    return {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "instant": pa.timestamp("us", tz="UTC"),
        "texts": pa.map_(pa.string(), pa.string()),
        "binary": pa.binary(),
    }


class MessageStream:
    """Builds an IPC stream of messages: the schema, and a record batch for each
    portion."""

    def __init__(self, columns: Collection[str], constants: Mapping[str, object]):
        import pyarrow as pa

        types = _types()
        names = [name for name in TYPES if name in columns]
        self._schema = pa.schema([(name, types[TYPES[name]]) for name in names])
        self._constants = {
            name: pa.scalar(constants[name], types[TYPES[name]])
            for name in names
            if name in constants
        }
        self._sink = pa.BufferOutputStream()
        self._writer = pa.ipc.new_stream(self._sink, self._schema)

    def add(self, columns: Mapping[str, Sequence[object]], count: int) -> None:
        import pyarrow as pa

        if not count:
            return
        arrays = [
            pa.repeat(self._constants[field.name], count)
            if field.name in self._constants
            else pa.array(columns[field.name], type=field.type)
            for field in self._schema
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def finish(self) -> bytes:
        self._writer.close()
        encoded: bytes = self._sink.getvalue().to_pybytes()
        return encoded
