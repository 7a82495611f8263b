"""Runs `twinbus spark meter`, and shows the bills."""

import json
from collections.abc import Sequence
from typing import Final

from twinbus.cli.spark.job_run import run_job
from twinbus.cli.tables import print_table
from twinbus.spark.jobs.meter import MeterOptions, MeterSummary, run
from twinbus.spark.jobs.meter.meter_summary import BilledLine
from twinbus.spark.jobs.meter.pair_costs import PairCost

_SHOWN: Final = 20
"""Lines of each book on a terminal; --json has more, the table has all."""


def meter_logs(
    options: MeterOptions, master: str, conf: Sequence[str], *, is_json: bool
) -> None:
    """Run the job and print the bills. Raises Failure."""
    summary = run_job(
        "meter",
        master,
        conf,
        lambda spark, show: run(spark, options, lambda step: show(step, 0, None)),
        is_json=is_json,
    )
    if is_json:
        print(json.dumps(summary.as_json(), indent=2))
    else:
        _print(summary)


def _print(summary: MeterSummary) -> None:
    for total in summary.totals:
        lines = [line for line in summary.lines if line.book == total.book]
        print(f"\n{total.book}: {total.title}")
        _print_lines(lines[:_SHOWN])
        if len(lines) > _SHOWN:
            print(f"... and {len(lines) - _SHOWN} more lines.")
        price = "" if total.currency == "operations" else _price(total.cost)
        money = f", {price} {total.currency}" if price else ""
        print(f"total: {total.billed:,.0f} operations{money}")
    for title, costs in (
        ("The pair costs", summary.pair_costs),
        ("With the other settings it would cost", summary.what_if),
    ):
        for cost in costs:
            print(f"\n{title}, by {cost.book}: {_pair_line(cost)}")
    if summary.open_hours:
        print(
            f"\n{len(summary.open_hours)} hours are not complete, from "
            f"{summary.open_hours[0]}: their bills may be higher."
        )
    for gap in summary.gaps:
        print(f"gap: {gap}")
    print(
        f"\n{summary.rows:,} rows of {summary.hours:,} hours in {summary.seconds:.1f} s"
    )


def _print_lines(lines: Sequence[BilledLine]) -> None:
    headings = ("entity", "kind", "interactions", "billed", "cost")
    rows = [
        (
            f"{line.namespace}: {line.entity or '-'}",
            line.kind,
            f"{line.interactions:,}",
            f"{line.billed:,.0f}",
            _price(line.cost) if line.cost else "-",
        )
        for line in lines
    ]
    print_table(headings, rows, right=range(2, len(headings)))


def _price(cost: float) -> str:
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.6f}"


def _pair_line(cost: PairCost) -> str:
    money = f" ({_price(cost.cost)} {cost.currency})" if cost.cost else ""
    return (
        f"{cost.billed:,.0f} operations{money} in {cost.hours:,.1f} hours: "
        f"{cost.idle_receives:,.0f} empty polls, {cost.administration:,.0f} "
        f"administration requests, {cost.pings:,.0f} pings, {cost.detours:,.0f} for "
        f"the detour of {cost.diverted_messages:,} messages. Idle, it is "
        f"{cost.idle_of_30_days:,.0f} in 30 days."
    )
