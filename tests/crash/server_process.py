"""`twinbus serve` as a process that a test may kill, stop, freeze and start again.

It keeps its data folder and its port. Processes that a test leaves running are killed
by their ids.
"""

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import forked_command
from forked_command import AnyProcess

import twinbus
from bench.free_port import free_port
from twinbus.amqp.sasl import plain
from twinbus.client import ClientConnection, connect
from twinbus.config.config import ROOT_KEY_NAME

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 30.0

_SOURCE = Path(twinbus.__file__).parents[1]


def environment() -> dict[str, str]:
    """That of the tests, without settings meant for another bus."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TWINBUS_") or name == "TWINBUS_PURE"
    }
    return {**own, "PYTHONPATH": str(_SOURCE)}


class ServerProcess:
    """A bus in a process of its own; `with` makes sure of its end."""

    def __init__(self, folder: Path, config: str = "", flags: tuple[str, ...] = ()):
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._flags = flags
        (folder / "bus.toml").write_text(config)
        self._process: AnyProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    # --- its life -------------------------------------------------------------

    def spawn(self, extra: Mapping[str, str] | None = None) -> None:
        """Start it, and do not wait until it is ready."""
        assert self._process is None, "it runs"
        arguments = ("--config", "bus.toml", "--data", "data", "--tls-port", "0")
        arguments += ("--http-port", "0")
        with (self.folder / "stderr").open("a") as errors:
            self._process = forked_command.start(
                ("serve", *arguments, "--port", str(self.port), *self._flags),
                cwd=self.folder,
                env={**environment(), **(extra or {})},
                stderr=errors,
            )

    async def start(self) -> None:
        """Start it and wait for the line `ready`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.to_thread(self.start_now)

    def start_now(self) -> None:
        """The same, for those who have no event loop."""
        self.spawn()
        lines = self._lines_until_ready()
        assert lines[-1:] == ["ready"], f"no 'ready', but: {lines} {self.errors}"

    def _lines_until_ready(self) -> list[str]:
        lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "ready":
                break
        return lines

    @property
    def process(self) -> AnyProcess:
        assert self._process is not None, "it does not run"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: what is not on disk or on the wire now never will be."""
        self.process.kill()
        self._reap()

    def _reap(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._process = None
        return code

    async def ended(self) -> int:
        """Wait for its end; returns the exit code."""
        return await asyncio.to_thread(self._reap)

    async def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return await self.ended()

    # --- what is seen of it ---------------------------------------------------

    @property
    def errors(self) -> str:
        """What it, and those before it, wrote to stderr."""
        return (self.folder / "stderr").read_text()

    @property
    def troubles(self) -> str:
        """The same without warnings, such as those of the short keys of tests, and
        without the audit."""
        usual = (": warning: ", " twinbus.audit: ")
        lines = self.errors.splitlines()
        return "\n".join(
            line for line in lines if not any(word in line for word in usual)
        )

    @property
    def key(self) -> str:
        return (self.data / "root-key").read_text().strip()

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024

    async def connect(self) -> ClientConnection:
        """A connection with all rights."""
        return await connect(
            "127.0.0.1", self.port, sasl=plain(ROOT_KEY_NAME, self.key)
        )
