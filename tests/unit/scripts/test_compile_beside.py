"""A compilation beside a bus ends with the bus at the latest, and leaves no process.

The compilation is replaced by a program that starts another one, as setup.py starts C
compilers. Both hold a file lock, which is free when both have ended.
"""

import fcntl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "compile_beside.py"
PATIENCE_SECONDS = 60

NEVER_DONE = """\
import fcntl, subprocess, sys
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "3600"], pass_fds=[lock.fileno()])
open("started", "w")
child.wait()
"""


@pytest.fixture
def bus() -> Iterator[subprocess.Popen[bytes]]:
    """A process beside which to compile."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process
        process.kill()


def compile_beside(
    bus: subprocess.Popen[bytes], folder: Path, program: str
) -> subprocess.CompletedProcess[str]:
    (folder / "setup.py").write_text(program)
    command = [sys.executable, str(SCRIPT), str(bus.pid)]
    with (folder / "said").open("w") as said:
        return subprocess.run(command, cwd=folder, stdout=said, check=True, text=True)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_it_ends_with_the_bus_and_takes_the_compilers_along(
    bus: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    compile_beside(bus, tmp_path, NEVER_DONE)
    wait_until((tmp_path / "started").exists)
    assert not is_free(tmp_path / "lock")
    bus.kill()
    bus.wait()
    wait_until(lambda: is_free(tmp_path / "lock"))
    assert (tmp_path / "said").read_text() == ""


def test_it_does_not_end_the_bus(bus: subprocess.Popen[bytes], tmp_path: Path) -> None:
    program = "import sys; open('asked', 'w').write(' '.join(sys.argv))"
    compile_beside(bus, tmp_path, program)
    asked = tmp_path / "asked"
    wait_until(lambda: asked.exists() and asked.read_text().endswith("native"))
    assert bus.poll() is None


def test_a_failure_is_said_with_the_name_of_the_log(
    bus: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    compile_beside(bus, tmp_path, "raise SystemExit('no such luck')")
    wait_until(lambda: "build/native.log" in (tmp_path / "said").read_text())
    assert "no such luck" in (tmp_path / "build" / "native.log").read_text()
