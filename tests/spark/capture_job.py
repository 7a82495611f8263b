"""Captures a queue, up to a step of a batch at which it waits to be killed.

    python capture_job.py LAKE CREDENTIAL QUEUE STEP SIGN

STEP is the number of a change that it would make to the lake; the file SIGN appears
when it has come to it.
"""

import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from twinbus.spark.jobs.capture import CaptureOptions, run, running
from twinbus.spark.jobs.lake.folder import LocalFolder


class WaitingFolder(LocalFolder):
    """Waits for ever instead of the n-th change."""

    left = 0
    sign = Path()

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            # The test kills us when it sees this.
            self.sign.touch()
            threading.Event().wait()

    def replace(self, path: str, text: str) -> None:
        self._step()
        super().replace(path, text)

    def move(self, source: str, target: str) -> None:
        self._step()
        super().move(source, target)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)


def main() -> None:
    lake, credential, queue, step, sign = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    folder = WaitingFolder(Path(lake))
    folder.left, folder.sign = int(step), Path(sign)
    running.open_folder = lambda spark, place: folder
    run(
        spark,
        CaptureOptions(
            credential=credential,
            lake=lake,
            entities=(queue,),
            consumes=True,
            max_messages=200,
        ),
    )
    spark.stop()


if __name__ == "__main__":
    main()
