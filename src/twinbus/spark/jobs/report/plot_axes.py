"""Axes that several plots have: of time, of durations, and the names of lines."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.figures import COLOURS, Axes, Frame
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.readable import ms_text

MEASURES: Final = {
    "send_to_deliver": "Send to deliver",
    "deliver_to_complete": "Deliver to complete",
    "backlog_dwell": "Dwell in backlog",
    "restore_lag": "Restore lag",
}
DURATIONS_MS: Final = (
    *(1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000),
    *(36_000_000, 86_400_000, 864_000_000),
)


def shade(axes: Axes, findings: Findings) -> None:
    """Outages behind what was done, so that both can be compared."""
    for number, (begin, end) in enumerate(outage_times(findings)):
        axes.axvspan(
            begin,
            end,
            color=COLOURS[1],
            alpha=0.12,
            linewidth=0,
            zorder=0,
            label="Outage" if number == 0 else None,
        )


def outage_times(findings: Findings) -> list[tuple[datetime, datetime]]:
    """Times in which at least one entity was away."""
    found: list[tuple[datetime, datetime]] = []
    for row in findings.rows(tables.OUTAGES):
        begin, end = row["began_at"], row["back_at"] or row["last_at"]
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def time_axis(axes: Axes, findings: Findings, frame: Frame) -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates

    assert findings.first_at is not None and findings.last_at is not None
    step = timedelta(seconds=findings.step_seconds)
    axes.set_xlim(
        findings.first_at,
        max(findings.last_at, findings.first_at + step),
    )
    locator = dates.AutoDateLocator(minticks=3, maxticks=5 if frame.is_narrow else 10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set_xlabel("UTC")


def duration_axis(axis: Any, least_ms: float, greatest_ms: float) -> None:
    """Ticks that people know, such as minutes, instead of powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    fitting = [tick for tick in DURATIONS_MS if least_ms / 10 < tick < greatest_ms * 10]
    axis.set_major_locator(FixedLocator(fitting))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda ms, _: ms_text(ms)))


def legend_above(axes: Axes, frame: Frame) -> None:
    """Each name once, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    if not found:
        return
    axes.legend(
        list(found.values()),
        list(found),
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=_columns(list(found), frame),
        fontsize=9,
        borderaxespad=0.2,
        handlelength=2.2,
        columnspacing=1.2,
    )


def _columns(labels: Sequence[str], frame: Frame) -> int:
    """How many names fit beside each other."""
    room = 46 if frame.is_narrow else 110
    # A line and space beside each name are as wide as some letters.
    return max(room // (max(map(len, labels)) + 7), 1)
