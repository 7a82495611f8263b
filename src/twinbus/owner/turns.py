"""Shares of the loop's time, for those who ask for much at once.

A client can put thousands of frames into one write, and a hundred requests behind
them. What takes longer than a moment is cut: whoever has more to do asks whether the
turn is over, and if so goes on in the next, after everybody else has been heard. Those
with little to say never wait: they do not ask.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from twinbus.clock import Clock

_TURN_MS: Final = 5
"""Long enough for a full read of a busy client; short beside the 100 ms that nobody
may be kept waiting."""


class Turns:
    """One iteration of the event loop after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When the present turn is over; None: nobody has asked yet.
        self._ends_at: int | None = None
        # What waits for the next one, in the order in which it came.
        self._waiting: deque[Callable[[], None]] = deque()

    def is_over(self) -> bool:
        """Whether what takes time has to wait; the first who asks begins the turn."""
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
        """Leave the rest of the turn to a coroutine. It is heard in the next iteration,
        whatever others have done by then: to ask again could go on for ever."""
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
