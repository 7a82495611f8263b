"""A run of the capture: passes over all entities, one or many.

A pass captures what is there when it begins, in batches of limited size. What is only
browsed and what is consumed are two queries, because a query has one settlement. A
continuous run begins a pass when a window is over, or when a whole batch waits.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from twinbus.clock import SystemClock
from twinbus.instants import instant_of
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.foreign import offered_by
from twinbus.spark.jobs.capture.batch_writer import BatchWriter
from twinbus.spark.jobs.capture.checkpoint import CaptureCheckpoint
from twinbus.spark.jobs.capture.compaction import compact, compactable, recover
from twinbus.spark.jobs.capture.options import CaptureOptions
from twinbus.spark.jobs.capture.sources import (
    CapturedEntity,
    captured_entities,
    foreign_entities,
)
from twinbus.spark.jobs.capture.summary import CaptureSummary, CaptureTally
from twinbus.spark.jobs.capture.writer_lock import only_writer
from twinbus.spark.jobs.job_errors import (
    NamespaceAway,
    failure_in_spark,
    job_error_of,
    namespace_told,
)
from twinbus.spark.jobs.lake.folder import LakeFolder, open_folder
from twinbus.spark.jobs.lake.lake import Lake, made_lake
from twinbus.spark.jobs.lake.stores import MessageStore, open_store
from twinbus.spark.plain_error import PlainError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
_BACKLOG_SECONDS: Final = 2.0
"""How often a continuous run looks whether a whole batch waits."""

_RECENT_MS: Final = 48 * 3_600_000

_MODES: Final = {False: "browse", True: "exclusive"}


class CaptureRun:
    """One run; `stop` may be called by any thread, or a signal."""

    def __init__(
        self,
        spark: "SparkSession",
        options: CaptureOptions,
        on_progress: Callable[[CaptureSummary], None] | None = None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._on_progress = on_progress
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._tally = CaptureTally()
        self._began_at = self._clock.monotonic()
        self._namespace = ""

    def stop(self) -> None:
        """End after the present batch, or in it: it is repeated then."""
        self._stopping.set()

    def main(self) -> CaptureSummary:
        """Raises JobError, LakeError."""
        options = self._options
        folder = open_folder(self._spark, options.lake)
        store = open_store(self._spark, folder, options.data_format)
        with namespace_told():
            is_twinbus = self._learn_namespace()
        with only_writer(folder):
            lake = self._lake(folder)
            checkpoints = [CaptureCheckpoint(folder, one) for one in _MODES.values()]
            known = [one.query_id() for one in checkpoints]
            recover(lake, store, [one for one in known if one is not None])
            self._passes(lake, store, is_twinbus)
        return self.summary()

    def _learn_namespace(self) -> bool:
        """Whether it is a twinbus."""
        connection = self._options.connection()
        offered = offered_by(connection, self._options.timeout_ms)
        if not {"browse", "lease", "plan", "runtime", "settle"} <= offered:
            self._namespace = connection.open().host
            return False
        with closing(BulkClient(connection, self._options.timeout_ms)) as client:
            self._namespace = client.namespace_id()
        return True

    def _lake(self, folder: LakeFolder) -> Lake:
        now = instant_of(self._clock.now()).isoformat()
        return made_lake(folder, self._namespace, self._options.data_format, now)

    # --- passes ---------------------------------------------------------------

    def _passes(self, lake: Lake, store: MessageStore, is_twinbus: bool) -> None:
        while True:
            began_at = self._clock.monotonic()
            try:
                with namespace_told():
                    entities = self._entities(lake, is_twinbus)
                    self._pass(lake, store, entities)
            except NamespaceAway as error:
                if not self._options.is_continuous:
                    raise
                _log.warning("the capture waits: %s", error)
                entities = []
            if not self._stopping.is_set():
                self._compact(lake, store)
            if not self._options.is_continuous or self._stopping.is_set():
                return
            self._wait_for_window(began_at, entities if is_twinbus else [])
            if self._stopping.is_set():
                return

    def _entities(self, lake: Lake, is_twinbus: bool) -> list[CapturedEntity]:
        options = self._options
        if not is_twinbus:
            return foreign_entities(options)
        with closing(BulkClient(options.connection(), options.timeout_ms)) as client:
            return captured_entities(client, options, lake.identity.lake)

    def _pass(
        self, lake: Lake, store: MessageStore, entities: Sequence[CapturedEntity]
    ) -> None:
        for is_consumed, mode in _MODES.items():
            wanted = [one for one in entities if one.is_consumed == is_consumed]
            if wanted and not self._stopping.is_set():
                self._query(lake, store, wanted, mode)

    def _query(
        self,
        lake: Lake,
        store: MessageStore,
        entities: list[CapturedEntity],
        mode: str,
    ) -> None:
        checkpoint = CaptureCheckpoint(lake.folder, mode)
        writer = BatchWriter(
            lake, store, entities, checkpoint, self._clock, self._tally
        )
        options = self._options
        stream = (
            self._spark.readStream.format("servicebus")
            .options(
                credential=options.credential,
                entities=",".join(one.source for one in entities),
                settlement=mode,
                includeRaw="true",
                failOnDataLoss="false" if options.accepts_loss else "auto",
                maxMessagesPerBatch=str(options.max_messages),
                maxBytesPerBatch=str(options.max_bytes),
                readerId=lake.identity.reader,
                timeout=f"{options.timeout_ms}ms",
            )
            .load()
        )
        query = (
            stream.writeStream.foreachBatch(writer)
            .queryName(f"twinbus capture ({mode})")
            .option("checkpointLocation", checkpoint.url)
            .trigger(availableNow=True)
            .start()
        )
        with _ended(query):
            while query.isActive and not self._stopping.wait(_LOOK_SECONDS):
                self._tell()
        self._check(query, writer)

    def _check(self, query: "StreamingQuery", writer: BatchWriter) -> None:
        if self._stopping.is_set():
            return
        error = query.exception()
        if error is None:
            return
        failure = writer.failure
        if isinstance(failure, BulkError):
            raise job_error_of(failure)
        if isinstance(failure, PlainError):
            raise failure
        with namespace_told():
            # Whether it is the namespace: then its own error tells more.
            self._learn_namespace()
        raise failure_in_spark(error)

    def _compact(self, lake: Lake, store: MessageStore) -> None:
        least = self._options.compact_files
        if not least or lake.identity.data != "parquet":
            return
        now = self._clock.now()
        # Hours of earlier runs that were not over then, and those of this one.
        recent = lake.hours(start_at=now - _RECENT_MS)
        hours = sorted(self._tally.hours | set(recent))
        for manifest in compactable(lake, hours, least, now):
            compact(self._spark, lake, store, manifest, instant_of(now).isoformat())
            self._tally.hours.discard(manifest.hour)
            self._tally.compacted_hours += 1
            self._tell()
            if self._stopping.is_set():
                return

    # --- windows --------------------------------------------------------------

    def _wait_for_window(
        self, began_at: int, entities: Sequence[CapturedEntity]
    ) -> None:
        """Until the window is over, or a whole batch of new messages waits."""
        ends_at = began_at + self._options.window_ms
        while (left := ends_at - self._clock.monotonic()) > 0:
            if self._stopping.wait(min(left / 1000, _BACKLOG_SECONDS)):
                return
            if self._is_batch_waiting(entities):
                return

    def _is_batch_waiting(self, entities: Sequence[CapturedEntity]) -> bool:
        """Only of what is consumed: all that is there is new."""
        paths = [one.source for one in entities if one.is_consumed]
        if not paths:
            return False
        options = self._options
        try:
            with closing(BulkClient(options.connection(), 1_000)) as client:
                found, _ = client.runtime(paths)
        except BulkError:
            # The next pass finds out.
            return False
        active = sum(part.active_count for one in found for part in one.fragments)
        return active >= options.max_messages

    # --- what is told ---------------------------------------------------------

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.summary())

    def summary(self) -> CaptureSummary:
        tally = self._tally
        return CaptureSummary(
            lake=self._options.lake,
            namespace=self._namespace,
            entities=dict(sorted(tally.entities.items())),
            messages=sum(tally.entities.values()),
            bytes=tally.bytes,
            files=tally.files,
            batches=tally.batches,
            known=tally.known,
            compacted_hours=tally.compacted_hours,
            seconds=(self._clock.monotonic() - self._began_at) / 1000,
        )


@contextmanager
def _ended(query: "StreamingQuery") -> Iterator[None]:
    try:
        yield
    finally:
        if query.isActive:
            query.stop()


def run(
    spark: "SparkSession",
    options: CaptureOptions,
    on_progress: Callable[[CaptureSummary], None] | None = None,
) -> CaptureSummary:
    """Run the job to its end. Raises JobError, LakeError."""
    return CaptureRun(spark, options, on_progress).main()
