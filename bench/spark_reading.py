"""One queue, read by Spark over Arrow, and by the vendor's SDK over AMQP.

A round has each reader once, so that a slow minute falls on all of them. Spark reads
the whole queue into nothing; the SDK looks at a part of it, since its time per message
is the same for any number, and receives a part.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
)
from pyspark.sql import Observation, SparkSession
from pyspark.sql.functions import count, lit

from bench.load_client import run_load
from bench.processes import usage_of_tree
from bench.spark_results import ARROW, HEADER, PEEK, RECEIVE, ReadingResult
from bench.spark_session import connection_string, credential
from bench.twinbus_server import TwinbusServer

_PEEK_COUNT = 250
"""What Service Bus gives at most."""

_RECEIVE_COUNT = 1_000
_WAIT_SECONDS = 10
_WARM_UPS = 2


def measure_reading(
    spark: SparkSession, messages: int, sdk_messages: int, rounds: int
) -> list[ReadingResult]:
    with (
        TwinbusServer() as server,
        credential(connection_string(server.target)) as named,
    ):
        fill(server, messages + sdk_messages * rounds)
        reading = Reading(spark, server, named)
        for _ in range(_WARM_UPS):
            reading.spark_read("all")
        readers: dict[str, Callable[[], int]] = {
            ARROW: lambda: reading.spark_read("all"),
            HEADER: lambda: reading.spark_read("header"),
            PEEK: lambda: reading.peek(sdk_messages),
            RECEIVE: lambda: reading.receive(sdk_messages),
        }
        results = {name: ReadingResult(name) for name in readers}
        for _ in range(rounds):
            for name, read in readers.items():
                began_at, before = time.monotonic(), usage_of_tree(os.getpid())
                results[name].messages.append(read())
                results[name].seconds.append(time.monotonic() - began_at)
                # Spark and the bus are below this process.
                after = usage_of_tree(os.getpid())
                cpu_seconds = after.cpu_seconds - before.cpu_seconds
                results[name].cpu_seconds.append(cpu_seconds)
        return list(results.values())


def fill(server: TwinbusServer, messages: int) -> None:
    """Put that many messages of 256 bytes into the server's queue."""
    arguments = ["batch", "--count", str(messages), "--batch", "100", "--window", "10"]
    run_load(server.target, arguments, is_tls=False)


class Reading:
    """The readers of one queue; each says how many messages it had."""

    def __init__(self, spark: SparkSession, server: TwinbusServer, named: str) -> None:
        self._spark = spark
        self._credential = named
        self._target = server.target

    def spark_read(self, columns: str) -> int:
        read = (
            self._spark.read.format("servicebus")
            .option("credential", self._credential)
            .option("columns", columns)
            .load(self._target.address)
        )
        seen = Observation()
        observed = read.observe(seen, count(lit(1)).alias("rows"))
        observed.write.format("noop").mode("overwrite").save()
        return int(seen.get["rows"])

    def peek(self, messages: int) -> int:
        with self._receiver() as receiver:
            seen, following = 0, 0
            while seen < messages:
                found = receiver.peek_messages(_PEEK_COUNT, sequence_number=following)
                seen += len(found)
                following = (found[-1].sequence_number or 0) + 1
            return seen

    def receive(self, messages: int) -> int:
        """Without settling one by one: the least that the SDK can do."""
        with self._receiver() as receiver:
            seen = 0
            while seen < messages:
                most = min(_RECEIVE_COUNT, messages - seen)
                seen += len(receiver.receive_messages(most, _WAIT_SECONDS))
            return seen

    @contextmanager
    def _receiver(self) -> Iterator[ServiceBusReceiver]:
        text = connection_string(self._target)
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with (
            ServiceBusClient.from_connection_string(text) as client,
            client.get_queue_receiver(self._target.address, receive_mode=mode) as made,
        ):
            yield made
