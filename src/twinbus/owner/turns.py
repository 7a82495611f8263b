"""Shares of the loop's time, for those who ask for much at once.

A client can put thousands of frames into one write, and a hundred requests behind
them. Such work is cut into turns: it asks whether the turn is over, and if so goes on
in the next one, after the other clients were served. Clients with little to do never
wait, because they do not ask.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from twinbus.clock import Clock

_TURN_MS: Final = 5
"""Long enough for a full read of a busy client, and short beside the 100 ms for which a
client may have to wait."""


class Turns:
    """One iteration of the event loop after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When the present turn is over; None: it has not begun.
        self._ends_at: int | None = None
        # What waits for the next one, in the order in which it came.
        self._waiting: deque[Callable[[], None]] = deque()

    def is_over(self) -> bool:
        """Long work has to wait for the next turn. The first call begins a turn."""
        now = self._clock.monotonic()
        if self._ends_at is None:
            self._ends_at = now + _TURN_MS
            asyncio.get_running_loop().call_soon(self._next)
        return now >= self._ends_at

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have this called in a later turn."""
        self._waiting.append(go_on)
        # So that there is one.
        self.is_over()

    async def begun(self) -> None:
        """Wait for a turn that has time left."""
        if self.is_over():
            turn = asyncio.get_running_loop().create_future()
            self.wait(partial(self._give, turn))
            await turn

    def _give(self, turn: asyncio.Future[None]) -> None:
        """Leave the rest of the turn to a coroutine. It runs in the next iteration in
        any case; if it had to ask again, it might wait for ever."""
        # Whoever waited may have been cancelled.
        if not turn.done():
            turn.set_result(None)
            self._ends_at = self._clock.monotonic()

    def _next(self) -> None:
        self._ends_at = None
        for _ in range(len(self._waiting)):
            if self.is_over():
                return
            self._waiting.popleft()()
