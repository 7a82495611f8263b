"""S2: the whole Spark application is killed while it drains a backlog, again and again.

The application is the command itself, `twinbus spark syphon`, between two servers in
processes of their own.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from crash.server_process import environment
from pairs.syphon_world import PRIMARY, backlog

from .served import ServedBus
from .syphon_pair import (
    ENTITIES,
    QUEUES,
    Pair,
    Verdict,
    audit,
    bounds,
    divert_load,
    entity,
    load,
    side_of,
)

KILLS = 3
MESSAGES = 600

# A bound against hanging; never waited out. Spark takes its time to start.
PATIENCE_SECONDS = 400.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two servers."""
    of_primary = "".join(
        f'[queues."{entity(index)}"]\nrequires_session = true\n'
        for index in range(ENTITIES)
    )
    of_secondary = "".join(f'[queues."{backlog(i)}"]\n' for i in range(QUEUES))
    with ExitStack() as stack:
        sides = []
        for name, config in (("primary", of_primary), ("secondary", of_secondary)):
            folder = tmp_path / name
            folder.mkdir()
            bus = stack.enter_context(ServedBus(folder, config))
            bus.start_now()
            sides.append(side_of(bus, folder / "secret"))
        yield Pair(*sides)


class Application:
    """The command in a process group of its own."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self._log = folder / "log"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "twinbus", "spark", "syphon", "--json"),
                    *("--primary-name", PRIMARY, "--master", "local[2,4]"),
                    *("--checkpoint", str(folder / "checkpoint")),
                    *("--max-messages-per-batch", "100"),
                ],
                cwd=folder,
                env={
                    **environment(),
                    "TWINBUS_PRIMARY": pair.primary.credential,
                    "TWINBUS_SECONDARY": pair.secondary.credential,
                },
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """The driver, its Java, and what runs in their group."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def ended(self, timeout_seconds: float) -> str:
        """What it printed; it must have ended well."""
        out, _ = self._process.communicate(timeout=timeout_seconds)
        assert self._process.returncode == 0, self._log.read_text()[-3_000:]
        return out


@pytest.mark.timeout(1800)
def test_an_application_that_is_killed_again_and_again_loses_and_doubles_nothing(
    pair: Pair, tmp_path: Path
) -> None:
    messages = load(MESSAGES)
    divert_load(pair, messages)
    for kill in range(1, KILLS + 1):
        application = Application(pair, tmp_path)
        try:
            wait_for_restored(pair, application, kill * MESSAGES // (KILLS + 2))
        finally:
            application.kill()
    application = Application(pair, tmp_path)
    try:
        summary = json.loads(application.ended(PATIENCE_SECONDS))
    finally:
        if application.is_running():
            application.kill()
    assert audit(pair.primary, messages) == Verdict(MESSAGES, 0, 0, 0)
    assert pair.backlog_counts() == (0, 0)
    assert summary["left"] == 0 and summary["dead_lettered"] == {}


def wait_for_restored(pair: Pair, application: Application, count: int) -> None:
    """Until the primary has so many messages, and the application is at work still."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while restored_count(pair) < count:
        assert application.is_running(), "it ended before it was killed"
        assert time.monotonic() < ends_at, "nothing more was restored"
        pause.wait(0.02)


def restored_count(pair: Pair) -> int:
    found = bounds(pair.primary, "entity-*")
    return sum(part.active_count for one in found for part in one.fragments)
