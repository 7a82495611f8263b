"""A Spark application in processes of its own, which a test kills as a whole."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from crash.server_process import environment
from pyspark.sql import SparkSession

from .drain_job import drain
from .running import PATIENCE_SECONDS, until

DRAIN_JOB = Path(__file__).with_name("drain_job.py")


class Application:
    """Runs from the start; what it says is in the folder's `log`, what it prints in
    `printed`."""

    def __init__(self, folder: Path, *command: str, **variables: str) -> None:
        self._folder = folder
        with (folder / "log").open("a") as log, (folder / "printed").open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={**environment(), "PYSPARK_PYTHON": sys.executable, **variables},
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._kill()

    def kill_when(self, condition: Callable[[], object]) -> None:
        """It is ended in any case; the test fails if it does not come to that."""
        try:
            until(lambda: condition() or self._process.poll() is not None)
            assert self._process.poll() is None, f"it ended too early: {self._said()}"
        finally:
            self._kill()

    def finish(self) -> str:
        """Wait for its end, which must be a good one; what it printed."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        finally:
            self._kill()
        assert code == 0, self._said()
        return (self._folder / "printed").read_text()

    def _said(self) -> str:
        return (self._folder / "log").read_text()[-3_000:]

    def _kill(self) -> None:
        """Spark's workers are in groups of their own, but in the same session. One
        that is started meanwhile is killed by the next look."""
        while members := _session_members(self._process.pid):
            for process_id in members:
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
            self._process.poll()
        self._process.wait()


class Drain:
    """Runs of `drain_job.py` over one folder and checkpoint, with these options."""

    def __init__(self, folder: Path, credential: str, **options: object) -> None:
        self.folder = folder
        self._credential = credential
        self._options = {name: str(value) for name, value in options.items()}
        (folder / "out").mkdir(parents=True)

    def start(self, moment: str) -> Application:
        options = [f"{name}={value}" for name, value in self._options.items()]
        arguments = (str(self.folder), self._credential, moment, *options)
        return Application(self.folder, str(DRAIN_JOB), *arguments)

    def finish(self, spark: SparkSession) -> None:
        """The last run, to its end: nobody kills it, so it needs no processes of its
        own."""
        drain(spark, self.folder, {"credential": self._credential, **self._options})

    def rows(self) -> list[tuple[str, str]]:
        """All that was read: entities and bodies."""
        return [
            (entity, body)
            for file in (self.folder / "out").glob("*.json")
            for entity, body in json.loads(file.read_text())
        ]


def _session_members(session_id: int) -> list[int]:
    """Those that live: a process that has ended stays until its parent has asked."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        process_id = int(folder.name)
        try:
            in_session = os.getsid(process_id) == session_id
            if in_session and not _has_ended(folder):
                found.append(process_id)
        except (ProcessLookupError, PermissionError, FileNotFoundError):
            continue
    return found


def _has_ended(folder: Path) -> bool:
    """The state stands behind the name, which may have any characters in it."""
    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    return state in "ZX"
