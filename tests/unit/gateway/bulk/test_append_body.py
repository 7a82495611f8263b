"""Bodies of appends: what is read, and what is refused before it is."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus import limits
from twinbus.errors import ArgumentError
from twinbus.gateway.bulk.append_body import decode_append

SCHEMA = pa.schema([("entity", pa.string()), ("message", pa.binary())])
Rows = list[tuple[str, bytes]]


def stream(
    *batches: Rows, schema: pa.Schema = SCHEMA, compression: str | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for rows in batches:
            columns = [[row[0] for row in rows], [row[1] for row in rows]]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue().to_pybytes())


@given(st.lists(st.lists(st.tuples(st.text(), st.binary())), max_size=4))
def test_rows_come_out_as_they_went_in(batches: list[Rows]) -> None:
    rows = [row for batch in batches for row in batch]
    entities, messages = decode_append(stream(*batches))
    assert list(zip(entities, messages, strict=True)) == rows


@given(st.binary(max_size=2_000))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(ArgumentError, match="Arrow IPC stream"):
        decode_append(body)


@given(st.data())
def test_damage_is_noticed_or_harmless(data: st.DataObject) -> None:
    """Whatever is changed: lists of equal length, or an error that is told."""
    body = bytearray(stream([("orders", b"x" * 20)] * 5, [("o", b"")]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    try:
        entities, messages = decode_append(bytes(body))
    except ArgumentError:
        return
    assert len(entities) == len(messages)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_compression_is_seen_before_it_is_undone(compression: str, size: int) -> None:
    """Also in a batch behind a plain one, and where there is nothing to gain."""
    body = stream([("orders", bytes(size))], compression=compression)
    with pytest.raises(ArgumentError, match="compressed"):
        decode_append(body)
    plain = stream([("orders", bytes(size))])
    assert decode_append(plain) == (["orders"], [bytes(size)])


def test_rows_of_all_batches_are_counted() -> None:
    batch = [("o", b"")] * (limits.BULK_APPEND_ROWS // 2)
    entities, _ = decode_append(stream(batch, batch))
    assert len(entities) == limits.BULK_APPEND_ROWS
    with pytest.raises(ArgumentError, match="at most 50000"):
        decode_append(stream(batch, batch, [("o", b"")]))


def test_dictionaries_are_refused() -> None:
    kinds = pa.array(["k"]).dictionary_encode()
    table = pa.table({"entity": ["o"], "message": [b"x"], "kind": kinds})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ArgumentError, match="dictionar"):
        decode_append(sink.getvalue().to_pybytes())
