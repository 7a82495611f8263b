"""The syphon as a Spark job: a large backlog brought back by many cores (S2).

    preparing   messages of a backlog queue, as they are to be sent: pure, in executors
    appending   sends them in order, and says what became of each: in executors
    parked      which entities have messages waiting for them: pure, in the driver
    drain       one batch: what waits and what is new, then what is settled
    running     a query from its start to its end, or until it is told to stop

What is decided about a message is decided by the functions of the in-process syphon
(`twinbus.pairing.syphon`), so that both may run at the same time.
"""

from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.running import run_syphon
from twinbus.spark.syphon.summary import Summary

__all__ = ["Summary", "SyphonOptions", "run_syphon"]
