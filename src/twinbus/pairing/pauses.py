"""Pauses between attempts of one call: short at first, then longer."""

import asyncio
from typing import Final, final

from twinbus.pairing.deadline import Deadline

_FIRST_MS: Final = 100
_LONGEST_MS: Final = 2_000


@final
class Pauses:
    """The pauses of one call."""

    def __init__(self) -> None:
        self._next_ms = _FIRST_MS

    def next_ms(self) -> int:
        """The length of the next pause."""
        pause_ms = self._next_ms
        self._next_ms = min(pause_ms * 2, _LONGEST_MS)
        return pause_ms

    async def wait(self, deadline: Deadline) -> None:
        """The next pause, or what is left of the call's time."""
        await asyncio.sleep(min(self.next_ms(), deadline.left_ms()) / 1000)
