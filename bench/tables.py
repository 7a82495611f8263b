"""Results as Markdown tables: on the terminal and in the docs alike."""

from collections.abc import Iterable, Sequence

from bench.results import (
    BacklogResult,
    CaseResult,
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
