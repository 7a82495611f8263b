"""The command `twinbus` as a process: run to its end, or serving.

Every process gets its own working folder and none of the settings of the test process.
Processes that a test leaves running are ended by their ids.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import forked_command

import twinbus

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 30.0

_SOURCE = Path(twinbus.__file__).parents[1]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TWINBUS_") or name == "TWINBUS_PURE"
    }
    # Where nobody has contexts.
    nowhere = {"XDG_CONFIG_HOME": "/nonexistent"}
    return {**own, **nowhere, "PYTHONPATH": str(_SOURCE), **(extra or {})}


def run(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself, with nobody at the keyboard."""
    return forked_command.run(
        arguments, cwd=cwd, env=environment(env), seconds=PATIENCE_SECONDS
    )


def complaint(ended: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line of a command that failed; it has no secret."""
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (code, ""), line
    assert "SharedAccessKey=" not in line
    return line


class Serving:
    """`twinbus serve` from `ready` to its end."""

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        """`program` is started in place of `twinbus`."""
        self._cwd = cwd
        self._errors = (cwd / "stderr").open("w+")
        self._process = forked_command.start(
            ("serve", *arguments),
            cwd=cwd,
            env=environment(env),
            stderr=self._errors,
            program=program,
        )
        # Ends the wait for `ready` of a process that hangs.
        self._alarm = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        self._alarm.start()

    def __enter__(self) -> Self:
        self.lines = self._lines_until_ready()
        self._alarm.cancel()
        if self.lines[-1:] != ["ready"]:
            self.__exit__()
            raise AssertionError(f"no 'ready', but: {self.lines} {self.errors}")
        return self

    def __exit__(self, *error: object) -> None:
        self._alarm.cancel()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def _lines_until_ready(self) -> list[str]:
        lines: list[str] = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "ready":
                break
        return lines

    @property
    def errors(self) -> str:
        """What was written to stderr so far."""
        return Path(self._errors.name).read_text()

    @property
    def printed_connection_string(self) -> str:
        (line,) = (line for line in self.lines if line.startswith("Endpoint="))
        return line

    @property
    def connection_string(self) -> str:
        """What is printed, with the key where only its file is named."""
        line = self.printed_connection_string
        kept = re.search("<in (.+)>", line)
        if kept is None:
            return line
        return line.replace(kept[0], (self._cwd / kept[1]).read_text().strip())

    def part(self, pattern: str) -> str:
        """A part of the connection string."""
        match = re.search(pattern, self.connection_string)
        assert match is not None
        return match[1]

    @property
    def port(self) -> int:
        return int(self.part(r"Endpoint=sb://localhost:(\d+);"))

    @property
    def key(self) -> str:
        return self.part(r"SharedAccessKey=([^;]+);")

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()
