"""The command `twinbus`, for brokers whose clock a test moves.

`python clocked_twinbus.py serve --brokers 3 ...` is the real command, except for the
time: that is in a file, which the test and all processes have mapped into memory. The
file also has, for each broker, the time up to which it has done all that was due.
"""

import asyncio
import contextlib
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "CLOCK_OF_THE_TEST"
BROKERS_MAX = 8

_NUMBER = struct.Struct("<q")
_BYTES = _NUMBER.size * (1 + BROKERS_MAX)


class ClockFile:
    """The time of the test, in milliseconds; how far each broker has come."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _BYTES)

    @staticmethod
    def make(path: Path, now: int) -> "ClockFile":
        path.write_bytes(_NUMBER.pack(now).ljust(_BYTES, b"\0"))
        return ClockFile(path)

    def now(self) -> int:
        return self._number(0)

    def advance(self, milliseconds: int) -> None:
        _NUMBER.pack_into(self._memory, 0, self.now() + milliseconds)

    def done_until(self, broker: int) -> int:
        return self._number(broker)

    def is_done(self, broker: int, now: int) -> None:
        _NUMBER.pack_into(self._memory, _NUMBER.size * broker, now)

    def _number(self, index: int) -> int:
        found: int
        (found,) = _NUMBER.unpack_from(self._memory, _NUMBER.size * index)
        return found


@contextlib.contextmanager
def _patched(clock: ClockFile) -> Iterator[None]:
    """Replaces the clock, the ticks, and what the supervisor starts."""
    from twinbus.clock import SystemClock
    from twinbus.errors import InternalError, ServerBusy
    from twinbus.process import broker_process, server

    async def tick_for_ever(self: Any) -> None:
        done, passing = 0, None
        while True:
            await asyncio.sleep(0.02)
            # Also while time passes: who waits for a store that is given to another
            # broker is told by a tick.
            self.tick()
            if passing is not None and passing.done():
                passing.result()
                passing = None
            if passing is None and (now := clock.now()) != done:
                passing, done = asyncio.create_task(let_time_pass(self, now)), now

    async def let_time_pass(self: Any, now: int) -> None:
        await do_what_is_due(self, now)
        clock.is_done(int(self.broker_name), now)

    async def do_what_is_due(self: Any, now: int) -> None:
        # The server does this only now and then, by the machine's clock.
        self.namespaces.tick(now)
        while True:
            self.tick()
            await self.namespace.idle.finished()
            serving = self.owners.serving()
            for owner in serving:
                with contextlib.suppress(ServerBusy, InternalError):
                    await owner.durable()
            if not any(owner.has_due_work() for owner in serving):
                return

    SystemClock.now = lambda self: clock.now()  # type: ignore[method-assign]
    server.Server._tick_for_ever = tick_for_ever  # type: ignore[method-assign]
    broker_process._COMMAND = (sys.executable, __file__)  # type: ignore[misc]
    yield


if __name__ == "__main__":
    with _patched(ClockFile(Path(os.environ[VARIABLE]))):
        from twinbus.cli.main import main

        main()
