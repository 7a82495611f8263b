"""A report of what a bus did, from its operation log: tables, plots and one page."""

from twinbus.spark.jobs.report.options import ReportOptions
from twinbus.spark.jobs.report.running import run
from twinbus.spark.jobs.report.summary import ReportSummary

__all__ = ["ReportOptions", "ReportSummary", "run"]
