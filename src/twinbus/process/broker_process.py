"""One broker as a child process of the supervisor."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

from twinbus.process.seat import Seat

_COMMAND: Final = (sys.executable, "-m", "twinbus")


class BrokerProcess:
    """Started once; a broker that is started again is another one."""

    def __init__(self, seat: Seat, arguments: Sequence[str]) -> None:
        self.seat = seat
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._forwarding: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, tell: Callable[[str], None]) -> None:
        """`tell` gets each line that it writes. Raises OSError."""
        self._process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.seat.variable()},
            pass_fds=self.seat.descriptors(),
            # Ctrl-C in a terminal reaches the supervisor alone, which stops all.
            start_new_session=True,
        )
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._forwarding.append(asyncio.create_task(_forward(stream, tell)))

    async def ended(self) -> int:
        """Wait for its end. Its exit code; negative: the signal that ended it."""
        assert self._process is not None
        code = await self._process.wait()
        await asyncio.gather(*self._forwarding)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Does nothing if it has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


async def _forward(stream: asyncio.StreamReader, tell: Callable[[str], None]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # A line that is longer than the buffer; the next one follows.
            continue
        if not line:
            return
        tell(line.decode(errors="replace").rstrip("\n"))
