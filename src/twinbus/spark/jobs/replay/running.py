"""A run of the replay: checks all of the selection, then sends it hour by hour.

Portions of some hours are sent one after the other, so that messages arrive in the
order of time, and progress can be told. Within a portion, all messages for one target
are sent by one task, in order.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from twinbus.clock import SystemClock
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.foreign import offered_by
from twinbus.spark.jobs.job_errors import (
    JobRefused,
    failure_in_spark,
    namespace_told,
)
from twinbus.spark.jobs.lake.folder import open_folder
from twinbus.spark.jobs.lake.lake import Lake, open_lake
from twinbus.spark.jobs.lake.manifest import HourManifest
from twinbus.spark.jobs.lake.stores import MessageStore, open_store
from twinbus.spark.jobs.replay.options import ReplayedLife, ReplayOptions
from twinbus.spark.jobs.replay.selection import (
    Selection,
    check_content,
    flows_of,
    select,
)
from twinbus.spark.jobs.replay.sending import COLUMNS, RESULT, ReplaySending
from twinbus.spark.jobs.replay.summary import ReplaySummary
from twinbus.spark.jobs.replay.targets import targets_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from twinbus.spark.write_options import WriteOptions

_PORTION_ROWS: Final = 500_000
"""Messages of a portion: some seconds of work, or more."""

_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")
_ARROW_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ARROW_ROWS_COUNT: Final = 1_000
"""Rows that a worker has in memory at a time."""


class ReplayRun:
    """One run; `stop` may be called by any thread, or a signal."""

    def __init__(
        self,
        spark: "SparkSession",
        options: ReplayOptions,
        on_progress: Callable[[ReplaySummary], None] | None = None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._on_progress = on_progress
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._began_at = self._clock.monotonic()
        self._summary = ReplaySummary(
            lake=options.lake,
            namespace="",
            replay_id=options.replay_id,
            is_dry_run=options.is_dry_run,
        )

    def stop(self) -> None:
        """End after the present portion."""
        self._stopping.set()

    def main(self) -> ReplaySummary:
        """Raises JobError, LakeError."""
        options = self._options
        _check(options)
        lake = open_lake(open_folder(self._spark, options.lake))
        namespace = self._namespace(lake)
        store = open_store(self._spark, lake.folder, lake.identity.data)
        selection = select(lake, options)
        targets = targets_of(selection.entities, options.target, options.targets)
        self._check_targets(sorted(set(targets.values())))
        check_content(self._spark, lake, store, selection.manifests)
        self._changed(namespace=namespace)
        self._changed_by_flows(store, selection, targets)
        if not options.is_dry_run:
            with _small_batches(self._spark):
                self._send(lake, store, selection, targets)
        self._changed()
        return self._summary

    # --- checks ---------------------------------------------------------------

    def _namespace(self, lake: Lake) -> str:
        """Raises JobError, LakeError."""
        options = self._options
        with namespace_told():
            connection = options.connection()
            if "append" not in offered_by(connection, options.timeout_ms):
                raise JobRefused(
                    f"{connection.open().url} is not twinbus, or strict, or has no "
                    "pyarrow: it would not know what was replayed before. Send the "
                    "rows of the lake with the format 'servicebus' instead: "
                    "docs/howto/spark.md."
                )
            with closing(BulkClient(connection, options.timeout_ms)) as client:
                namespace = client.namespace_id()
        if not options.allows_other_namespace:
            lake.check_namespace(
                namespace, "To send to it all the same, add --other-namespace."
            )
        return namespace

    def _check_targets(self, paths: Sequence[str]) -> None:
        """Raises JobRefused for a queue that does not exist; whether a topic does, the
        first message finds out."""
        if not paths:
            return
        with namespace_told():
            connection = self._options.connection()
            with closing(BulkClient(connection, self._options.timeout_ms)) as client:
                refused = _refused_targets(client, paths)
        if refused:
            path, text = refused[0]
            raise JobRefused(
                f"'{path}' does not take messages: {text} Nothing was sent. Make it, "
                "or name another by --to."
            )

    # --- sending --------------------------------------------------------------

    def _changed_by_flows(
        self, store: MessageStore, selection: Selection, targets: dict[str, str]
    ) -> None:
        rows = selection.wanted(store.rows(self._spark, selection.manifests))
        flows = flows_of(rows, targets)
        selected = sum(flow.messages for flow in flows)
        self._changed(flows=flows, selected=selected)

    def _send(
        self,
        lake: Lake,
        store: MessageStore,
        selection: Selection,
        targets: dict[str, str],
    ) -> None:
        options = self._options
        sending = ReplaySending(
            options=_write_options(options),
            lake=lake.identity.lake,
            replay_id=options.replay_id,
            targets=targets,
            drops_schedule=not options.keeps_schedule,
            drops_life=options.life is ReplayedLife.RESET,
            keeps_expiry=options.life is ReplayedLife.REMAINING,
            rate=options.rate,
        )
        for portion in portions(selection.manifests):
            if self._stopping.is_set():
                return
            rows = selection.wanted(store.rows(self._spark, portion))
            self._send_portion(sending, rows, targets)

    def _send_portion(
        self, sending: ReplaySending, rows: "DataFrame", targets: dict[str, str]
    ) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        ordered = _ordered(rows, targets, is_paced=sending.rate is not None)
        try:
            send = _function(sending.columns, RESULT)
            told = ordered.select(send(*COLUMNS).alias("told")).select("told.*")
            [counts] = told.groupBy().sum().collect()
        except (PySparkException, Py4JError) as error:
            raise failure_in_spark(error) from None
        before = self._summary
        self._changed(
            sent=before.sent + (counts[0] or 0),
            known=before.known + (counts[1] or 0),
            expired=before.expired + (counts[2] or 0),
        )

    def _changed(self, **values: object) -> None:
        from dataclasses import replace

        seconds = (self._clock.monotonic() - self._began_at) / 1000
        self._summary = replace(self._summary, seconds=seconds, **values)  # type: ignore[arg-type]
        if self._on_progress is not None:
            self._on_progress(self._summary)


def _check(options: ReplayOptions) -> None:
    """Raises JobRefused."""
    if _ID.fullmatch(options.replay_id) is None:
        raise JobRefused(
            f"The replay id is '{options.replay_id[:60]}'; it must have 1 to 200 "
            "printable ASCII characters, without blanks."
        )
    if options.rate is not None and options.rate <= 0:
        raise JobRefused(f"The rate is {options.rate:g}; it must be more than 0.")


def _refused_targets(client: BulkClient, paths: Sequence[str]) -> list[tuple[str, str]]:
    """By pings, which leave nothing."""
    import pyarrow as pa

    from twinbus.encoding.composing import MessageComposer

    composer = MessageComposer(len(paths))
    composer.add_text("content_type", [_PING] * len(paths), {})
    table = pa.record_batch(
        [
            pa.array(paths, pa.string()),
            pa.array(composer.messages(), pa.binary()),
        ],
        names=["entity", "message"],
    )
    return [(paths[one.row], one.text) for one in client.append(table).refused]


_PING: Final = b"application/vnd.ms-servicebus-ping"


def portions(manifests: Sequence[HourManifest]) -> Iterator[list[HourManifest]]:
    """Consecutive hours that are sent together; an hour is never split, and hours of
    the same time stay together."""
    portion: list[HourManifest] = []
    count = 0
    for manifest in manifests:
        begins = not portion or _time(manifest) != _time(portion[-1])
        if portion and begins and count + manifest.count > _PORTION_ROWS:
            yield portion
            portion, count = [], 0
        portion.append(manifest)
        count += manifest.count
    if portion:
        yield portion


def _time(manifest: HourManifest) -> tuple[str, str]:
    return manifest.hour.date, manifest.hour.hour


def _ordered(
    rows: "DataFrame", targets: dict[str, str], *, is_paced: bool
) -> "DataFrame":
    """With all messages of a target in one task, in the order of time."""
    from pyspark.sql.functions import create_map, lit

    pairs = (lit(text) for pair in targets.items() for text in pair)
    target = create_map(*pairs)[rows["entity"]]
    chosen = rows.select(*COLUMNS, target.alias("target"))
    count = 1 if is_paced else len(set(targets.values()))
    spread = chosen.repartition(count, "target")
    by_time = ("enqueued_time", "partition", "sequence_number")
    return spread.sortWithinPartitions(*by_time).drop("target")


def _function(function: Any, schema: str) -> "Callable[..., Column]":
    """Over columns of Arrow. It is marked as nondeterministic, so that Spark neither
    calls it twice nor moves it before the sort."""
    from pyspark.sql.pandas.functions import arrow_udf

    make: Any = arrow_udf
    made: Callable[..., Column] = make(function, schema).asNondeterministic()
    return made


def _write_options(options: ReplayOptions) -> "WriteOptions":
    """Those of a write that has only whole messages."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    from twinbus.spark.write_options import write_options

    schema = StructType(
        [StructField("entity", StringType()), StructField("raw", BinaryType())]
    )
    given = {
        "credential": options.credential,
        "timeout": f"{options.timeout_ms}ms",
    }
    return write_options(given, schema, overwrite=False)


@contextmanager
def _small_batches(spark: "SparkSession") -> Iterator[None]:
    """Change a setting for a while, in a session that may have another value."""
    given = spark.conf.get(_ARROW_ROWS)
    spark.conf.set(_ARROW_ROWS, str(_ARROW_ROWS_COUNT))
    try:
        yield
    finally:
        spark.conf.set(_ARROW_ROWS, str(given))


def run(
    spark: "SparkSession",
    options: ReplayOptions,
    on_progress: Callable[[ReplaySummary], None] | None = None,
) -> ReplaySummary:
    """Run the job to its end. Raises JobError, LakeError."""
    return ReplayRun(spark, options, on_progress).main()
