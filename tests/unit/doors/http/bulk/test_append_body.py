"""Bodies of appends: what is read, and what is refused before reading."""

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus import limits
from twinbus.doors.http.bulk.append_body import decode_append
from twinbus.errors import ArgumentError

SCHEMA = pa.schema([("entity", pa.string()), ("message", pa.binary())])
Rows = list[tuple[str, bytes]]


def stream(*batches: Rows, schema: pa.Schema = SCHEMA, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(**how)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for rows in batches:
            columns = [[row[0] for row in rows], [row[1] for row in rows]]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue().to_pybytes())


def decoded(body: bytes) -> tuple[list[str], list[bytes]]:
    return asyncio.run(decode_append(body))


@given(st.lists(st.lists(st.tuples(st.text(), st.binary())), max_size=4))
def test_rows_come_out_as_they_went_in(batches: list[Rows]) -> None:
    rows = [row for batch in batches for row in batch]
    entities, messages = decoded(stream(*batches))
    assert list(zip(entities, messages, strict=True)) == rows


@given(st.binary(max_size=2_000))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(ArgumentError, match="Arrow IPC stream"):
        decoded(body)


@given(st.data())
def test_damage_is_noticed_or_harmless(data: st.DataObject) -> None:
    """Whatever is changed: lists of equal length, or an error that is told."""
    body = bytearray(stream([("orders", b"x" * 20)] * 5, [("o", b"")]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    try:
        entities, messages = decoded(bytes(body))
    except ArgumentError:
        return
    assert len(entities) == len(messages)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_compression_is_seen_before_it_is_undone(compression: str, size: int) -> None:
    """Also in a batch behind a plain one, and where there is nothing to gain."""
    body = stream([("orders", bytes(size))], compression=compression)
    with pytest.raises(ArgumentError, match="compressed"):
        decoded(body)
    plain = stream([("orders", bytes(size))])
    assert decoded(plain) == (["orders"], [bytes(size)])


def hidden_compression(body: bytes) -> bytes:
    """The batch as Arrow 0.17 compressed it: its own field does not say so, and the
    metadata of its message, which the fifth version does not ask, does."""
    table = pa.ipc.open_stream(body).read_all()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(
        metadata_version=pa.ipc.MetadataVersion.V4, compression="zstd"
    )
    said = {"ARROW:experimental_compression": "zstd"}
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata=said)
    return without_compression_field(sink.getvalue().to_pybytes())


def without_compression_field(body: bytes) -> bytes:
    """Its place in the table of fields (Message.fbs) is emptied."""
    stream = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    metadata = list(stream)[1].metadata.to_pybytes()
    message = int.from_bytes(metadata[:4], "little")
    header = message + field_offset(metadata, message, 2)
    batch = header + int.from_bytes(metadata[header : header + 4], "little")
    slot = field_slot(metadata, batch, 3)
    emptied = metadata[:slot] + bytes(2) + metadata[slot + 2 :]
    assert emptied != metadata
    return body.replace(metadata, emptied)


def field_slot(buffer: bytes, table: int, index: int) -> int:
    back = int.from_bytes(buffer[table : table + 4], "little", signed=True)
    return table - back + 4 + 2 * index


def field_offset(buffer: bytes, table: int, index: int) -> int:
    slot = field_slot(buffer, table, index)
    return int.from_bytes(buffer[slot : slot + 2], "little")


def test_compression_of_old_is_seen_as_well() -> None:
    body = hidden_compression(stream([("orders", bytes(1_000_000))]))
    assert len(body) < 2_000
    assert pa.ipc.open_stream(body).read_all().nbytes > 1_000_000
    with pytest.raises(ArgumentError, match="before the fifth"):
        decoded(body)


def test_a_wide_schema_is_refused_unread() -> None:
    many = [(f"column {number}", pa.null()) for number in range(1_000)]
    with pytest.raises(ArgumentError, match="'entity' and 'message' alone"):
        decoded(stream(schema=pa.schema([*SCHEMA, *many])))


def test_batches_without_rows_leave_others_their_turns() -> None:
    async def turns() -> int:
        decoding = asyncio.ensure_future(decode_append(stream(*[[]] * 1_000)))
        count = 0
        while not decoding.done():
            await asyncio.sleep(0)
            count += 1
        assert decoding.result() == ([], [])
        return count

    assert asyncio.run(turns()) >= 1_000


def test_rows_of_all_batches_are_counted() -> None:
    batch = [("o", b"")] * (limits.BULK_APPEND_ROWS // 2)
    entities, _ = decoded(stream(batch, batch))
    assert len(entities) == limits.BULK_APPEND_ROWS
    with pytest.raises(ArgumentError, match="at most 50000"):
        decoded(stream(batch, batch, [("o", b"")]))


def test_dictionaries_are_refused() -> None:
    kinds = pa.array(["k"]).dictionary_encode()
    table = pa.table({"entity": ["o"], "message": [b"x"], "kind": kinds})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ArgumentError, match="dictionar"):
        decoded(sink.getvalue().to_pybytes())
