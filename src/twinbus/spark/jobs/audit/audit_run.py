"""The audit as a job: digests of all messages, then a closer look at a few.

0. If there are lakes: is in there what captures took? One pass over what they settled.
1. Digests of buckets, one pass over the logs; buckets whose sides differ are opened.
2. A second pass: the rows of opened buckets, and of some others to compare clocks by;
   of the rest, counts of each entity.
3. Suspicions, judged by how far the logs reach, with a timeline each.
"""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from twinbus.clock import SystemClock
from twinbus.spark.jobs.audit import bucket_digests as digesting
from twinbus.spark.jobs.audit.audit_options import AuditOptions
from twinbus.spark.jobs.audit.audit_summary import (
    FOUND,
    NOT_KNOWN,
    PROVEN,
    AuditFinding,
    AuditSummary,
    EntityVerdict,
    TimelineStep,
)
from twinbus.spark.jobs.audit.audit_tables import FINDINGS, write_tables
from twinbus.spark.jobs.audit.clock_offsets import ClockOffsets, clock_offsets
from twinbus.spark.jobs.audit.entity_counts import EntityCounts, entity_counts
from twinbus.spark.jobs.audit.judgement import (
    BEFORE_LAKE,
    BEFORE_LOG,
    FAULTS,
    OPEN_TAIL,
    UNKNOWN,
    blind_gaps,
    judged,
)
from twinbus.spark.jobs.audit.kept_frames import kept
from twinbus.spark.jobs.audit.lake_comparison import (
    LakeComparison,
    check_lakes,
    compared_lakes,
)
from twinbus.spark.jobs.audit.lake_contents import read_lakes
from twinbus.spark.jobs.audit.lake_judgement import judged_missing, lake_verdicts
from twinbus.spark.jobs.audit.opened_rows import IS_OPENED, TIMELINE, opened_rows
from twinbus.spark.jobs.audit.primary_names import (
    primary_names,
    renamed_logs,
    renamed_rows,
)
from twinbus.spark.jobs.audit.row_weights import KINDS
from twinbus.spark.jobs.audit.sender_ends import SenderEnds, with_sender_ends
from twinbus.spark.jobs.audit.suspicions import suspicions_of
from twinbus.spark.jobs.job_session import job_session
from twinbus.spark.jobs.log_notes import check_namespaces, gap_lines, shown_instant
from twinbus.spark.jobs.operation_logs import LogGap, OperationLogs, find_logs
from twinbus.spark.jobs.operation_rows import rows_of
from twinbus.spark.jobs.segment_files import SENDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

_SAMPLE_BUCKETS: Final = 200
"""Opened for their times alone, of restored and of claimed messages each."""

_NOT_JUDGED: Final = ", ".join(
    f"'{name}'" for name in (OPEN_TAIL, BEFORE_LOG, BEFORE_LAKE)
)
"""Counted, and not shown one by one."""

_MARKED: Final = "marked"
_MARKED_SHARE: Final = 0.1
"""Of all buckets, to open because of marks; more would be a second scan."""


def run(
    spark: "SparkSession",
    options: AuditOptions,
    progress: Callable[[str], None] = lambda step: None,
) -> AuditSummary:
    """Audit some logs, and lakes. Raises OperationLogError and LakeError before
    anything is written."""
    clock = SystemClock()
    began = clock.monotonic()
    progress("checking the segments")
    logs = find_logs(options.logs, damaged_is_gap=options.damaged_is_gap)
    check_namespaces(logs, options.namespaces)
    lakes = read_lakes(spark, options.lakes)
    with job_session(spark, logs.rows):
        rows = rows_of(spark, logs)
        check_lakes(rows, logs, lakes)
        names = primary_names(logs, rows, options.primary)
        logs = renamed_logs(logs, names)
        rows = renamed_rows(rows, names)
        if lakes:
            progress("comparing lakes")
        with compared_lakes(rows, lakes) as compared:
            audit = _Audit(rows, logs, options, compared)
            summary = audit.summary(spark, progress)
    return replace(summary, seconds=(clock.monotonic() - began) / 1000)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The rows of messages that get a closer look."""

    rows: "DataFrame"
    # These, and all others as counts.
    counted: "DataFrame"
    buckets: int


class _Audit:
    """The steps, over one set of logs."""

    def __init__(
        self,
        rows: "DataFrame",
        logs: OperationLogs,
        options: AuditOptions,
        compared: LakeComparison,
    ) -> None:
        self._logs = logs
        self._options = options
        self._compared = compared
        self._all = rows
        self.buckets = digesting.bucket_count(logs.rows)
        self._has_claims = any(one.kind == SENDER for one in logs.sources)

    def summary(
        self, spark: "SparkSession", progress: Callable[[str], None]
    ) -> AuditSummary:
        """All steps. How long they took is not known here."""
        output = self._options.output
        tolerance = timedelta(seconds=self._options.tolerance_seconds)
        with self.opened(progress) as opened:
            progress("judging messages")
            offsets = clock_offsets(opened.rows)
            ends = with_sender_ends(self._logs, offsets, tolerance)
            logs = ends.logs
            missing = self._missing(opened.rows)
            found_here = judged(suspicions_of(opened.rows), logs, offsets, tolerance)
            with kept(_with_missing(found_here, missing)) as findings:
                found = _counted(findings)
                summary = AuditSummary(
                    entities=_verdicts(found, opened.counted, blind_gaps(logs)),
                    findings=self.shown(findings, opened.rows) if found else (),
                    totals=_totals(found),
                    rows=logs.rows,
                    buckets=self.buckets,
                    buckets_opened=opened.buckets,
                    complete_until=shown_instant(logs.complete_until()),
                    gaps=gap_lines(blind_gaps(logs)),
                    notes=_notes(ends, offsets, _totals(found)),
                    lakes=lake_verdicts(self._compared, missing),
                    seconds=0.0,
                )
                if output is not None:
                    progress("writing tables")
                    write_tables(spark, output, summary, findings, opened.rows)
        return summary

    def _missing(self, rows: "DataFrame") -> "DataFrame | None":
        missing = self._compared.missing
        return None if missing is None else judged_missing(missing, rows)

    @contextmanager
    def opened(self, progress: Callable[[str], None]) -> "Iterator[_Opened]":
        progress("taking digests")
        rows = digesting.with_bucket(self._all, self.buckets)
        digests = digesting.digests_of(rows, has_claims=self._has_claims)
        with kept(digests) as sums:
            chosen = self._chosen(rows, sums)
            with kept(chosen) as buckets:
                count = buckets.count()
                progress(f"opening {count:,} of {self.buckets:,} buckets")
                with kept(opened_rows(rows, buckets)) as found:
                    # Where its rows are is known to Spark when it has them.
                    found.count()
                    yield _Opened(found.where(IS_OPENED), found, count)

    def _chosen(self, rows: "DataFrame", digests: "DataFrame") -> "DataFrame":
        samples = [digesting.BROUGHT_BACK]
        looked_for = {digesting.BROUGHT_BACK: f"{digesting.BROUGHT_BACK} > 0"}
        if self._has_claims:
            samples.append(digesting.CLAIMED)
            looked_for[digesting.CLAIMED] = f"{digesting.CLAIMED} > 0"
            looked_for[_MARKED] = digesting.MAY_REPEAT
        counts = digesting.counted_buckets(digests, looked_for)
        wanted = [digesting.differs(has_claims=self._has_claims)]
        wanted += [self._sample(name, counts[name]) for name in samples]
        others = []
        # Marks tell a few buckets to look at. If they tell many, because most messages
        # arrive by the bus, another pass over the logs costs less.
        if self._has_claims and counts[_MARKED] <= self.buckets * _MARKED_SHARE:
            wanted.append(digesting.MAY_REPEAT)
        else:
            others.append(digesting.repeated_buckets(rows, has_claims=self._has_claims))
        if self._compared.missing is not None:
            # For their timelines.
            lacking = digesting.with_bucket(self._compared.missing, self.buckets)
            others.append(lacking.select("bucket"))
        found = digests.where(" OR ".join(wanted)).select("bucket")
        for more in others:
            found = found.union(more)
        return found.distinct() if others else found

    def _sample(self, name: str, count: int) -> str:
        """About so many buckets that have such messages: those with low numbers, which
        are hashes."""
        below = self.buckets
        if count > _SAMPLE_BUCKETS:
            below = self.buckets * _SAMPLE_BUCKETS // count
        return f"({name} > 0 AND bucket < {below})"

    def shown(
        self, findings: "DataFrame", rows: "DataFrame"
    ) -> tuple[AuditFinding, ...]:
        wanted = findings.where(f"finding NOT IN ({_NOT_JUDGED})")
        first = (
            wanted.orderBy("finding", "namespace", "entity", "message_uid")
            .limit(self._options.shown)
            .collect()
        )
        uids = sorted({row["message_uid"] for row in first})
        steps = _timelines(rows, uids)
        return tuple(
            AuditFinding(
                finding=row["finding"],
                message_uid=row["message_uid"],
                namespace=row["namespace"],
                entity=row["entity"] or "",
                found_at=row["found_at"],
                timeline=tuple(steps.get(row["message_uid"], ())),
            )
            for row in first
        )


def _with_missing(found: "DataFrame", missing: "DataFrame | None") -> "DataFrame":
    found = found.select(*FINDINGS)
    return found if missing is None else found.union(missing.select(*FINDINGS))


def _verdicts(
    found: dict[tuple[str, str, str], int],
    counted: "DataFrame",
    gaps: Iterable[LogGap],
) -> tuple[EntityVerdict, ...]:
    """One for each entity, by namespace and name."""
    by_place = entity_counts(counted)
    blind = {gap.namespace for gap in gaps}
    # A message may be lost on its way to an entity that no row is about.
    places = {*by_place, *((place[0], place[1]) for place in found)}
    return tuple(
        _verdict(place, by_place.get(place), found, place[0] in blind)
        for place in sorted(places)
    )


def _verdict(
    place: tuple[str, str],
    counts: EntityCounts | None,
    found: dict[tuple[str, str, str], int],
    is_blind: bool,
) -> EntityVerdict:
    numbers = counts.counted if counts else dict.fromkeys(KINDS, 0)
    faults = {name: found.get((*place, name), 0) for name in (*FAULTS, UNKNOWN)}
    if any(faults[name] for name in FAULTS):
        verdict = FOUND
    else:
        verdict = NOT_KNOWN if is_blind or faults[UNKNOWN] else PROVEN
    return EntityVerdict(
        namespace=place[0],
        entity=place[1],
        entity_kind=counts.entity_kind if counts else None,
        verdict=verdict,
        in_flight=counts.in_flight if counts else 0,
        **numbers,
        **faults,
    )


def _counted(findings: "DataFrame") -> dict[tuple[str, str, str], int]:
    """By namespace, entity and finding."""
    names = ("namespace", "entity", "finding")
    grouped = findings.groupBy(*names).count().collect()
    return {
        (row["namespace"], row["entity"] or "", row["finding"]): int(row["count"])
        for row in grouped
    }


def _totals(found: dict[tuple[str, str, str], int]) -> dict[str, int]:
    names = (*FAULTS, UNKNOWN, OPEN_TAIL, BEFORE_LOG, BEFORE_LAKE)
    totals = dict.fromkeys(names, 0)
    for (_, _, finding), count in found.items():
        totals[finding] += count
    return totals


def _timelines(rows: "DataFrame", uids: list[str]) -> dict[str, list[TimelineStep]]:
    from pyspark.sql import functions as F

    found: dict[str, list[TimelineStep]] = {}
    if not uids:
        return found
    steps = rows.where(F.col("message_uid").isin(uids)).select("message_uid", *TIMELINE)
    # Times as texts: Python would turn them into local ones.
    utc = F.expr("date_format(occurred_at, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")")
    ordered = steps.orderBy("occurred_at", "source", "operation")
    for row in ordered.withColumn("occurred_at", utc).collect():
        values = {name: row[name] for name in TIMELINE}
        found.setdefault(row["message_uid"], []).append(TimelineStep(**values))
    return found


def _notes(
    ends: SenderEnds, offsets: ClockOffsets, totals: dict[str, int]
) -> tuple[str, ...]:
    notes = []
    for name, seconds in (
        ("the secondary", offsets.secondary),
        ("the senders", offsets.senders),
    ):
        if seconds:
            way = "ahead of" if seconds > 0 else "behind"
            notes.append(
                f"The clock of {name} is about {abs(seconds):,.0f} s {way} the "
                "primary's: times were compared with that in mind."
            )
    if totals[OPEN_TAIL]:
        notes.append(
            f"{totals[OPEN_TAIL]:,} messages were sent after the logs were complete: "
            "they are judged when more is exported."
        )
    if ends.open_count:
        notes.append(
            f"{ends.open_count:,} senders have not closed their logs yet: what they "
            "have sent since is judged when more is exported."
        )
    if totals[BEFORE_LOG]:
        notes.append(
            f"{totals[BEFORE_LOG]:,} messages were sent before the log begins, and are "
            "not judged."
        )
    if totals[BEFORE_LAKE]:
        notes.append(
            f"{totals[BEFORE_LAKE]:,} messages are of days before the first that their "
            "lake has, and are not judged."
        )
    crashes = [gap for gap in ends.logs.gaps if gap.why == "crash"]
    if crashes:
        notes.append(
            f"{len(crashes)} crashes: locks and renewals of up to a second each may be "
            "missing; nothing that the audit uses is."
        )
    return tuple(notes)
