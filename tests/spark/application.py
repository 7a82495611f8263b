"""A Spark application in processes of its own, which a test kills as a whole."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

from crash.server_process import environment

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
        """Spark's workers are in groups of their own, but in the same session."""
        for process_id in _session_members(self._process.pid):
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()


class Drain:
    """Runs of `drain_job.py` over one folder and checkpoint, with these options."""

    def __init__(self, folder: Path, credential: str, **options: object) -> None:
        self.folder = folder
        self._credential = credential
        self._options = [f"{name}={value}" for name, value in options.items()]
        (folder / "out").mkdir(parents=True)

    def start(self, moment: str) -> Application:
        arguments = (str(self.folder), self._credential, moment, *self._options)
        return Application(self.folder, str(DRAIN_JOB), *arguments)

    def rows(self) -> list[tuple[str, str]]:
        """All that was read: entities and bodies."""
        return [
            (entity, body)
            for file in (self.folder / "out").glob("*.json")
            for entity, body in json.loads(file.read_text())
        ]


def _session_members(session_id: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        process_id = int(folder.name)
        try:
            if os.getsid(process_id) == session_id:
                found.append(process_id)
        except (ProcessLookupError, PermissionError):
            continue
    return found
