"""The plots of a report. Each has its words: what a reader would say who sees it."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from twinbus.spark.jobs.report import tables
from twinbus.spark.jobs.report.figures import (
    COLOURS,
    GREY,
    HATCHES,
    Axes,
    Frame,
    Plot,
    drawn,
)
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.histogram import Histogram, middle_ms
from twinbus.spark.jobs.report.plot_axes import MEASURES, duration_axis, legend_above
from twinbus.spark.jobs.report.plots_over_time import (
    course_plot,
    dead_letter_plot,
    latency_plot,
    outage_plot,
)
from twinbus.spark.jobs.report.readable import count_text, ms_text, short

_SESSIONS: Final = 15
_ENTITIES: Final = 12


def all_plots(findings: Findings) -> Iterator[Plot]:
    """Those that have something to show, in the order of the page."""
    if findings.is_empty:
        return
    for make in _PLOTS:
        plot = make(findings)
        if plot is not None:
            yield plot


def _distribution(findings: Findings) -> Plot | None:
    found = {
        name: findings.histograms[measure]
        for measure, name in MEASURES.items()
        if measure in findings.histograms
    }
    if not found:
        return None

    def draw(axes: Axes, frame: Frame) -> None:
        for number, (name, histogram) in enumerate(found.items()):
            xs, ys = _cumulated(histogram)
            axes.step(
                xs,
                ys,
                where="post",
                label=name,
                color=COLOURS[number],
                linestyle=("-", "--", ":", "-.")[number],
                linewidth=1.8,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 102)
        axes.set_ylabel("% took no longer")
        duration_axis(axes.xaxis, *axes.get_xlim())
        legend_above(axes, frame)

    said = "; ".join(
        f"{name}: half within {ms_text(item.percentile_ms(50))}, 99 % within "
        f"{ms_text(item.percentile_ms(99))}"
        for name, item in found.items()
    )
    return drawn("latency-distribution", f"Latencies, cumulated. {said}.", draw, 3.4)


def _cumulated(histogram: Histogram) -> tuple[list[float], list[float]]:
    xs, ys, seen = [middle_ms(min(histogram.counts))], [0.0], 0
    for bucket in sorted(histogram.counts):
        seen += histogram.counts[bucket]
        xs.append(middle_ms(bucket))
        ys.append(100 * seen / histogram.count)
    return xs, ys


def _skew(findings: Findings) -> Plot | None:
    ranked = findings.rows(tables.SKEW)[:_ENTITIES]
    if not ranked:
        return None
    loads: dict[tuple[str, str], dict[int, int]] = {}
    for row in findings.rows(tables.FRAGMENTS):
        own = loads.setdefault((row["namespace"], row["entity"]), {})
        own[row["fragment"]] = own.get(row["fragment"], 0) + row["sent"]

    def draw(axes: Axes, frame: Frame) -> None:
        names = []
        for place, row in enumerate(ranked):
            own = loads[row["namespace"], row["entity"]]
            mean = row["sent"] / row["fragments"]
            shares = [count / mean for count in own.values()]
            axes.plot(shares, [place] * len(shares), "o", color=COLOURS[0], alpha=0.45)
            axes.annotate(
                f"no. {row['fullest_fragment']}",
                (row["skew"], place),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
                color=GREY,
            )
            names.append(short(row["entity"], 18 if frame.is_narrow else 40))
        axes.axvline(1, color=COLOURS[1], linewidth=1.2, linestyle="--")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel("messages of a fragment, divided by the mean")
        axes.margins(x=0.12)

    worst = ranked[0]
    words = (
        f"Each dot is a fragment. The most uneven entity is {worst['entity']}: its "
        f"fragment {worst['fullest_fragment']} got {worst['skew']:.2f} times the mean."
    )
    return drawn("fragment-skew", words, draw, 1.1 + 0.34 * len(ranked))


def _sessions(findings: Findings) -> Plot | None:
    busiest = busiest_sessions(findings)[:_SESSIONS]
    if not busiest:
        return None

    def draw(axes: Axes, frame: Frame) -> None:
        length = 20 if frame.is_narrow else 48
        names = [
            short(f"{row['entity']}: {row['session_id']}", length) for row in busiest
        ]
        places = range(len(busiest))
        sent = [row["sent"] for row in busiest]
        delivered = [row["delivered"] for row in busiest]
        axes.barh([p - 0.2 for p in places], sent, 0.38, color=COLOURS[0], label="Sent")
        axes.barh(
            [p + 0.2 for p in places],
            delivered,
            0.38,
            color="white",
            edgecolor=COLOURS[1],
            hatch=HATCHES[1],
            label="Delivered",
        )
        axes.set_yticks(places, names)
        axes.set_ylim(len(busiest) - 0.4, -0.6)
        axes.set_xlabel("messages")
        axes.grid(visible=False, axis="y")
        legend_above(axes, frame)

    first = busiest[0]
    words = (
        f"The busiest session is {short(first['session_id'], 60)} of "
        f"{first['entity']}, with {count_text(first['sent'])} messages sent."
    )
    return drawn("busiest-sessions", words, draw, 1.3 + 0.32 * len(busiest))


def busiest_sessions(findings: Findings) -> list[dict[str, Any]]:
    """Of all entities, the busiest first."""
    return sorted(
        findings.rows(tables.SESSIONS),
        key=lambda row: (
            -max(row["sent"], row["delivered"]),
            str(row["namespace"]),
            str(row["entity"]),
            row["session_id"],
        ),
    )


def _costs(findings: Findings) -> Plot | None:
    bills = entity_bills(findings)[:_ENTITIES]
    if not bills:
        return None
    books = [book.name for book in findings.books]

    def draw(axes: Axes, frame: Frame) -> None:
        height = 0.76 / len(books)
        for number, book in enumerate(books):
            axes.barh(
                [
                    place + number * height - 0.38 + height / 2
                    for place in range(len(bills))
                ],
                [row[book] for row in bills],
                height,
                label=short(book, 30),
                color=COLOURS[number % len(COLOURS)],
                edgecolor="white",
                hatch=HATCHES[number % len(HATCHES)],
            )
        length = 18 if frame.is_narrow else 40
        axes.set_yticks(
            range(len(bills)),
            [short(row["entity"] or "(none)", length) for row in bills],
        )
        axes.set_ylim(len(bills) - 0.4, -0.6)
        axes.set_xlabel("billed operations")
        axes.grid(visible=False, axis="y")
        legend_above(axes, frame)

    said = "; ".join(
        f"{book}: {count_text(round(bill['billed']))}"
        for book, bill in findings.bills().items()
    )
    words = f"Billed operations by entity and price book. In all, {said}."
    return drawn("costs", words, draw, 1.3 + 0.34 * len(bills))


def entity_bills(findings: Findings) -> list[dict[str, Any]]:
    """For each entity its billed operations by book, the dearest first."""
    books = [book.name for book in findings.books]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in findings.rows(tables.COSTS):
        key = (row["namespace"] or "", row["entity"] or "")
        own = found.setdefault(
            key, {"namespace": key[0], "entity": key[1], **dict.fromkeys(books, 0.0)}
        )
        own[row["book"]] += row["billed"]
    return sorted(
        found.values(),
        key=lambda row: (
            -max(row[book] for book in books),
            row["namespace"],
            row["entity"],
        ),
    )


_PLOTS: Final[tuple[Callable[[Findings], Plot | None], ...]] = (
    course_plot,
    _distribution,
    latency_plot,
    outage_plot,
    dead_letter_plot,
    _skew,
    _sessions,
    _costs,
)
