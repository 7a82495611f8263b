"""The page of a report: one HTML file, without scripts and without the network.

Each plot has its words as alternative text and a table beside it. Nothing on the page
says when it was made, so that the same log gives the same page.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.dead_letter_group import group_markup
from twinbus.spark.jobs.report.figures import Plot
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.markup import Head, paragraph, table
from twinbus.spark.jobs.report.page_style import STYLE
from twinbus.spark.jobs.report.plot_axes import MEASURES
from twinbus.spark.jobs.report.plots import busiest_sessions, entity_bills
from twinbus.spark.jobs.report.readable import (
    bytes_text,
    count_text,
    counted,
    ms_text,
    short,
    time_text,
)

_LONGEST: Final = 25
"""Rows of a table on the page; the file has all."""

_SLOWEST: Final = 5
_GROUPS: Final = 12
"""Groups of dead letters that are shown with samples."""

_CUT: Final = 80

Row = dict[str, Any]


def page_of(findings: Findings, plots: Sequence[Plot]) -> str:
    """The whole text of the file."""
    shown = {plot.name: plot for plot in plots}
    body = "".join(section(findings, shown) for section in _SECTIONS)
    title = escape(findings.title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: report</title><style>{STYLE}</style></head>"
        f"<body><header><h1>{title}</h1>{_span(findings)}</header>"
        f"<main>{body}</main></body></html>\n"
    )


def _span(findings: Findings) -> str:
    if findings.is_empty:
        return paragraph("No operations.")
    assert findings.first_at is not None and findings.last_at is not None
    length = (findings.last_at - findings.first_at).total_seconds() * 1_000
    return paragraph(
        f"{time_text(findings.first_at)} to {time_text(findings.last_at)} UTC "
        f"({ms_text(length)}), {count_text(findings.operation_count)} operations."
    )


Plots = dict[str, Plot]


def _section(name: str, title: str, *parts: str) -> str:
    content = "".join(parts)
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>'
        f"{content}</section>"
    )


def _figure(plots: Plots, name: str) -> str:
    """Both forms are there; the page's width decides which one is seen and read."""
    if name not in plots:
        return ""
    plot = plots[name]
    words = escape(plot.words)
    forms = "".join(
        f'<div class="{kind}" role="img" aria-label="{words}">{svg}</div>'
        for kind, svg in (("wide", plot.wide_svg), ("narrow", plot.narrow_svg))
    )
    return f"<figure>{forms}<figcaption>{words}</figcaption></figure>"


def _overview(findings: Findings, plots: Plots) -> str:
    figures = [
        (count_text(_sum(findings, tables.COURSE, "operations", what=what)), word)
        for what, word in (
            ("sent", "sent"),
            ("delivered", "delivered"),
            ("completed", "completed"),
        )
    ]
    dead = _sum(findings, tables.DEAD_LETTER_GROUPS, "messages")
    figures.append((count_text(dead), "dead letters"))
    delivery = findings.histograms.get("send_to_deliver")
    if delivery is not None:
        text = ms_text(delivery.percentile_ms(99))
        figures.append((text, "send to deliver, 99 %"))
    count, _, word = counted(findings.tables["outages"].num_rows, "outage").partition(
        " "
    )
    figures.append((count, word))
    cells = "".join(
        f"<li><b>{escape(value)}</b> <span>{escape(word)}</span></li>"
        for value, word in figures
    )
    remarks = "".join(f"<li>{escape(text)}</li>" for text in findings.remarks)
    notes = f'<div class="remarks"><h3>Read this first</h3><ul>{remarks}</ul></div>'
    return _section(
        "overview",
        "Overview",
        notes if findings.remarks else "",
        "" if findings.is_empty else f'<ul class="figures">{cells}</ul>',
        _figure(plots, "course"),
        _volumes(findings),
    )


def _sum(findings: Findings, of: tables.ReportTable, column: str, **only: str) -> int:
    return sum(
        row[column]
        for row in findings.rows(of)
        if all(row[name] == value for name, value in only.items())
    )


def _volumes(findings: Findings) -> str:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in findings.rows(tables.VOLUMES):
        own = sums.setdefault((row["operation"], row["result"] or ""), [0, 0])
        own[0] += row["operations"]
        own[1] += row["bytes"]
    if not sums:
        return ""
    rows = [
        {"operation": key[0], "result": key[1], "count": value[0], "bytes": value[1]}
        for key, value in sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    ]
    heads = (
        Head("Operation", lambda row: row["operation"].replace("_", " ")),
        Head("Result", lambda row: row["result"]),
        Head("Count", lambda row: count_text(row["count"]), True),
        Head("Size", lambda row: bytes_text(row["bytes"]), True),
    )
    return table("What the stores did", heads, rows)


def _latencies(findings: Findings, plots: Plots) -> str:
    rows = findings.rows(tables.PERCENTILES)
    whole = [row for row in rows if row["entity"] is None]
    parts = [row for row in rows if row["entity"] is not None]
    if not rows:
        none = paragraph("No message was delivered in this time.")
        return _section("latencies", "Latencies", none)
    order = list(MEASURES)
    whole.sort(key=lambda row: order.index(row["measure"]))
    slowest = [row for measure in order for row in _slowest(parts, measure)]
    entity = Head("Entity", lambda row: short(row["entity"], _CUT))
    return _section(
        "latencies",
        "Latencies",
        _figure(plots, "latency-distribution"),
        table("All entities", _percentile_heads(), whole),
        _figure(plots, "latency-course"),
        table(
            f"Entities: the {_SLOWEST} slowest for each measure",
            (entity, *_percentile_heads()),
            slowest,
        ),
        _MEANING,
    )


def _slowest(rows: Sequence[Row], measure: str) -> list[Row]:
    own = [row for row in rows if row["measure"] == measure]
    own.sort(key=lambda row: (-row["p99_ms"], str(row["entity"])))
    return own[:_SLOWEST]


_MEANING: Final = (
    "<dl><dt>Send to deliver</dt><dd>from when a message became available to its first "
    "delivery.</dd><dt>Deliver to complete</dt><dd>from its last delivery to its "
    "completion.</dd><dt>Dwell in backlog</dt><dd>how long a diverted message was in a "
    "backlog queue.</dd><dt>Restore lag</dt><dd>from when it was diverted to its "
    "arrival at the primary, by two clocks.</dd></dl>"
)


def _percentile_heads() -> tuple[Head, ...]:
    columns = (
        ("50 %", "p50_ms"),
        ("90 %", "p90_ms"),
        ("95 %", "p95_ms"),
        ("99 %", "p99_ms"),
        ("Longest", "greatest_ms"),
    )
    return (
        Head("Measure", lambda row: MEASURES[row["measure"]]),
        Head("Messages", lambda row: count_text(row["messages"]), True),
        *(Head(title, _duration(name), True) for title, name in columns),
    )


def _duration(name: str) -> Callable[[Row], str]:
    return lambda row: ms_text(row[name])


def _first(text: str, rows: Sequence[Row]) -> str:
    """How much of a table is on the page."""
    if len(rows) <= _LONGEST:
        return text
    return f"{text}: {_LONGEST} of {count_text(len(rows))}"


def _skew(findings: Findings, plots: Plots) -> str:
    rows = findings.rows(tables.SKEW)
    if not rows:
        none = paragraph("No entity has more than one fragment with messages.")
        return _section("fragments", "Fragments", none)
    heads = (
        Head("Entity", lambda row: short(row["entity"], _CUT)),
        Head("Fragments", lambda row: str(row["fragments"]), True),
        Head("Messages", lambda row: count_text(row["sent"]), True),
        Head("Fullest", lambda row: f"no. {row['fullest_fragment']}", True),
        Head("Its messages", lambda row: count_text(row["fullest_sent"]), True),
        Head("By the mean", lambda row: f"{row['skew']:.2f}", True),
    )
    return _section(
        "fragments",
        "Fragments",
        _figure(plots, "fragment-skew"),
        table(_first("The most uneven first", rows), heads, rows[:_LONGEST]),
    )


def _sessions(findings: Findings, plots: Plots) -> str:
    rows = busiest_sessions(findings)
    if not rows:
        none = paragraph("No message had a session.")
        return _section("sessions", "Busiest sessions", none)
    heads = (
        Head("Entity", lambda row: short(row["entity"], _CUT)),
        Head("Session", lambda row: short(row["session_id"], _CUT)),
        Head("Sent", lambda row: count_text(row["sent"]), True),
        Head("Delivered", lambda row: count_text(row["delivered"]), True),
        Head("Size", lambda row: bytes_text(row["bytes"]), True),
    )
    return _section(
        "sessions",
        "Busiest sessions",
        _figure(plots, "busiest-sessions"),
        table(_first("The busiest first", rows), heads, rows[:_LONGEST]),
    )


def _dead_letters(findings: Findings, plots: Plots) -> str:
    groups = findings.rows(tables.DEAD_LETTER_GROUPS)
    if not groups:
        none = paragraph("No message became a dead letter.")
        return _section("dead-letters", "Dead letters", none)
    samples = findings.rows(tables.DEAD_LETTER_SAMPLES)
    shown = "".join(group_markup(row, samples) for row in groups[:_GROUPS])
    more = len(groups) - _GROUPS
    rest = f"{more} more groups are in tables/dead_letter_groups.csv."
    return _section(
        "dead-letters",
        "Dead letters",
        _figure(plots, "dead-letters"),
        paragraph(
            "These became dead letters in this time. Some may have been removed or "
            "resubmitted since."
        ),
        shown,
        paragraph(rest) if more > 0 else "",
    )


def _outages(findings: Findings, plots: Plots) -> str:
    rows = findings.rows(tables.OUTAGES)
    heads = (
        Head("Entity", lambda row: short(row["entity"] or "(not in the log)", _CUT)),
        Head("Began", lambda row: time_text(row["began_at"]), kind="time"),
        Head("Failed over", lambda row: time_text(row["failed_over_at"]), kind="time"),
        Head("Back", lambda row: time_text(row["back_at"]) or "not seen", kind="time"),
        Head(
            "Drained",
            lambda row: time_text(row["drained_at"]) or "not seen",
            kind="time",
        ),
        Head("Failed", lambda row: count_text(row["failed"]), True),
        Head("Diverted", lambda row: count_text(row["diverted"]), True),
        Head("Restored", lambda row: count_text(row["restored"]), True),
        Head("Pings", lambda row: count_text(row["pings"]), True),
    )
    shown = table(_first("Outages, in UTC", rows), heads, rows[:_LONGEST])
    return _section(
        "outages",
        "Outages and failover",
        _figure(plots, "outages"),
        shown if rows else paragraph("No send failed or was diverted."),
    )


def _costs(findings: Findings, plots: Plots) -> str:
    rows = entity_bills(findings)
    books = (
        Head("Price book", lambda row: short(row["book"], _CUT)),
        Head("It counts", lambda row: short(row["title"], _CUT)),
        Head("Operations", lambda row: count_text(round(row["billed"])), True),
        Head("Cost", _money, True),
    )
    bills = findings.bills()
    sums = [
        {"book": book.name, "title": book.title, **bills[book.name]}
        for book in findings.books
    ]
    heads = (
        Head("Entity", lambda row: short(row["entity"] or "(none)", _CUT)),
        *(Head(short(b.name, 30), _billed(b.name), True) for b in findings.books),
    )
    dearest = table(_first("Billed operations", rows), heads, rows[:_LONGEST])
    return _section(
        "costs",
        "Costs",
        _figure(plots, "costs"),
        table("In all", books, sums),
        dearest if rows else "",
    )


def _billed(book: str) -> Callable[[Row], str]:
    return lambda row: count_text(round(row[book]))


def _money(row: Row) -> str:
    return f"{row['cost']:,.4f} {row['currency']}" if row["cost"] else "-"


def _log(findings: Findings, plots: Plots) -> str:
    sources = (
        Head("Source", lambda row: short(row["source"], 24)),
        Head("Namespace", lambda row: short(row["namespace"], _CUT)),
        Head("Segments", lambda row: count_text(row["segments"]), True),
        Head("Rows", lambda row: count_text(row["rows"]), True),
        Head("First", lambda row: time_text(row["first_at"]), kind="time"),
        Head("Last", lambda row: time_text(row["last_at"]), kind="time"),
        Head(
            "Complete until", lambda row: time_text(row["complete_until"]), kind="time"
        ),
    )
    gaps = (
        Head("Source", lambda row: short(row["source"], 24)),
        Head("Why", lambda row: row["why"]),
        Head("What", lambda row: short(row["what"], _CUT)),
        Head(
            "After", lambda row: time_text(row["since"]) or "the beginning", kind="time"
        ),
        Head("Before", lambda row: time_text(row["until"]) or "the end", kind="time"),
    )
    missing = findings.rows(tables.LOG_GAPS)
    return _section(
        "log",
        "The log",
        table("What was read, in UTC", sources, findings.rows(tables.LOG_SOURCES)),
        table(_first("What is missing, in UTC", missing), gaps, missing[:_LONGEST])
        if missing
        else paragraph("Nothing is missing: the segments follow each other."),
        paragraph(
            "The folder of this page has all tables as CSV and Parquet, and the plots "
            "as PNG."
        ),
    )


_SECTIONS: Final[tuple[Callable[[Findings, Plots], str], ...]] = (
    _overview,
    _latencies,
    _outages,
    _dead_letters,
    _skew,
    _sessions,
    _costs,
    _log,
)
