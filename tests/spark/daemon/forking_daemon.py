"""PySpark's daemon, which has imported what a worker needs before it forks one.

    python -m forking_daemon WORKER_MODULE

A task that fails takes its worker with it, and tests let many tasks fail. Each new
worker would import PySpark and twinbus again, for longer than its task takes. PyArrow
is left to the workers: it starts a thread, and a process with threads must not fork.
"""

import importlib
import os
import sys

from pyspark import daemon

import twinbus.spark.sink
import twinbus.spark.source  # noqa: F401 - only imported

if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not survive a fork"
    daemon.manager()
