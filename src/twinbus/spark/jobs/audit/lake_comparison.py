"""What captures took out of the bus, held against what their lakes have.

The log names the reader that has settled a message, and the reader of a capture is its
lake. One pass finds all that was settled in bulk, which is kept. Counts and bounds of
it are compared with the manifests. Only where these do not tell, the numbers in the
files are. What was taken and is not there is judged by `lake_judgement.py`.
"""

from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit.judgement import LOST, UNKNOWN
from twinbus.spark.jobs.audit.kept_frames import kept
from twinbus.spark.jobs.audit.lake_contents import LakeContents, TakenRange
from twinbus.spark.jobs.lake.unreadable import unreadable_told
from twinbus.spark.jobs.operation_logs import OperationLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_PLACE: Final = ("generation", "subqueue", "fragment")
_MESSAGE: Final = ("generation", "subqueue", "sequence_number")

_SETTLED: Final = "operation = 'complete' AND result = 'ok' AND purpose = 'bulk'"

_LAKE_SUB_QUEUE: Final = (
    "CASE subqueue WHEN 'deadletter' THEN '$deadletterqueue' "
    "WHEN 'transferdeadletter' THEN '$transfer/$deadletterqueue' ELSE '' END"
)
"""As logs call it."""

_ENQUEUED_AT: Final = (
    "occurred_at - make_dt_interval(0, 0, 0, coalesce(age_ms, 0) / 1000)"
)
"""About: messages that were settled at once have one age, the mean of theirs."""

_WANTED: Final = (
    "reader string, generation string, subqueue string, fragment int, "
    "first bigint, end bigint, finding string"
)

_Wanted = tuple[str | None, str, str, int, int | None, int | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLake:
    """A lake, and what the logs say was taken for it."""

    contents: LakeContents
    taken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeComparison:
    """What was found of all lakes."""

    lakes: tuple[ComparedLake, ...] = ()
    # What is not in its lake; None: nothing.
    missing: "DataFrame | None" = None


def check_lakes(
    rows: "DataFrame", logs: OperationLogs, lakes: Sequence[LakeContents]
) -> None:
    """Raises LakeError for a lake of a namespace that the logs have nothing of."""
    names = {name.lower() for name in logs.namespaces}
    for one in lakes:
        if one.lake.identity.namespace_name.lower() in names:
            continue
        # A log may have another name, and entities of further namespaces. Generations
        # are nowhere twice.
        if not _has_any(rows, one.generations):
            one.lake.check_namespace(
                ", ".join(logs.namespaces), "Give the log of its namespace, too."
            )


def _has_any(rows: "DataFrame", generations: list[str]) -> bool:
    from pyspark.sql import functions as F

    if not generations:
        return False
    found = rows.where(F.col("generation").isin(generations))
    return bool(found.select("generation").take(1))


@contextmanager
def compared_lakes(
    rows: "DataFrame", lakes: Sequence[LakeContents]
) -> "Iterator[LakeComparison]":
    """Compare them; the findings are there as long as the context is. Raises
    LakeDamaged for a file that cannot be read."""
    from pyspark.sql import functions as F

    if not lakes:
        yield LakeComparison()
        return
    with ExitStack() as frames:
        taken = frames.enter_context(kept(_taken(rows, lakes)))
        ranges = _ranges(taken)
        compared: list[ComparedLake] = []
        missing: DataFrame | None = None
        for at, one in enumerate(lakes):
            concerned = [each for each in ranges if one.concerns(each)]
            count = sum(each.count for each in concerned)
            compared.append(ComparedLake(contents=one, taken=count))
            unproven = [each for each in concerned if not one.has_all(each)]
            if not unproven:
                continue
            lacking = _lacking(taken, one, unproven).withColumn("lake", F.lit(at))
            lacking = frames.enter_context(kept(lacking))
            with unreadable_told(one.lake, "Nothing was judged."):
                is_whole = lacking.count() == 0
            if not is_whole:
                missing = lacking if missing is None else missing.union(lacking)
        yield LakeComparison(lakes=tuple(compared), missing=missing)


def _taken(rows: "DataFrame", lakes: Sequence[LakeContents]) -> "DataFrame":
    """What captures have settled, and what nobody is known to have settled."""
    from pyspark.sql import functions as F

    readers = [one.lake.identity.reader for one in lakes]
    settled = rows.where(_SETTLED)
    known = settled.where(F.col("client").isNull() | F.col("client").isin(readers))
    return known.select(
        F.col("client").alias("reader"),
        "generation",
        F.expr("coalesce(subqueue, '')").alias("subqueue"),
        *("fragment", "sequence_number"),
        *("message_uid", "namespace", "entity"),
        F.col("occurred_at").alias("at"),
        F.expr(_ENQUEUED_AT).alias("enqueued_at"),
    )


def _ranges(taken: "DataFrame") -> list[TakenRange]:
    from pyspark.sql import functions as F

    grouped = taken.groupBy("reader", *_PLACE).agg(
        F.count("*").alias("taken_count"),
        F.min("sequence_number").alias("first"),
        F.max("sequence_number").alias("last"),
    )
    return [
        TakenRange(
            reader=row["reader"],
            place=(row["generation"], row["subqueue"], row["fragment"]),
            count=row["taken_count"],
            first=row["first"],
            last=row["last"],
        )
        for row in grouped.collect()
    ]


def _lacking(
    taken: "DataFrame", one: LakeContents, ranges: Sequence[TakenRange]
) -> "DataFrame":
    """Those that are not in the lake. `finding`: what that comes to as a rule."""
    from pyspark.sql import functions as F

    spark = taken.sparkSession
    listed = spark.createDataFrame([_wanted(one, each) for each in ranges], _WANTED)
    looked_for = F.broadcast(listed).alias("w")
    is_same = [F.col(f"t.{name}") == F.col(f"w.{name}") for name in _PLACE]
    is_in_span = F.expr(
        "w.first IS NULL OR "
        "(t.sequence_number >= w.first AND t.sequence_number < w.end)"
    )
    same_reader = F.col("t.reader").eqNullSafe(F.col("w.reader"))
    candidates = taken.alias("t").join(
        looked_for, [same_reader, *is_same, is_in_span], "inner"
    )
    chosen = candidates.select("t.*", "w.finding")
    manifests = one.manifests_of({each.place[0] for each in ranges})
    held = one.store.rows(spark, manifests).select(
        "generation", F.expr(_LAKE_SUB_QUEUE).alias("subqueue"), "sequence_number"
    )
    return chosen.join(held, list(_MESSAGE), "left_anti").select(
        *("finding", "message_uid", "namespace", "entity", "at", "enqueued_at"),
        F.lit(one.begins_on).cast("date").alias("begins_on"),
    )


def _wanted(one: LakeContents, taken: TakenRange) -> _Wanted:
    """What to look for. Without a reader it may be another's: then only what the
    capture has looked at, and nobody knows."""
    span = one.consumed.get(taken.place)
    if taken.reader is not None or (span is not None and span.is_own):
        return (taken.reader, *taken.place, None, None, LOST)
    assert span is not None, "what does not concern the lake is not looked for"
    return (None, *taken.place, span.first, span.end, UNKNOWN)
