"""Commits of several stores of a process: one after the other, if that is quick.

What is sent while one store commits is collected by the next one. If that began to
commit at once, each commit would have a few messages under load, and a commit of few
costs about as much as one of many. With one store this comes by itself: it blocks the
loop while it commits.

A store waits for a millisecond at most. So slow stores work at the same time.
"""

import asyncio
from collections import deque
from typing import Final, final

_PATIENCE_SECONDS: Final = 0.001
"""Longer than an ordinary sync, and short beside that of a slow disk."""


@final
class CommitPace:
    """Of all stores of a process."""

    def __init__(self) -> None:
        # Commits that are under way.
        self._count = 0
        # Stores that are waiting, in the order in which they came.
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Before a commit. `end` must follow."""
        if self._count:
            await self._moment()
        self._count += 1

    def end(self) -> None:
        """After a commit, whatever became of it."""
        self._count -= 1
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                return

    async def _moment(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(_PATIENCE_SECONDS, _give, turn)
        try:
            await turn
        finally:
            timer.cancel()


def _give(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
