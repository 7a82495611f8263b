"""The command `twinbus` as a process, started without importing it anew.

A test process has one `fork_server.py`, which has imported all commands, and whose
children are the processes that tests ask for here. With TWINBUS_TEST_FRESH, as in the
nightly run, each is started as users start it.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

COMMAND: Final = (sys.executable, "-m", "twinbus")

FRESH: Final = "TWINBUS_TEST_FRESH"
"""Set: no process is forked."""

_SERVER = Path(__file__).parent / "fork_server.py"
# What Python and twinbus look at while they are imported.
_READ_AT_IMPORT = ("PYTHONPATH", "TWINBUS_PURE")


class ForkedProcess:
    """As much of `subprocess.Popen` as tests use."""

    def __init__(
        self, args: Sequence[str], pid: int, status: int, stdout: IO[str] | None
    ) -> None:
        self.args = args
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        # Readable when the process has ended; -1 after that.
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        """The exit code, or minus the number of the signal that ended it."""
        if self._status < 0 or not _is_readable(self._status, seconds):
            return self.returncode
        with self._lock:
            if self._status >= 0:
                told = os.read(self._status, 4)
                assert len(told) == 4, f"the fork server is gone, of process {self.pid}"
                self.returncode = int.from_bytes(told, signed=True)
                os.close(self._status)
                self._status = -1
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed and nobody has read yet, when it has ended."""
        self.wait(timeout)
        if self.stdout is None or self.stdout.closed:
            return "", ""
        with self.stdout:
            return self.stdout.read(), ""


AnyProcess = ForkedProcess | subprocess.Popen[str]


class _Forks:
    """The fork server of this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SERVER), str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._lock = threading.Lock()

    def start(self, request: bytes, streams: Sequence[int]) -> tuple[int, int]:
        """The process id of a new child, and where its status will be."""
        asked, ask = os.pipe()
        told, tell = os.pipe()
        with self._lock:
            socket.send_fds(self._control, [b"!"], [asked, *streams, tell])
            pid = int.from_bytes(self._control.recv(8, socket.MSG_WAITALL))
        os.close(asked)
        os.close(tell)
        with open(ask, "wb") as file:
            file.write(request)
        assert pid, "the fork server is gone"
        return pid, told

    def close(self) -> None:
        """It ends with its socket."""
        self._control.close()
        self._process.wait()


_forks: dict[tuple[str | None, ...], _Forks] = {}
_making = threading.Lock()


def start(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[str] | None = None,
    stderr: IO[str],
    program: Sequence[str] = (),
) -> AnyProcess:
    """Start a command, with nobody at the keyboard. Without `stdout` it can be read
    from the process. `program` is started in place of `twinbus`."""
    words = [str(argument) for argument in arguments]
    if program or os.environ.get(FRESH):
        return _start_fresh([*(program or COMMAND), *words], cwd, env, stdout, stderr)
    request = {"arguments": words, "folder": str(cwd), "environment": dict(env)}
    output, printed = os.pipe() if stdout is None else (-1, os.dup(stdout.fileno()))
    with open(os.devnull) as nothing:
        streams = (nothing.fileno(), printed, stderr.fileno())
        pid, status = _server(env).start(json.dumps(request).encode(), streams)
    os.close(printed)
    reader = open(output) if stdout is None else None
    return ForkedProcess((*COMMAND, *words), pid, status, reader)


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself, within so many seconds."""
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = start(arguments, cwd=cwd, env=env, stdout=output, stderr=errors)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            process.args, code, _content(output), _content(errors)
        )


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _start_fresh(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[str] | None,
    stderr: IO[str],
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=stderr,
        text=True,
    )


def _server(env: Mapping[str, str]) -> _Forks:
    key = tuple(env.get(name) for name in _READ_AT_IMPORT)
    with _making:
        if key not in _forks:
            _forks[key] = _Forks(env)
            atexit.register(_forks[key].close)
        return _forks[key]


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))
