"""Plots with time on one axis: what was done, latencies, dead letters, outages."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.figures import (
    COLOURS,
    GREY,
    HATCHES,
    PALE,
    Axes,
    Frame,
    Plot,
    drawn,
)
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.plot_axes import (
    MEASURES,
    duration_axis,
    legend_above,
    shade,
    time_axis,
)
from twinbus.spark.jobs.report.readable import count_text, counted, short

COURSES: Final = {
    "sent": "Sent",
    "delivered": "Delivered",
    "completed": "Completed",
    "diverted": "Diverted",
    "restored": "Restored",
    "refused": "Refused",
}
PHASES: Final = ("Sends fail", "Failed over", "Draining")
_REASONS: Final = 5
_ENTITIES: Final = 12


def course_plot(findings: Findings) -> Plot:
    rows = findings.rows(tables.COURSE)
    lines = {
        name: [(row["at"], row["operations"]) for row in rows if row["what"] == what]
        for what, name in COURSES.items()
    }
    lines = {name: points for name, points in lines.items() if points}
    sums = {name: sum(n for _, n in points) for name, points in lines.items()}
    said = ", ".join(f"{name.lower()} {count_text(n)}" for name, n in sums.items())

    def draw(axes: Axes, frame: Frame) -> None:
        for number, (name, points) in enumerate(lines.items()):
            whole = _with_zeros(points, findings)
            axes.step(
                [at for at, _ in whole],
                [n / findings.step_seconds for _, n in whole],
                where="post",
                label=name,
                color=COLOURS[number % len(COLOURS)],
                linestyle=("-", "--", ":", "-.")[number % 4],
                linewidth=1.6,
            )
        axes.set_ylabel("operations per second")
        axes.set_ylim(bottom=0)
        shade(axes, findings)
        time_axis(axes, findings, frame)
        legend_above(axes, frame)

    words = f"Operations over time. In all: {said or 'none'}."
    return drawn("course", words, draw, 3.4)


def _with_zeros(points: Sequence[Any], findings: Findings) -> list[Any]:
    """Steps without a row are steps in which nothing was done."""
    known = dict(points)
    step = timedelta(seconds=findings.step_seconds)
    at, end = min(known), max(known)
    found = []
    while at <= end:
        found.append((at, known.get(at, 0)))
        at += step
    return [*found, (at, 0)]


def latency_plot(findings: Findings) -> Plot | None:
    rows = findings.rows(tables.LATENCY_COURSE)
    if len({row["at"] for row in rows}) < 2:
        return None

    def draw(axes: Axes, frame: Frame) -> None:
        for number, (measure, name) in enumerate(MEASURES.items()):
            own = [row for row in rows if row["measure"] == measure]
            if not own:
                continue
            for column, style, width in (("p50_ms", "-", 1.8), ("p99_ms", ":", 1.4)):
                points = _with_breaks(own, column, findings.step_seconds)
                axes.plot(
                    [at for at, _ in points],
                    [ms for _, ms in points],
                    style,
                    marker="." if len(own) < 40 else "",
                    color=COLOURS[number],
                    linewidth=width,
                    label=name if column == "p50_ms" else None,
                )
        axes.set_yscale("log")
        duration_axis(axes.yaxis, *axes.get_ylim())
        shade(axes, findings)
        time_axis(axes, findings, frame)
        legend_above(axes, frame)

    words = (
        "Latencies over time: the median as a line, the 99th percentile dotted. The "
        "table below has the figures."
    )
    return drawn("latency-course", words, draw, 3.6)


def _with_breaks(
    rows: Sequence[dict[str, Any]], column: str, step_seconds: int
) -> list[tuple[datetime, float]]:
    """A line must not go on over steps in which nothing was measured."""
    step = timedelta(seconds=step_seconds)
    found: list[tuple[datetime, float]] = []
    for row in rows:
        if found and row["at"] > found[-1][0] + step:
            found.append((found[-1][0] + step, math.nan))
        found.append((row["at"], max(row[column], 0.5)))
    return found


def dead_letter_plot(findings: Findings) -> Plot | None:
    rows = findings.rows(tables.DEAD_LETTER_COURSE)
    if not rows:
        return None
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["reason"]] = sums.get(row["reason"], 0) + row["messages"]
    leading = sorted(sums, key=lambda reason: (-sums[reason], reason))[:_REASONS]
    groups = [*leading, *(["other reasons"] if len(sums) > _REASONS else [])]

    def draw(axes: Axes, frame: Frame) -> None:
        below: dict[datetime, int] = {}
        # A day is 1 on an axis of dates.
        width = findings.step_seconds / 86_400
        for number, group in enumerate(groups):
            own: dict[datetime, int] = {}
            for row in rows:
                name = row["reason"] if row["reason"] in leading else "other reasons"
                if name == group:
                    own[row["at"]] = own.get(row["at"], 0) + row["messages"]
            times = sorted(own)
            axes.bar(
                times,
                [own[at] for at in times],
                width,
                bottom=[below.get(at, 0) for at in times],
                align="edge",
                label=short(group or "(no reason)", 24 if frame.is_narrow else 40),
                color=COLOURS[number],
                edgecolor="white",
                hatch=HATCHES[number],
                linewidth=0.4,
            )
            for at in times:
                below[at] = below.get(at, 0) + own[at]
        axes.set_ylabel("dead letters")
        axes.yaxis.get_major_locator().set_params(integer=True)
        time_axis(axes, findings, frame)
        legend_above(axes, frame)

    said = ", ".join(f"{group or '(no reason)'} {sums[group]}" for group in leading)
    words = f"Dead letters over time by reason: {said}."
    return drawn("dead-letters", words, draw, 3.4)


def outage_plot(findings: Findings) -> Plot | None:
    rows = findings.rows(tables.OUTAGES)
    gaps = [gap for gap in findings.gaps if gap.since or gap.until]
    if not rows and not gaps:
        return None
    paths = list(dict.fromkeys(row["entity"] for row in rows))[:_ENTITIES]

    def draw(axes: Axes, frame: Frame) -> None:
        labels = []
        for place, path in enumerate(paths):
            for row in rows:
                if row["entity"] == path:
                    _bars(axes, place, row, findings)
            name = path or "(entity not in the log)"
            labels.append(short(name, 16 if frame.is_narrow else 40))
        for number, gap in enumerate(gaps):
            _gap(
                axes,
                len(paths),
                gap,
                findings,
                "Log is missing" if not number else None,
            )
        if gaps:
            labels.append("the log itself")
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        time_axis(axes, findings, frame)
        legend_above(axes, frame)

    words = (
        f"{counted(len(rows), 'outage')}, and {counted(len(gaps), 'gap')} in the log. "
        "The tables have their times."
    )
    return drawn("outages", words, draw, 1.4 + 0.42 * (len(paths) + bool(gaps)))


def phases_of(
    row: dict[str, Any], end: datetime
) -> list[tuple[str, datetime, datetime]]:
    """What an outage went through, with the begin and end of each."""
    began, over, back = row["began_at"], row["failed_over_at"], row["back_at"]
    drained = row["drained_at"]
    is_over = back or row["last_at"]
    moments = [(PHASES[0], began, over or is_over)]
    if over is not None:
        moments.append((PHASES[1], over, is_over))
    if drained is not None or row["restored"] < row["diverted"]:
        ends = end if row["restored"] < row["diverted"] else drained
        moments.append((PHASES[2], is_over, max(ends, is_over)))
    return [item for item in moments if item[2] > item[1]]


def _bars(axes: Axes, place: int, row: dict[str, Any], findings: Findings) -> None:
    assert findings.last_at is not None
    for name, begin, end in phases_of(row, findings.last_at):
        number = PHASES.index(name)
        axes.barh(
            place,
            end - begin,
            0.5,
            left=begin,
            label=name,
            color=(COLOURS[4], COLOURS[1], COLOURS[0])[number],
            edgecolor="white",
            hatch=("", "////", "....")[number],
            linewidth=0.4,
        )


def _gap(
    axes: Axes, place: int, gap: Any, findings: Findings, name: str | None
) -> None:
    assert findings.first_at is not None and findings.last_at is not None
    begin = max(gap.since or findings.first_at, findings.first_at)
    end = min(gap.until or findings.last_at, findings.last_at)
    if end >= begin:
        axes.barh(
            place,
            max(end - begin, timedelta(milliseconds=1)),
            0.5,
            left=begin,
            label=name,
            color=PALE,
            edgecolor=GREY,
            hatch="xxxx",
            linewidth=0.8,
        )
