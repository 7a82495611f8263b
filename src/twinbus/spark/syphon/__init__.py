"""The syphon as a Spark job: many cores bring back a large backlog.

    preparing   makes messages to send from those of a backlog queue: pure, in executors
    appending   sends them in order, and tells the result of each: in executors
    parked      which entities have messages waiting for them: pure, in the driver
    drain       restores and settles one batch
    running     a query from its start to its end, or until it is told to stop

The functions of the in-process syphon (`twinbus.pairing.syphon`) decide what happens to
a message, so that both kinds of syphon may run at the same time.
"""

from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.running import run_syphon
from twinbus.spark.syphon.summary import Summary

__all__ = ["Summary", "SyphonOptions", "run_syphon"]
