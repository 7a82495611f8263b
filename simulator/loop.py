"""An event loop with virtual time.

If no callback is ready, the clock jumps to the next timer. Nothing sleeps, polls or
uses a thread, so a run depends only on its inputs: the same coroutines with the same
random numbers take the same steps.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_END_OF_TIME_SECONDS = 10_000.0
"""No world runs this long."""


class NothingToWaitFor(Exception):
    """Every task waits for another, and no timer is set."""


class _NoSelector:
    """Replaces the selector of sockets: waiting lets virtual time pass."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise NothingToWaitFor("every task waits, and no timer is set")
        self._loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Callbacks and timers on a virtual clock, in seconds from 0."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_time = 0.0
        self._selector = _NoSelector(self)

    def time(self) -> float:
        return self._virtual_time

    def pass_time(self, seconds: float) -> None:
        self._virtual_time += max(seconds, 0.0)
        if self._virtual_time > _END_OF_TIME_SECONDS:
            raise NothingToWaitFor("only timers go on, nothing else happens")

    def _process_events(self, event_list: list[object]) -> None:
        """Does nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Does nothing: there are no other threads."""


def run_virtually(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in virtual time."""
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
