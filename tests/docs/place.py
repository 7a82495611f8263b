"""The environment for the code of a page: a folder, and a server as `make run` starts
it.

The folder looks like a clone after `make run`: it has `.venv`, and `data` of a running
server. The server's command is the Makefile's. It has a free port instead of 5672; that
number is the only change to a page's code.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

from bench.free_port import free_port

from .pages import ROOT, Block

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 600.0

_PORT = "5672"
# What a page says is printed: the comment beside the call.
_RUN = "scripts/run.sh"
_PRINTED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


class Place:
    """Where the blocks of one page are run, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".venv").symlink_to(sys.prefix)
        self._server: ServerProcess | None = None

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()

    def server(self, *arguments: str) -> "ServerProcess":
        """The server of this place, started at the first need."""
        if self._server is None:
            self._server = ServerProcess(self.folder, arguments)
        return self._server

    def run(self, block: Block) -> None:
        """Run a block; it must succeed and print what the page says it prints."""
        text, port = block.text, _PORT
        if "twinbus.testing" not in text:
            port = str(self.server().port)
            text = text.replace(f"localhost:{_PORT}", f"localhost:{port}")
        if block.language == "python":
            command = [sys.executable, "-W", "error", "-c", text]
        else:
            command = ["bash", "-euo", "pipefail", "-c", text]
        environment = {**clean_environment(), "TWINBUS_PORT": port}
        # A reader's contexts stay as they are.
        environment["XDG_CONFIG_HOME"] = str(self.folder / ".config")
        done = run(command, self.folder, environment)
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"
        said = _PRINTED.findall(text)
        if said:
            assert done.stdout.splitlines() == said, block.place


class ServerProcess:
    """The process that `make run` would start, from `ready` to its end."""

    def __init__(self, folder: Path, arguments: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        flags = ("--port", str(self.port), "--http-port", "0", "--tls-port", "0")
        flags += arguments
        self._errors = (folder / "server.stderr").open("w+")
        self._process = subprocess.Popen(
            make_run_command(*flags),
            cwd=folder,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        alarm = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        alarm.start()
        self.lines = self._lines_until_ready()
        alarm.cancel()

    def _lines_until_ready(self) -> list[str]:
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "ready":
                return lines
        self.stop()
        raise AssertionError(f"no 'ready', but: {lines}")

    @property
    def connection_string(self) -> str:
        [line] = (line for line in self.lines if line.startswith("Endpoint="))
        return line

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._errors.close()


def make_run_command(*flags: str) -> list[str]:
    """The command with which `make run` ends: the flags as the Makefile has them, the
    program as `scripts/run.sh` has it."""
    listing = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "run", f"ARGS={' '.join(flags)}"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = (line for line in listing.stdout.splitlines() if _RUN in line)
    *_, last = (ROOT / _RUN).read_text().splitlines()
    program = last.removeprefix("exec ").removesuffix(' "$@"').split()
    [_, given] = line.split(_RUN)
    return [str(ROOT / program[0]), *program[1:], *shlex.split(given)]


def run(
    command: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nobody at the keyboard."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def clean_environment() -> dict[str, str]:
    """The tests' own environment without their settings and those of make."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if name == "TWINBUS_PURE"
        or not (name.startswith(("TWINBUS_", "MAKE")) or name == "MFLAGS")
    }
    return {**ours, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
