"""A process that tells what it does in lines of JSON, and is told what to do in lines.

Times in these lines are those of the monotonic clock, which all processes of a machine
share. Every process is ended by its id, whatever happens to the one that started it.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 60.0
_TAIL_CHARACTERS = 3_000

Line = dict[str, Any]


class ProcessFailed(Exception):
    """It ended by itself, or did not do what it was told in time."""


class LineProcess:
    """One process; start it as often as it ends."""

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: Sequence[str],
        on_line: Callable[[str], None],
    ) -> None:
        self.name = name
        self._errors = folder / f"{name}.errors"
        self._arguments = arguments
        self._on_line = on_line
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def was_started(self) -> bool:
        return self._process is not None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    async def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        self._reading = asyncio.create_task(self._read(), name=f"lines of {self.name}")

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            self._on_line(line.decode().rstrip("\n"))

    def tell(self, line: Line) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        if self.runs:
            self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self) -> int:
        """Wait for its end and its last line; returns the exit code."""
        assert self._process is not None and self._reading is not None
        code = await self._process.wait()
        await self._reading
        return code

    async def stop(self) -> None:
        """Politely, and by force if it does not listen."""
        if self._process is None:
            return
        if self.runs:
            # A frozen one hears nothing else.
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.ended()
        except TimeoutError:
            await self.kill()

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        if not self._errors.exists():
            return ""
        return self._errors.read_text()[-_TAIL_CHARACTERS:]

    def check(self) -> None:
        """Raises if it has ended."""
        if not self.runs:
            raise ProcessFailed(f"{self.name} has ended: {self.errors()}")


class Teller:
    """The other end: what a process tells whoever started it, and is told."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await loop.connect_read_pipe(lambda: protocol, sys.stdin)

    async def told(self) -> Line:
        """The next line; the end of whoever started us ends us, too."""
        line = await self._reader.readline()
        if not line:
            raise SystemExit("nobody is there any more")
        found: Line = json.loads(line)
        return found

    def tell(self, kind: str, **values: object) -> None:
        print(json.dumps({"kind": kind, "at": time.monotonic(), **values}), flush=True)


async def until(
    condition: Callable[[], bool],
    what: str,
    seconds: float,
    processes: Sequence[LineProcess] = (),
    look_seconds: float = 0.05,
) -> float:
    """Wait until it holds, while these processes run; when that was."""
    ends_at = time.monotonic() + seconds
    while True:
        if condition():
            return time.monotonic()
        for process in processes:
            process.check()
        if time.monotonic() > ends_at:
            raise ProcessFailed(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(look_seconds)
