"""What plots are made of, and that they come out the same each time."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from twinbus.spark.jobs.report.figures import drawn
from twinbus.spark.jobs.report.plots_over_time import PHASES, _with_breaks, phases_of

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return AT + timedelta(minutes=minutes)


def outage(**changes: Any) -> dict[str, Any]:
    return {
        "began_at": at(0),
        "failed_over_at": at(1),
        "last_at": at(5),
        "back_at": at(6),
        "drained_at": at(9),
        "diverted": 3,
        "restored": 3,
        **changes,
    }


def test_an_outage_fails_then_diverts_then_drains() -> None:
    assert phases_of(outage(), at(60)) == [
        (PHASES[0], at(0), at(1)),
        (PHASES[1], at(1), at(6)),
        (PHASES[2], at(6), at(9)),
    ]


def test_what_is_not_restored_drains_until_the_end() -> None:
    left = outage(restored=1, drained_at=None)
    assert phases_of(left, at(60))[-1] == (PHASES[2], at(6), at(60))


def test_sends_that_fail_and_are_not_diverted_are_one_phase() -> None:
    failing = outage(failed_over_at=None, drained_at=None, diverted=0, restored=0)
    assert phases_of(failing, at(60)) == [(PHASES[0], at(0), at(6))]


def test_a_line_breaks_where_nothing_was_measured() -> None:
    rows = [{"at": at(minute), "p50_ms": 7.0} for minute in (0, 1, 4)]
    found = _with_breaks(rows, "p50_ms", 60)
    assert [moment for moment, _ in found] == [at(0), at(1), at(2), at(4)]
    assert [math.isnan(ms) for _, ms in found] == [False, False, True, False]


def test_a_plot_is_the_same_each_time_and_names_no_date() -> None:
    def draw(axes: Any, frame: Any) -> None:
        axes.plot([AT, at(5)], [1, 2], label="$deadletterqueue")
        axes.legend()

    one, other = (drawn("name", "words", draw) for _ in range(2))
    assert one == other
    assert one.png.startswith(b"\x89PNG")
    for svg in (one.wide_svg, one.narrow_svg):
        assert svg.startswith("<svg") and svg.endswith("</svg>")
        assert "dc:date" not in svg
        # Text that can be searched and read aloud, as it is written.
        assert "$deadletterqueue</text>" in svg
