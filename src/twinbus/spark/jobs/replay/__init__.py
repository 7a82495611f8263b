"""Sends captured messages of a lake again.

selection   what is wanted, and whether the lake has it undamaged
targets     where messages of an entity go
sending     makes the messages, and sends them: in executors
running     a run, from its start to its end
"""

from twinbus.spark.jobs.replay.options import ReplayedLife, ReplayOptions
from twinbus.spark.jobs.replay.running import ReplayRun, run
from twinbus.spark.jobs.replay.summary import ReplaySummary

__all__ = ["ReplayOptions", "ReplayRun", "ReplaySummary", "ReplayedLife", "run"]
