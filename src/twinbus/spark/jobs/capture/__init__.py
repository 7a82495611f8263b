"""Captures messages of a namespace into a lake.

sources       what is read: entities, and subscriptions of our own
checkpoint    what Spark's log says of a batch
batch_writer  writes a batch: files, manifest, coverage
compaction    makes one file of many, and finishes what a crash left
running       a run, from its start to its end
"""

from twinbus.spark.jobs.capture.options import CaptureOptions
from twinbus.spark.jobs.capture.running import CaptureRun, run
from twinbus.spark.jobs.capture.summary import CaptureSummary

__all__ = ["CaptureOptions", "CaptureRun", "CaptureSummary", "run"]
