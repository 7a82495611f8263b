"""Metering: billed operations per hour, entity, kind and key, and what a pair costs.

`run` is the job; the command is `twinbus spark meter`.
"""

from twinbus.spark.jobs.meter.meter_options import MeterOptions
from twinbus.spark.jobs.meter.meter_run import run
from twinbus.spark.jobs.meter.meter_summary import MeterSummary

__all__ = ["MeterOptions", "MeterSummary", "run"]
