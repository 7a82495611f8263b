"""The body of an append: an Arrow IPC stream of entities and encoded messages.

It is read message by message, and checked before it is used. A compressed body is
refused unread, because it could decompress to any size. Dictionaries are refused, too:
they are not needed here. So are versions of the format before the fifth, which mark
compression in another place. Other tasks run after each record batch: there may be
thousands without a row.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from twinbus.errors import ArgumentError
from twinbus.limits import BULK_APPEND_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA: Final = "schema"
_RECORD_BATCH: Final = "record batch"

_SCHEMA_BYTES: Final = 16 * 1024
"""Enough for a few hundred columns. Each record batch costs time for all of them,
although only two are read."""

# Indexes of fields in the tables of Arrow's Message.fbs.
_HEADER_OF_MESSAGE: Final = 2
_COMPRESSION_OF_RECORD_BATCH: Final = 3


async def decode_append(body: bytes) -> tuple[list[str], list[bytes]]:
    """Entities and encoded messages. Raises ArgumentError."""
    import pyarrow as pa

    try:
        return await _decode(body)
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise ArgumentError(
            "The body is not an Arrow IPC stream with the columns 'entity' (string) "
            f"and 'message' (binary): {str(error)[:200]}"
        ) from None


def encode_append(entities: Sequence[str], messages: Sequence[bytes]) -> bytes:
    """The body of an append of these rows."""
    import pyarrow as pa

    batch = pa.record_batch(
        [pa.array(entities, pa.string()), pa.array(messages, pa.binary())],
        names=["entity", "message"],
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


async def _decode(body: bytes) -> tuple[list[str], list[bytes]]:
    import pyarrow as pa

    stream = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
    schema = _schema(next(stream, None))
    entities: list[str] = []
    messages: list[bytes] = []
    for message in stream:
        _check_plain(message)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate()
        _check_rows(len(entities) + batch.num_rows)
        entities += _values(batch.column("entity"))
        messages += _values(batch.column("message"))
        await asyncio.sleep(0)
    return entities, messages


def _schema(message: "pa.ipc.Message | None") -> "pa.Schema":
    import pyarrow as pa

    if message is None or message.type != _SCHEMA:
        raise ValueError("it does not begin with a schema")
    if message.metadata.size > _SCHEMA_BYTES:
        raise ArgumentError(
            f"The schema has {message.metadata.size} bytes; at most {_SCHEMA_BYTES} "
            "are allowed. Send 'entity' and 'message' alone."
        )
    schema = pa.ipc.read_schema(message)
    for name, wanted in (("entity", pa.string()), ("message", pa.binary())):
        found = [field.type for field in schema if field.name == name]
        if len(found) != 1:
            raise ValueError(f"it has {len(found)} columns '{name}'")
        if found[0] != wanted:
            raise ArgumentError(
                f"'{name}' must be of type {wanted}; it is {str(found[0])[:60]}."
            )
    return schema


def _check_plain(message: "pa.ipc.Message") -> None:
    import pyarrow as pa

    if message.type != _RECORD_BATCH:
        raise ArgumentError(
            f"The body has a message of type '{message.type}'. Send plain record "
            "batches, without dictionaries."
        )
    if message.metadata_version < pa.ipc.MetadataVersion.V5:
        raise ArgumentError(
            "The body has a version of Arrow IPC before the fifth. Write it with "
            "Arrow 1.0 or later."
        )
    if _is_compressed(message.metadata.to_pybytes()):
        raise ArgumentError("The body is compressed. Send it uncompressed.")


def _is_compressed(metadata: bytes) -> bool:
    """Read the metadata of a record batch, which Arrow has verified."""
    root = _number(metadata, 0, 4)
    header = _field(metadata, root, _HEADER_OF_MESSAGE)
    batch = header + _number(metadata, header, 4)
    return _field(metadata, batch, _COMPRESSION_OF_RECORD_BATCH) != 0


def _field(buffer: bytes, table: int, index: int) -> int:
    """Position of a field in a flatbuffer table; 0 if it is missing."""
    directory = table - int.from_bytes(buffer[table : table + 4], "little", signed=True)
    slot = 4 + 2 * index
    if slot >= _number(buffer, directory, 2):
        return 0
    offset = _number(buffer, directory + slot, 2)
    return table + offset if offset else 0


def _number(buffer: bytes, at: int, size: int) -> int:
    return int.from_bytes(buffer[at : at + size], "little")


def _check_rows(count: int) -> None:
    if count > BULK_APPEND_ROWS:
        raise ArgumentError(
            f"The append has {count} rows or more; at most {BULK_APPEND_ROWS} are "
            "allowed. Send them in several requests."
        )


def _values(column: "pa.Array") -> list[Any]:
    column.validate(full=True)
    if column.null_count:
        raise ArgumentError("'entity' and 'message' must not be null in any row.")
    found: list[Any] = column.to_pylist()
    return found
