"""Makes a report: checks the logs, asks Spark, draws, writes."""

from typing import TYPE_CHECKING

from twinbus.clock import SystemClock
from twinbus.spark.jobs.job_session import job_session
from twinbus.spark.jobs.operation_logs import find_logs
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.gathering import Gathering, Show
from twinbus.spark.jobs.report.histogram import PERCENTS
from twinbus.spark.jobs.report.options import ReportOptions
from twinbus.spark.jobs.report.page import page_of
from twinbus.spark.jobs.report.plots import all_plots
from twinbus.spark.jobs.report.summary import ReportSummary
from twinbus.spark.jobs.report.tables import DEAD_LETTER_GROUPS, OUTAGES
from twinbus.spark.jobs.report.writing import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: "SparkSession",
    options: ReportOptions,
    show: Show = lambda step: None,
) -> ReportSummary:
    """Make a report. Raises OperationLogError if the logs cannot be used, and
    PriceBookError, before anything is written; OSError if it cannot be written."""
    clock = SystemClock()
    began = clock.monotonic()
    show("checking the segments")
    logs = find_logs(options.folders, damaged_is_gap=options.damaged_is_gap)
    with job_session(spark, logs.rows):
        gathering = Gathering(spark, logs, options, show)
        findings = gathering.findings()
    show("drawing")
    plots = tuple(all_plots(findings))
    page = page_of(findings, plots)
    path = write_report(options.out, findings, page, plots, gathering.hours)
    return _summary(findings, str(path), (clock.monotonic() - began) / 1_000)


def _summary(findings: Findings, page: str, seconds: float) -> ReportSummary:
    outages = findings.rows(OUTAGES)
    dead = findings.rows(DEAD_LETTER_GROUPS)
    first, last = findings.first_at, findings.last_at
    return ReportSummary(
        page=page,
        first_at=first.isoformat() if first else None,
        last_at=last.isoformat() if last else None,
        operations=findings.operation_count,
        latencies={
            measure: {
                "messages": item.count,
                **{f"p{p}_ms": item.percentile_ms(p) for p in PERCENTS},
                "greatest_ms": item.greatest_ms,
            }
            for measure, item in sorted(findings.histograms.items())
        },
        dead_letters=sum(row["messages"] for row in dead),
        outages=len(outages),
        diverted=sum(row["diverted"] for row in outages),
        restored=sum(row["restored"] for row in outages),
        gaps=len(findings.gaps),
        costs=findings.bills(),
        remarks=tuple(findings.remarks),
        tables={name: found.num_rows for name, found in findings.tables.items()},
        seconds=round(seconds, 1),
    )
