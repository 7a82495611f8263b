"""Streams of record batches, with fixed names and types."""

import pyarrow as pa
import pytest

from twinbus.doors.http.bulk import arrow
from twinbus.encoding.columns import COLUMNS


def read(encoded: bytes) -> pa.Table:
    return pa.ipc.open_stream(encoded).read_all()


def test_every_column_of_messages_has_a_type() -> None:
    assert set(arrow.TYPES) == {*COLUMNS, *arrow.CONSTANT}


def test_without_portions_it_is_the_schema() -> None:
    stream = arrow.MessageStream(arrow.TYPES, {})
    stream.add({}, 0)
    table = read(stream.finish())
    assert table.num_rows == 0
    assert table.schema.names == list(arrow.TYPES)
    assert all(field.nullable for field in table.schema)


def test_a_record_batch_for_each_portion() -> None:
    """Columns in the order of the schema, constants filled in."""
    constants = {"entity": "orders", "subqueue": None, "partition": 3}
    wanted = ["body", "sequence_number", "subqueue", "partition", "entity"]
    stream = arrow.MessageStream(wanted, constants)
    stream.add({"sequence_number": [1, 2], "body": [b"a", None]}, 2)
    stream.add({"sequence_number": [3], "body": [b"c"]}, 1)
    encoded = stream.finish()
    assert [batch.num_rows for batch in pa.ipc.open_stream(encoded)] == [2, 1]
    assert read(encoded).to_pydict() == {
        "entity": ["orders"] * 3,
        "subqueue": [None] * 3,
        "partition": [3] * 3,
        "sequence_number": [1, 2, 3],
        "body": [b"a", None, b"c"],
    }


def test_a_constant_that_is_not_wanted_is_left_out() -> None:
    stream = arrow.MessageStream(["body"], {"entity": "orders"})
    stream.add({"body": [b"a"]}, 1)
    assert read(stream.finish()).to_pydict() == {"body": [b"a"]}


def test_a_value_of_another_type_is_a_bug() -> None:
    stream = arrow.MessageStream(["sequence_number"], {})
    with pytest.raises(pa.ArrowInvalid):
        stream.add({"sequence_number": ["one"]}, 1)
