"""Lakes for the tests: captured, replayed, looked into, broken."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusReceiveMode
from pyspark.sql import Row, SparkSession

from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import bare_offset
from twinbus.spark.jobs import capture, replay
from twinbus.spark.jobs.capture import CaptureOptions, CaptureSummary
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.lake import Lake, open_lake
from twinbus.spark.jobs.lake.stores import open_store
from twinbus.spark.jobs.replay import ReplayOptions, ReplaySummary
from twinbus.spark.source import batch_reader, schema_of

from .harness import Namespace


class LakeTest:
    """A lake of one namespace, in the folder of a test."""

    def __init__(
        self,
        spark: SparkSession,
        namespace: Namespace,
        folder: Path,
        data_format: str = "parquet",
    ) -> None:
        self.spark = spark
        self.namespace = namespace
        self.folder = folder
        self._data_format = data_format

    @property
    def lake(self) -> Lake:
        return open_lake(LocalFolder(self.folder))

    def capture_options(self, *entities: str, **more: Any) -> CaptureOptions:
        return CaptureOptions(
            credential=self.namespace.credential,
            lake=str(self.folder),
            entities=entities,
            **{"data_format": self._data_format, **more},
        )

    def capture(self, *entities: str, **more: Any) -> CaptureSummary:
        return capture.run(self.spark, self.capture_options(*entities, **more))

    def replay(self, replay_id: str, **more: Any) -> ReplaySummary:
        options = ReplayOptions(
            credential=self.namespace.credential,
            lake=str(self.folder),
            replay_id=replay_id,
            **more,
        )
        return replay.run(self.spark, options)

    def rows(self) -> list[Row]:
        """What the manifest names."""
        lake = self.lake
        manifests = [lake.manifest(hour) for hour in lake.hours()]
        store = open_store(self.spark, lake.folder, lake.identity.data)
        return store.rows(self.spark, manifests).collect()

    def bodies(self, entity: str | None = None) -> list[str]:
        return sorted(
            row.body.decode()
            for row in self.rows()
            if entity is None or row.entity == entity
        )

    def manifest_count(self) -> int:
        lake = self.lake
        return sum(lake.manifest(hour).count for hour in lake.hours())

    def files(self) -> list[Path]:
        """All Parquet files that anybody would find, whatever the manifest says."""
        found = (self.folder / "messages").rglob("*.parquet")
        return sorted(file for file in found if not file.name.startswith("."))


def bare_messages(namespace: Namespace, queue: str) -> list[bytes]:
    """What no bus may change: properties, application properties, body and footer, as
    bytes, in the order of the queue."""
    given = namespace.options(queue, columns="raw", maxPartitions=1)
    reader = batch_reader(given, schema_of(given))
    raws: Sequence[bytes] = [
        raw
        for part in reader.partitions()
        for batch in reader.read(part)
        for raw in batch.column(0).to_pylist()
    ]
    return [raw[bare_offset(read_message(raw, 0, 1 << 62).layout) :] for raw in raws]


def purge(namespace: Namespace, queue: str, count: int | None = None) -> None:
    """Receive and delete everything, or so many: without locks, which would be over for
    the SDK if the clock of a test stands still."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    left = len(namespace.peek(queue)) if count is None else count
    with namespace.receiver(queue, receive_mode=mode) as receiver:
        while left > 0:
            left -= len(receiver.receive_messages(left, max_wait_time=5))
