"""`python -m bench.spark_rows`: CPU seconds of reading and writing rows, without Spark.

What a task and the bus do for 100,000 messages: browse them as Arrow, and make messages
of rows. The bus is in this process, and the JVM is not part of it, so that the time of
the processor says what a change of columns costs, also on a busy machine.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.connection import SparkConnection
from twinbus.spark.row_messages import encode_rows
from twinbus.spark.schema import COLUMNS, arrow_schema
from twinbus.spark.secret import Secret
from twinbus.spark.source import batch_reader, schema_of
from twinbus.spark.write_options import write_options
from twinbus.testing import Bus

PROPERTIES: dict[str, dict[str, object] | None] = {
    "no properties": None,
    "three strings": {"colour": "red", "size": "large", "tenant": "t-17"},
    "int, boolean, string": {"n": 7, "ok": True, "tenant": "t-17"},
}
WRITTEN = (
    *("message_id", "application_properties", "application_property_types"),
    *("body", "amqp_types"),
)
_APPENDED = 10_000


def measure(work: Callable[[], int], rounds: int, messages: int) -> str:
    """The least of the rounds, which other programs disturbed least."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        assert work() == messages
        seconds.append(time.process_time() - began)
    factor = 100_000 / messages
    return f"{min(seconds) * factor:.2f} ({max(seconds) * factor:.2f})"


def read(connection_string: str, queue: str, columns: str) -> int:
    options = {
        "connectionString": connection_string,
        "entities": queue,
        "columns": columns,
    }
    reader = batch_reader(options, schema_of(options))
    return sum(
        batch.num_rows for part in reader.partitions() for batch in reader.read(part)
    )


def fill(client: BulkClient, queue: str, count: int, named: Any) -> None:
    encoded = [
        encode_message(
            Message(
                properties=Properties(message_id=f"m-{at}"),
                application_properties=named,
                body=Data((b"x" * 256,)),
            )
        )
        for at in range(_APPENDED)
    ]
    for at in range(0, count, _APPENDED):
        part = encoded[: count - at]
        client.append(
            pa.table(
                [pa.array([queue] * len(part)), pa.array(part, pa.binary())],
                names=["entity", "message"],
            )
        )


def rows(named: Mapping[str, object] | None) -> pa.RecordBatch:
    """As they are read: texts, and types beside them."""
    texts = [(k, str(v).lower()) for k, v in named.items()] if named else None
    types = [
        (name, "boolean" if isinstance(value, bool) else "long")
        for name, value in (named or {}).items()
        if isinstance(value, int)
    ]
    schema = arrow_schema(WRITTEN)
    values = [
        [f"m-{at}" for at in range(_APPENDED)],
        [texts] * _APPENDED,
        [types or None] * _APPENDED,
        [b"x" * 256] * _APPENDED,
        [None] * _APPENDED,
    ]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(values, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def write(connection_string: str, batch: pa.RecordBatch, count: int) -> int:
    options = write_options(
        {"connectionString": connection_string, "entity": "none"},
        StructType([StructField(name, COLUMNS[name]) for name in WRITTEN]),
        overwrite=False,
    )
    made = 0
    while made < count:
        part = batch.slice(0, min(_APPENDED, count - made))
        made += len(encode_rows(part, options).messages)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    count, rounds = arguments.messages, arguments.rounds
    lines = []
    with Bus() as bus:
        secret = Secret(text=bus.connection_string)
        client = BulkClient(SparkConnection(secret=secret), 60_000)
        for at, (name, named) in enumerate(PROPERTIES.items()):
            queue = f"q{at}"
            bus.create_queue(queue)
            fill(client, queue, count, named)
            text, batch = bus.connection_string, rows(named)
            lines.append(
                (
                    name,
                    measure(partial(read, text, queue, "all"), rounds, count),
                    measure(partial(read, text, queue, "header"), rounds, count),
                    measure(partial(read, text, queue, "body"), rounds, count),
                    measure(partial(write, text, batch, count), rounds, count),
                )
            )
        client.close()
    head = ("CPU s per 100,000", "read all", "header", "body alone", "encode")
    for line in (head, ("---",) * len(head), *lines):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
