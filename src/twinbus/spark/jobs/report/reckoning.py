"""Makes the tables of a report from what Spark has reduced.

All input fits into memory, and is sorted at the end: the same operations give the same
tables, row by row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.histogram import PERCENTS, Histogram
from twinbus.spark.jobs.report.resubmission import resubmit_command
from twinbus.spark.jobs.report.tables import ReportTable

if TYPE_CHECKING:
    from twinbus.spark.jobs.operation_logs import OperationLogs

_STEPS: Final = (1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400)
_MOST_STEPS: Final = 150
HOUR_SECONDS: Final = 3_600

_COURSES: Final = {
    "send": "sent",
    "schedule": "sent",
    "lock": "delivered",
    "receive_and_delete": "delivered",
    "complete": "completed",
}
_TRANSFER: Final = "/x-servicebus-transfer/"


def step_for(span_seconds: float) -> int:
    """How long a step of the plots is, so that they have neither few nor too many."""
    fitting = (step for step in _STEPS if span_seconds <= step * _MOST_STEPS)
    return next(fitting, _STEPS[-1])


def hours_of(table: ReportTable, reduced: Any) -> Any:
    """Steps of a reduced Arrow table added up to hours."""
    import pyarrow.compute as pc

    hours = pc.floor_temporal(reduced["at"], unit="hour")
    keyed = reduced.append_column("hour_start", hours)
    aggregates = {"least_ms": "min", "greatest_ms": "max"}
    sums = ("operations", "messages", "sent", "delivered", "bytes", "billed", "cost")
    names = [column.name for column in table.columns]
    values = [name for name in names if name in sums or name in aggregates]
    keys = [name for name in names if name not in values]
    added = keyed.group_by(keys, use_threads=False).aggregate(
        [(name, aggregates.get(name, "sum")) for name in values]
    )
    renamed = added.rename_columns(
        [*keys, *values]
        if added.column_names[0] == keys[0]
        else [*values, *keys]  # as older versions of Arrow order them
    )
    return ordered(table, renamed)


def ordered(table: ReportTable, found: Any) -> Any:
    """With the columns and types of the table, sorted by all of them."""
    names = [column.name for column in table.columns]
    cast = found.select(names).cast(table.arrow_schema())
    return cast.sort_by([(name, "ascending") for name in names])


def made(table: ReportTable, rows: Iterable[Mapping[str, Any]]) -> Any:
    """An Arrow table of rows, in their order."""
    import pyarrow

    return pyarrow.Table.from_pylist(list(rows), schema=table.arrow_schema())


def course(volumes: Any, restored: Any, step_seconds: int) -> Any:
    """What stores did, over time. Backlog queues are counted apart, and what a syphon
    sends is restored: only the messages' uids tell."""
    counts: dict[tuple[datetime, str], int] = defaultdict(int)
    for row in volumes.to_pylist():
        what = _course_of(row)
        if what is not None:
            counts[floored(row["at"], step_seconds), what] += row["operations"]
    for row in restored.to_pylist():
        if row["restored_as"] != "restore":
            at = floored(row["at"], step_seconds)
            counts[at, "sent"] -= row["operations"]
            counts[at, "restored"] += row["operations"]
    return made(
        tables.COURSE,
        (
            {"at": at, "what": what, "operations": count}
            for (at, what), count in sorted(counts.items())
            if count
        ),
    )


def _course_of(row: Mapping[str, Any]) -> str | None:
    operation, result = row["operation"], row["result"]
    if result == "refused":
        return "refused"
    if result != "ok":
        return None
    is_backlog = _TRANSFER in (row["entity"] or "").lower()
    if operation == "divert" or (is_backlog and operation in ("send", "schedule")):
        return "diverted"
    if operation == "restore":
        return None if is_backlog else "restored"
    return None if is_backlog else _COURSES.get(operation)


def floored(at: datetime, step_seconds: int) -> datetime:
    seconds = int(at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % step_seconds, UTC)


Key = tuple[Any, ...]


def histograms(latencies: Any, keys: Sequence[str]) -> dict[Key, Histogram]:
    """Reduced latencies added up for each value of the keys."""
    found: dict[Key, Histogram] = defaultdict(Histogram)
    for row in latencies.to_pylist():
        found[tuple(row[key] for key in keys)].add(
            row["bucket"], row["messages"], row["least_ms"], row["greatest_ms"]
        )
    return dict(found)


def percentiles(latencies: Any) -> Any:
    """For each measure the row of all entities, then those of each."""
    whole = histograms(latencies, ("measure",))
    parts = histograms(latencies, ("measure", "namespace", "entity"))
    rows = []
    for (measure,), histogram in sorted(whole.items()):
        rows.append(_percentiles_of(histogram, measure=measure))
        own = [key for key in parts if key[0] == measure]
        for key in sorted(own, key=lambda key: tuple(map(str, key))):
            _, namespace, entity = key
            rows.append(
                _percentiles_of(
                    parts[key], measure=measure, namespace=namespace, entity=entity
                )
            )
    return made(tables.PERCENTILES, rows)


def _percentiles_of(histogram: Histogram, **names: str | None) -> dict[str, Any]:
    return {
        **names,
        "messages": histogram.count,
        **{f"p{item}_ms": histogram.percentile_ms(item) for item in PERCENTS},
        "greatest_ms": histogram.greatest_ms,
    }


def latency_course(latencies: Any, step_seconds: int) -> Any:
    steps: dict[tuple[datetime, str], Histogram] = defaultdict(Histogram)
    for (at, measure), item in histograms(latencies, ("at", "measure")).items():
        steps[floored(at, step_seconds), measure].merge([item])
    return made(
        tables.LATENCY_COURSE,
        (
            {
                "at": at,
                "measure": measure,
                "messages": histogram.count,
                "p50_ms": histogram.percentile_ms(50),
                "p99_ms": histogram.percentile_ms(99),
            }
            for (at, measure), histogram in sorted(steps.items())
        ),
    )


def skew(fragments: Any) -> Any:
    """Entities with several fragments, the most uneven first."""
    loads: dict[tuple[str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in fragments.to_pylist():
        loads[row["namespace"], row["entity"]][row["fragment"]] += row["sent"]
    rows: list[dict[str, Any]] = []
    for (namespace, entity), load in loads.items():
        sent = sum(load.values())
        if len(load) < 2 or not sent:
            continue
        fullest = min(load, key=lambda fragment: (-load[fragment], fragment))
        rows.append(
            {
                "namespace": namespace,
                "entity": entity,
                "fragments": len(load),
                "sent": sent,
                "fullest_fragment": fullest,
                "fullest_sent": load[fullest],
                "skew": load[fullest] * len(load) / sent,
            }
        )
    rows.sort(key=lambda row: (-row["skew"], row["namespace"], row["entity"]))
    return made(tables.SKEW, rows)


def dead_letter_groups(dead_letters: Any, newest: Any) -> Any:
    """Entities and reasons, those with the most dead letters first. `newest` has the
    numbers that the command names."""
    numbers: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in newest.to_pylist():
        if row["sequence_number"] is not None:
            key = (row["namespace"] or "", row["entity"] or "", row["reason"])
            numbers[key].append(row["sequence_number"])
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in dead_letters.to_pylist():
        groups[row["namespace"] or "", row["entity"] or "", row["reason"]].append(row)
    rows: list[dict[str, Any]] = [
        {
            "namespace": namespace,
            "entity": entity,
            "reason": reason,
            "messages": sum(row["messages"] for row in group),
            "first_at": min(row["first_at"] for row in group),
            "last_at": max(row["last_at"] for row in group),
            "command": resubmit_command(
                entity, sorted(numbers[namespace, entity, reason])
            ),
        }
        for (namespace, entity, reason), group in sorted(groups.items())
    ]
    rows.sort(key=lambda row: -row["messages"])
    return made(tables.DEAD_LETTER_GROUPS, rows)


_MADE_DEAD: Final = (
    *("dead_letter", "abandon", "lock_expired", "expire", "release", "forward"),
)


def dead_letter_samples(
    found: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> Any:
    """Samples with what other rows say about their messages: the id is in that of the
    send, who made it a dead letter in that of the same commit."""
    ids: dict[str, str] = {}
    makers: dict[tuple[str, int, str], Mapping[str, Any]] = {}
    for row in rows:
        uid = row["message_uid"]
        if row["message_id"] is not None:
            ids[uid] = min(row["message_id"], ids.get(uid, row["message_id"]))
        if row["operation"] in _MADE_DEAD:
            makers[row["source"], row["batch"], uid] = row
    samples = []
    for row in found:
        uid = row["message_uid"]
        maker = makers.get((row["source"], row["batch"], uid), {})
        counts = (row["delivery_count"], maker.get("delivery_count"))
        samples.append(
            {
                **row,
                "operation": maker.get("operation"),
                "message_id": ids.get(uid),
                "delivery_count": next((n for n in counts if n is not None), None),
                "client": maker.get("client"),
            }
        )
    order = ("namespace", "entity", "reason")
    samples.sort(key=lambda row: (*(str(row[name]) for name in order), row["place"]))
    return made(tables.DEAD_LETTER_SAMPLES, samples)


def dead_letter_course(dead_letters: Any, step_seconds: int) -> Any:
    counts: dict[tuple[datetime, str], int] = defaultdict(int)
    for row in dead_letters.to_pylist():
        counts[floored(row["at"], step_seconds), row["reason"]] += row["messages"]
    return made(
        tables.DEAD_LETTER_COURSE,
        (
            {"at": at, "reason": reason, "messages": count}
            for (at, reason), count in sorted(counts.items())
        ),
    )


def outages(spells: Any, returns: Iterable[Mapping[str, Any]]) -> Any:
    """Outages in the order of time, with how they ended."""
    ends = {(row["entity"], row["spell"]): row for row in returns}
    rows = []
    for row in spells.to_pylist():
        end = ends.get((row["entity"], row["spell"]), {})
        is_back = row["restored"] == row["diverted"]
        rows.append(
            {
                **row,
                "back_at": end.get("back_at"),
                "pings": end.get("pings") or 0,
                "drained_at": row["drained_at"] if is_back else None,
            }
        )
    rows.sort(key=lambda row: (row["began_at"], row["entity"] or ""))
    return made(tables.OUTAGES, rows)


def log_sources(logs: "OperationLogs") -> Any:
    return made(
        tables.LOG_SOURCES,
        (
            {
                "source": one.source,
                "namespace": one.namespace,
                "segments": one.segments,
                "rows": one.rows,
                "first_at": one.first_occurred_at,
                "last_at": one.last_occurred_at,
                "complete_until": one.complete_until,
            }
            for one in logs.sources
        ),
    )


def log_gaps(logs: "OperationLogs") -> Any:
    return made(
        tables.LOG_GAPS,
        (
            {
                "source": gap.source,
                "namespace": gap.namespace,
                "why": gap.why,
                "what": gap.what,
                "since": gap.since,
                "until": gap.until,
            }
            for gap in logs.gaps
        ),
    )
