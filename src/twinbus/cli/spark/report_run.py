"""Runs `twinbus spark report`, and shows what it found."""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.spark.job_run import run_job
from twinbus.spark.jobs.report import ReportOptions, ReportSummary, run
from twinbus.spark.jobs.report.plot_axes import MEASURES
from twinbus.spark.jobs.report.readable import count_text, counted, ms_text


def require_matplotlib() -> None:
    """Raises Failure if it is not installed: it is an extra."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure(
            "This command needs matplotlib: pip install 'twinbus[report]'.",
            exit_codes.FAILED,
        )


def make_report(
    options: ReportOptions, master: str, conf: Sequence[str], *, is_json: bool
) -> None:
    """Run the job and print what it found. Raises Failure."""
    try:
        summary = run_job(
            "report",
            master,
            conf,
            lambda spark, show: run(spark, options, lambda step: show(step, 0, None)),
            is_json=is_json,
        )
    except OSError as error:
        place = error.filename or options.out
        raise Failure(f"{place}: {error.strerror}.", exit_codes.FAILED) from None
    if is_json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        _print(summary)


def _print(summary: ReportSummary) -> None:
    print(f"{counted(summary.operations, 'operation')}: {summary.page}")
    for measure, name in MEASURES.items():
        found = summary.latencies.get(measure)
        if found is not None:
            median, late = ms_text(found["p50_ms"]), ms_text(found["p99_ms"])
            print(f"{name}: half within {median}, 99 % within {late}")
    print(
        f"{counted(summary.dead_letters, 'dead letter')}, "
        f"{counted(summary.outages, 'outage')}, {count_text(summary.diverted)} "
        f"messages diverted, {count_text(summary.restored)} restored."
    )
    for book, cost in summary.costs.items():
        money = f", {cost['cost']:.2f} {cost['currency']}" if cost["cost"] else ""
        print(f"{book}: {count_text(round(cost['billed']))} operations{money}")
    for remark in summary.remarks:
        print(f"Note: {remark}")
