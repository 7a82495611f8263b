"""The body of an append: an Arrow IPC stream of entities and encoded messages.

It is read message by message, and nothing of it is believed before it is checked. A
compressed one is refused unread: it could unfold to any size. So are dictionaries,
which nothing needs here, and versions of the format before the fifth, which had another
place to say that they are compressed. Others have their turn after every record batch:
there may be thousands without a row.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from twinbus.errors import ArgumentError
from twinbus.limits import BULK_APPEND_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA: Final = "schema"
_RECORD_BATCH: Final = "record batch"

_SCHEMA_BYTES: Final = 16 * 1024
"""A few hundred columns, of which two are read; every record batch costs for all."""

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
            "The body is of a version of Arrow IPC before the fifth. Write it with "
            "Arrow 1.0 or later."
        )
    if _is_compressed(message.metadata.to_pybytes()):
        raise ArgumentError("The body is compressed. Send it uncompressed.")


def _is_compressed(metadata: bytes) -> bool:
    """Of the metadata of a record batch, which Arrow has verified."""
    root = _number(metadata, 0, 4)
    header = _field(metadata, root, _HEADER_OF_MESSAGE)
    batch = header + _number(metadata, header, 4)
    return _field(metadata, batch, _COMPRESSION_OF_RECORD_BATCH) != 0


def _field(buffer: bytes, table: int, index: int) -> int:
    """Where a field of a table of a flatbuffer is; 0 if it is not there."""
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
