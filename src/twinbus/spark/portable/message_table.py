"""Delivered messages as Arrow, with the columns of the source."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinbus.encoding.columns import MessageColumns
from twinbus.spark.portable.delivered import DEAD_LETTER_TEXTS, Delivered
from twinbus.spark.portable.entity_path import entity_path
from twinbus.spark.schema import PROPERTIES, PROPERTY_TYPES, RAW, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

_OF_THE_RANGE = ("entity", "subqueue", "partition")


def record_batch(
    path: str, messages: Sequence[Delivered], columns: tuple[str, ...]
) -> "pa.RecordBatch":
    import pyarrow as pa

    wanted = [name for name in columns if name not in (*_OF_THE_RANGE, RAW)]
    made = MessageColumns(wanted)
    made.extend(
        [message.message() for message in messages],
        [message.number for message in messages],
    )
    found: dict[str, Sequence[object]] = dict(made.columns)
    found |= _of_the_range(path, messages)
    # The original bytes: encoding again might lose something.
    found[RAW] = [message.raw for message in messages]
    for name in (PROPERTIES, PROPERTY_TYPES):
        if name in found:
            found[name] = [_without_texts(entries) for entries in made.columns[name]]
    schema = arrow_schema(columns)
    arrays = [pa.array(found[field.name], type=field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _of_the_range(
    path: str, messages: Sequence[Delivered]
) -> dict[str, Sequence[object]]:
    parts = entity_path(path)
    count = len(messages)
    return {
        "entity": [parts.parent] * count,
        "subqueue": [parts.sub_queue] * count,
        "partition": [message.number >> 48 for message in messages],
    }


def _without_texts(entries: object) -> object:
    """The reason of a dead letter has columns of its own."""
    if entries is None:
        return None
    assert isinstance(entries, list)
    return [entry for entry in entries if entry[0] not in DEAD_LETTER_TEXTS]
