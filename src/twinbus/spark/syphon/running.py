"""A run of the job: queries, one after the other, until there is nothing left to do.

A query ends with what was there when it began, and a backlog may grow meanwhile; so
another one follows, until nothing is left. A continuous run has one query, and makes
another one when a side was away.
"""

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from twinbus.clock import SystemClock
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.gates import Gate
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.syphon.backlog import Backlog, Look
from twinbus.spark.syphon.drain import Drain
from twinbus.spark.syphon.errors import SideAway, SyphonError
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.preparing import SOURCE_COLUMNS
from twinbus.spark.syphon.reader_id import reader_id
from twinbus.spark.syphon.sides import as_told, check_sides, diagnosed, told
from twinbus.spark.syphon.summary import Summary

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
_RETURN_MS: Final = 5_000
"""How often a continuous run looks at what is parked while nothing new comes."""

_FRUITLESS: Final = 3
"""Queries that moved nothing although there was something: it is not for us."""

_ARROW_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ARROW_ROWS_COUNT: Final = 2_000
"""Rows that a worker holds at a time."""


def run_syphon(
    spark: SparkSession,
    options: SyphonOptions,
    on_progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Run the job to its end. Raises SyphonError."""
    run = SyphonRun(spark, options, on_progress)
    return run.main()


class SyphonRun:
    """One run; `stop` may be called by any thread, or a signal."""

    def __init__(
        self,
        spark: SparkSession,
        options: SyphonOptions,
        on_progress: Callable[[Summary], None] | None = None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._on_progress = on_progress
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._began_at = self._clock.monotonic()
        self._found_count = 0

    def stop(self) -> None:
        """End after the batch in hand."""
        self._stopping.set()

    def main(self) -> Summary:
        """Raises SyphonError."""
        options = self._options
        self._check_sides()
        with _checkpoint(options) as checkpoint, _small_batches(self._spark):
            self._checkpoint = f"{checkpoint.rstrip('/')}/query"
            reader = reader_id(checkpoint, options.primary_name)
            self._backlog = Backlog(options, reader)
            self._drain = Drain(self._spark, options, self._backlog)
            self._began_at = self._clock.monotonic()
            try:
                with told("secondary"):
                    self._found_count = _active_count(self._drain.look())
                    look = self._run()
                return self._summary(look)
            finally:
                self._drain.close()
                self._backlog.close()

    def _check_sides(self) -> None:
        """A continuous run waits for a side that is away. Raises SyphonError."""
        is_told = False
        while True:
            try:
                return check_sides(self._options)
            except SideAway as error:
                if not self._options.is_continuous or self._stopping.is_set():
                    raise
                if not is_told:
                    _log.warning("the syphon waits: %s", error)
                is_told = True

    def _run(self) -> Look:
        if self._options.is_continuous:
            self._until_stopped()
            return self._drain.look()
        return self._until_empty()

    # --- until it is empty ----------------------------------------------------

    def _until_empty(self) -> Look:
        fruitless = 0
        while True:
            moved = self._drain.tally.moved
            query = self._query(is_available_now=True)
            self._wait(query)
            self._check(query)
            look = self._drain.look()
            if self._stopping.is_set():
                return look
            fruitless = 0 if self._drain.tally.moved > moved else fruitless + 1
            if not _active_count(look) or fruitless == _FRUITLESS:
                return self._drain.return_last()

    # --- until it is told to stop ---------------------------------------------

    def _until_stopped(self) -> None:
        gate = Gate(self._options.settings())
        while not self._stopping.is_set():
            batches = self._drain.tally.batches
            try:
                query = self._query(is_available_now=False)
                self._wait(query)
                self._check(query)
            except (SyphonError, BulkError) as error:
                if self._drain.tally.batches > batches:
                    # It had gone well: this is another outage.
                    gate.open()
                now = self._clock.monotonic()
                if gate.close(RestoreRefusal(FailureKind.SERVICE, str(error)), now):
                    _log.warning("the syphon waits: %s", error)
                self._stopping.wait((gate.retry_at - now) / 1000)

    # --- a query --------------------------------------------------------------

    def _query(self, *, is_available_now: bool) -> StreamingQuery:
        options = self._options
        stream = (
            self._spark.readStream.format("servicebus")
            .options(
                credential=options.secondary,
                entityPattern=options.pattern,
                settlement="exclusive",
                alignment="time",
                # What is gone was taken by another syphon, which restores it first.
                failOnDataLoss="false",
                columns=",".join(SOURCE_COLUMNS),
                readerId=self._backlog.reader,
                maxMessagesPerBatch=str(options.max_messages),
                leaseDuration=f"{options.lease_ms}ms",
                leaseWait=f"{options.lease_wait_ms}ms",
                timeout=f"{options.timeout_ms}ms",
            )
            .load()
        )
        writer = stream.writeStream.foreachBatch(self._drain.batch).option(
            "checkpointLocation", self._checkpoint
        )
        self._drain.failure = None
        if is_available_now:
            return writer.trigger(availableNow=True).start()
        interval = f"{options.interval_ms} milliseconds"
        return writer.trigger(processingTime=interval).start()

    def _wait(self, query: StreamingQuery) -> None:
        """Until it has ended, or we are told to stop."""
        looked_at = self._clock.monotonic()
        try:
            while query.isActive and not self._stopping.wait(_LOOK_SECONDS):
                self._tell()
                now = self._clock.monotonic()
                if self._options.is_continuous and now - looked_at >= _RETURN_MS:
                    self._return_parked()
                    looked_at = self._clock.monotonic()
        finally:
            if query.isActive:
                self._drain.stop()
                query.stop()

    def _return_parked(self) -> None:
        try:
            self._drain.return_parked()
        except (SyphonError, BulkError) as error:
            # The next batch finds out, and whoever waits for it is told then.
            _log.info("what is parked stays so: %s", error)

    def _check(self, query: StreamingQuery) -> None:
        """Raises SyphonError for a query that failed."""
        if self._stopping.is_set():
            return
        error = query.exception()
        if error is None:
            return
        failure = self._drain.failure
        if isinstance(failure, SyphonError):
            raise failure
        if isinstance(failure, BulkError):
            raise as_told("secondary", failure)
        raise diagnosed(self._options, self._backlog.reader, error)

    # --- what is told ---------------------------------------------------------

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._summary({}))

    def _summary(self, look: Look) -> Summary:
        tally = self._drain.tally
        return Summary(
            primary_name=self._options.primary_name,
            queues=tuple(sorted(look)),
            restored=tally.restored,
            known=tally.known,
            dead_lettered=dict(sorted(tally.dead_lettered.items())),
            parked=self._drain.parked(),
            found=self._found_count,
            left=_active_count(look),
            batches=tally.batches,
            seconds=(self._clock.monotonic() - self._began_at) / 1000,
        )


def _active_count(look: Look) -> int:
    return sum(queue.active_count for queue in look.values())


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    """In the session of somebody who may have set it otherwise."""
    given = spark.conf.get(_ARROW_ROWS)
    spark.conf.set(_ARROW_ROWS, str(_ARROW_ROWS_COUNT))
    try:
        yield
    finally:
        spark.conf.set(_ARROW_ROWS, str(given))


@contextmanager
def _checkpoint(options: SyphonOptions) -> Iterator[str]:
    """The one that was given, or one that is not needed afterwards: whatever a run that
    was killed has sent is known to the primary."""
    if options.checkpoint is not None:
        yield options.checkpoint
        return
    folder = tempfile.mkdtemp(prefix="twinbus-syphon-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
