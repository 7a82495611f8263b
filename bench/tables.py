"""Results as Markdown tables: on the terminal and in the docs alike."""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.results import (
    BacklogResult,
    CaseResult,
    Comparison,
    DiskResult,
    EntitiesResult,
    EntityLatency,
    InstructionsResult,
    RulesResult,
    StartResult,
    Summary,
    summarize,
)

TWINBUS = "twinbus"
PLAIN = "twinbus plain"
RABBITMQ = "RabbitMQ"

# Above this share of a core the load client may have been what was measured.
_CLIENT_BOUND_SHARE = 0.9

_REASON_SIZE = 200

CASE_COLUMNS = (
    "case",
    "server",
    "msg/s",
    "spread",
    "to RabbitMQ",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "CPU us/msg",
)

BACKLOG_COLUMNS = (
    "backlog",
    "messages",
    "loaded in s",
    "data MB",
    "loading MB",
    "at ready MB",
    "at work MB",
    "over small MB",
    "restart s",
    "first receive ms",
)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """First column to the left, figures to the right."""
    ruler = [":--", *("--:" for _ in columns[1:])]
    lines = [columns, ruler, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def case_rows(result: CaseResult) -> list[tuple[str, ...]]:
    """One row per server, and one per server that failed."""
    summaries = {name: summarize(rounds) for name, rounds in result.rounds.items()}
    rival = summaries.get(RABBITMQ)
    rows = [
        _summary_row(result.name, server, summary, rival)
        for server, summary in summaries.items()
    ]
    blank = ("",) * (len(CASE_COLUMNS) - 3)
    for server, reasons in result.failures.items():
        # The end of an error says more than its beginning; a table cell is one line.
        reason = " ".join(reasons[0].split())[-_REASON_SIZE:]
        rows.append((result.name, server, f"failed: {reason}", *blank))
    return rows


def case_table(results: Iterable[CaseResult]) -> str:
    return markdown_table(
        CASE_COLUMNS, [row for result in results for row in case_rows(result)]
    )


def backlog_table(backlogs: Sequence[BacklogResult]) -> str:
    """One row per backlog; memory over the smallest backlog of the same kind."""
    smallest: dict[str, BacklogResult] = {}
    for backlog in sorted(backlogs, key=lambda one: one.messages):
        smallest.setdefault(backlog.kind, backlog)
    rows = [_backlog_row(one, smallest[one.kind]) for one in backlogs]
    return markdown_table(BACKLOG_COLUMNS, rows)


def start_table(start: StartResult) -> str:
    return markdown_table(
        ("empty server", "value"),
        [
            ("first start to `ready`", f"{start.first_start_seconds:.2f} s"),
            ("next start to `ready`", f"{start.next_start_seconds:.2f} s"),
            ("memory at rest", f"{_megabytes(start.idle_bytes)} MB"),
        ],
    )


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Ratios of this tree to the other one: above 1 it is faster, or costs more."""
    columns = (
        *("case", "rounds", "msg/s", "other tree", "ratio", "spread"),
        *("CPU ratio", "spread", "least CPU ratio"),
    )
    return markdown_table(columns, [_comparison_row(one) for one in comparisons])


def _comparison_row(one: Comparison) -> tuple[str, ...]:
    rates, cpus = one.rate_ratios(), one.cpu_ratios()
    return (
        one.name,
        str(len(rates)),
        f"{summarize(one.here).rate:,.0f}",
        f"{summarize(one.there).rate:,.0f}",
        f"{median(rates):.3f}",
        f"{min(rates):.3f}..{max(rates):.3f}",
        f"{median(cpus):.3f}",
        f"{min(cpus):.3f}..{max(cpus):.3f}",
        f"{one.least_cpu_ratio():.3f}",
    )


def instructions_table(results: Sequence[InstructionsResult]) -> str:
    columns = ("case", "instructions", "spread", "other tree", "spread", "ratio")
    rows = [
        (
            one.name,
            f"{median(one.here):,.0f}",
            f"{min(one.here):,}..{max(one.here):,}",
            f"{median(one.there):,.0f}",
            f"{min(one.there):,}..{max(one.there):,}",
            f"{median(one.here) / median(one.there):.3f}",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def disk_table(results: Sequence[DiskResult]) -> str:
    """Bytes per message sent, with all that the store keeps besides it."""
    columns = ("body", "readers", "topic, bytes", "queues, bytes", "topic to queues")
    rows = [
        (
            f"{one.size} B",
            str(one.readers),
            f"{one.topic_bytes / one.messages:,.0f}",
            f"{one.queues_bytes / one.messages:,.0f}",
            f"{one.topic_bytes / one.queues_bytes:.2f}x",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def rules_table(results: Sequence[RulesResult]) -> str:
    """Each kind's rows, with the ratio to the one with the fewest rules."""
    columns = ("rules", "number", "msg/s", "spread", "to one rule", "CPU us/msg")
    fewest = {one.kind: one for one in sorted(results, key=lambda one: -one.count)}
    rows = []
    for one in results:
        summary, few = summarize(one.rounds), summarize(fewest[one.kind].rounds)
        ratio = summary.rate / few.rate
        rows.append(
            (
                one.kind,
                f"{one.count:,}",
                f"{summary.rate:,.0f}",
                f"{summary.lowest:,.0f}..{summary.highest:,.0f}",
                "" if one is fewest[one.kind] else f"{ratio:.2f}x",
                f"{summary.server_cpu_us:.1f}",
            )
        )
    return markdown_table(columns, rows)


def entities_table(results: Sequence[EntitiesResult]) -> str:
    """Bytes per entity are those beyond the first row, which has hardly any."""
    columns = (
        *("entities", "number", "created per s", "memory MB", "bytes per entity"),
        *("memory after restart MB", "bytes per entity", "restart s"),
    )
    first = results[0]
    rows = []
    for one in results:
        more = one.count - first.count
        created = one.created_bytes - first.created_bytes
        restarted = one.restarted_bytes - first.restarted_bytes
        rows.append(
            (
                one.kind,
                f"{one.count:,}",
                f"{one.created_per_second:,.0f}",
                f"{one.created_bytes / 1e6:.1f}",
                f"{created / more:,.0f}" if more else "",
                f"{one.restarted_bytes / 1e6:.1f}",
                f"{restarted / more:,.0f}" if more else "",
                f"{one.start_seconds:.2f}",
            )
        )
    return markdown_table(columns, rows)


def entity_latency_table(results: Sequence[EntityLatency]) -> str:
    columns = ("entities", "operation", "msg/s", "spread", "p50 ms", "p99 ms")
    rows = []
    for one in results:
        for operation, rounds in (("send", one.send), ("receive", one.receive)):
            summary = summarize(rounds)
            rows.append(
                (
                    f"{one.count:,}",
                    operation,
                    f"{summary.rate:,.0f}",
                    f"{summary.lowest:,.0f}..{summary.highest:,.0f}",
                    f"{summary.p50_us / 1000:.2f}",
                    f"{summary.p99_us / 1000:.2f}",
                )
            )
    return markdown_table(columns, rows)


def _backlog_row(backlog: BacklogResult, small: BacklogResult) -> tuple[str, ...]:
    growth = max(
        backlog.loading_bytes - small.loading_bytes,
        backlog.ready_bytes - small.ready_bytes,
        backlog.working_bytes - small.working_bytes,
    )
    return (
        backlog.kind,
        f"{backlog.messages:,}",
        f"{backlog.load_seconds:.1f}",
        _megabytes(backlog.data_bytes),
        _megabytes(backlog.loading_bytes),
        _megabytes(backlog.ready_bytes),
        _megabytes(backlog.working_bytes),
        "" if backlog is small else _megabytes(growth),
        f"{backlog.restart_seconds:.2f}",
        f"{backlog.first_receive_ms:.1f}",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _summary_row(
    case: str, server: str, summary: Summary, rival: Summary | None
) -> tuple[str, ...]:
    is_rival = server == RABBITMQ or rival is None
    ratio = "" if is_rival or rival is None else f"{summary.rate / rival.rate:.2f}x"
    is_client_bound = summary.client_cpu_share > _CLIENT_BOUND_SHARE
    return (
        case,
        server,
        f"{summary.rate:,.0f}" + (" (client-bound)" if is_client_bound else ""),
        f"{summary.lowest:,.0f}..{summary.highest:,.0f}",
        ratio,
        f"{summary.p50_us / 1000:.2f}",
        f"{summary.p99_us / 1000:.2f}",
        f"{summary.p999_us / 1000:.2f}",
        f"{summary.server_cpu_us:.1f}",
    )
