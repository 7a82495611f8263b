"""A bus for the Spark tests: sends and receives messages, makes options for Spark."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery
from sdk_links import opened
from wire.message import data_message

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret
from twinbus.testing import Bus


class Namespace:
    """One bus, reached by the vendor's SDK and by Spark."""

    def __init__(self, bus: Bus, folder: Path) -> None:
        self.bus = bus
        self.folder = folder
        self._client = ServiceBusClient.from_connection_string(bus.connection_string)
        self.secret_file = folder / "secret"
        self.secret_file.write_text(bus.connection_string)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    @property
    def credential(self) -> str:
        return f"file:{self.secret_file}"

    # --- messages -------------------------------------------------------------

    def send(self, entity: str, bodies: Iterable[str | ServiceBusMessage]) -> None:
        messages = [
            body if isinstance(body, ServiceBusMessage) else ServiceBusMessage(body)
            for body in bodies
        ]
        with opened(self._client.get_queue_sender(entity)) as sender:
            for at in range(0, len(messages), 500):
                sender.send_messages(messages[at : at + 500])

    def send_to_topic(self, topic: str, bodies: Iterable[str]) -> None:
        with opened(self._client.get_topic_sender(topic)) as sender:
            for body in bodies:
                sender.send_messages(ServiceBusMessage(body))

    def append(self, rows: Sequence[tuple[str, str]]) -> None:
        """Bodies to their entities, many at a time: quicker than by the SDK."""
        secret = Secret(text=self.bus.connection_string)
        client = BulkClient(SparkConnection(secret=secret), 60_000)
        schema = pa.schema([("entity", pa.string()), ("message", pa.binary())])
        for at in range(0, len(rows), 30):
            portion = rows[at : at + 30]
            entities = [entity for entity, _ in portion]
            messages = [data_message(body) for _, body in portion]
            table = pa.table([entities, messages], schema=schema)
            assert client.append(table).applied_count == len(portion)
        client.close()

    def peek(
        self, entity: str, count: int = 1000, **place: Any
    ) -> list[ServiceBusReceivedMessage]:
        """All there is, of every state; `sub_queue` for another place."""
        found: list[ServiceBusReceivedMessage] = []
        with self.receiver(entity, **place) as receiver:
            while len(found) < count:
                after = found[-1].sequence_number + 1 if found else 0
                more = receiver.peek_messages(250, sequence_number=after)
                if not more:
                    break
                found += more
        return found

    def bodies(self, entity: str, **place: Any) -> list[str]:
        return [str(message) for message in self.peek(entity, **place)]

    def receiver(
        self, entity: str, **place: Any
    ) -> AbstractContextManager[ServiceBusReceiver]:
        return opened(self._client.get_queue_receiver(entity, **place))

    def receive(
        self, entity: str, count: int = 100, wait_seconds: float = 5
    ) -> list[str]:
        """Receive and complete what comes at once."""
        with self.receiver(entity) as receiver:
            found = receiver.receive_messages(count, max_wait_time=wait_seconds)
            for message in found:
                receiver.complete_message(message)
            return [str(message) for message in found]

    # --- Spark ----------------------------------------------------------------

    def options(self, entities: str, **options: object) -> dict[str, str]:
        """For `spark.read` and `spark.readStream`."""
        given = {name: str(value) for name, value in options.items()}
        return {"credential": self.credential, "entities": entities, **given}

    def read(self, spark: SparkSession, entities: str, **options: object) -> DataFrame:
        return (
            spark.read.format("servicebus")
            .options(**self.options(entities, **options))
            .load()
        )

    def stream(
        self, spark: SparkSession, entities: str, **options: object
    ) -> DataFrame:
        return (
            spark.readStream.format("servicebus")
            .options(**self.options(entities, **options))
            .load()
        )


class Collected:
    """A sink that keeps what it gets, batch by batch: `foreachBatch(collected)`."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[Row]]] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.batches.append((batch_id, batch.collect()))

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.batches for row in rows]

    @property
    def bodies(self) -> list[str]:
        return [row.body.decode() for row in self.rows]


def run_available(
    stream: DataFrame, sink: Any, checkpoint: Path, **options: str
) -> StreamingQuery:
    """Process what is there, and wait for the end of it."""
    query: StreamingQuery = (
        stream.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    assert not query.isActive, "the query did not end"
    return query


def numbered(prefix: str, numbers: Sequence[int] | range) -> list[str]:
    return [f"{prefix}{number}" for number in numbers]
