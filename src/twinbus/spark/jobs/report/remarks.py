"""What a reader of a report must know before its figures: gaps, clocks, open ends."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.readable import ms_text, time_text

_OPEN_TAIL: Final = timedelta(minutes=5)
"""Logs of stores that end further apart than this are worth a word."""


def remarks_on(findings: Findings) -> tuple[str, ...]:
    """Sentences, the gravest first."""
    return tuple(_remarks(findings))


def _remarks(findings: Findings) -> Iterator[str]:
    if findings.is_empty:
        yield "The log has no operation in this time. So there is nothing to show."
    if findings.gaps:
        whys = sorted({gap.why for gap in findings.gaps})
        yield (
            f"The log has {len(findings.gaps)} gaps ({', '.join(whys)}). What happened "
            "in them is not in this report: counts are too low, and messages that were "
            "delivered or completed there have no latency."
        )
    if not any(one.kind == "sender" for one in findings.sources):
        yield (
            "There is no send log of a paired sender. So outages begin with the first "
            "diverted message, and sends that failed are not seen."
        )
    yield from _of_clocks(findings)
    yield from _of_ends(findings)
    open_outages = sum(row["back_at"] is None for row in findings.rows(tables.OUTAGES))
    if open_outages:
        yield (
            f"{open_outages} outages have no end in the log: nobody has sent to these "
            "entities directly since."
        )


def _of_clocks(findings: Findings) -> Iterator[str]:
    lag = findings.histograms.get("restore_lag")
    if lag is not None and lag.least_ms < 0:
        yield (
            "Messages were restored before they were diverted: the clocks of the two "
            f"sites are apart by {ms_text(-lag.least_ms)} or more. Restore lags are "
            "wrong by as much."
        )


def _of_ends(findings: Findings) -> Iterator[str]:
    # A sender that has closed its log has no more to say.
    known = [
        one
        for one in findings.sources
        if one.complete_until is not None and not one.is_closed
    ]
    if len(known) < 2:
        return
    ends = sorted(known, key=lambda one: (str(one.complete_until), one.source))
    first, last = ends[0], ends[-1]
    assert first.complete_until is not None and last.complete_until is not None
    if last.complete_until - first.complete_until > _OPEN_TAIL:
        yield (
            f"The log of {first.source} ends at {time_text(first.complete_until)}, "
            f"others go on until {time_text(last.complete_until)} UTC. In between, "
            "figures are too low. Run the report again when that log was exported."
        )
