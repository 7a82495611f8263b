"""How much a batch may still take. A thread reserves its part before it receives:
several threads read sessions, and together they must not take too much."""

import threading
from typing import Final

_CHUNK: Final = 500
"""Messages that are received and deferred together: few enough for their locks."""

_FEWEST_BYTES: Final = 256


class Allowance:
    """Limits of messages and bytes, shared by threads."""

    def __init__(self, messages: int, size_bytes: int, mean_bytes: int) -> None:
        """`mean_bytes` is the expected size of a message."""
        self._messages = messages
        self._size_bytes = size_bytes
        self._mean_bytes = max(mean_bytes, _FEWEST_BYTES)
        self._mutex = threading.Lock()

    def reserve(self, sharers: int = 1) -> int:
        """Reserve a part, if so many threads share; returns how many messages to ask
        for: at least one, or 0 if nothing is left."""
        with self._mutex:
            if self._messages <= 0 or self._size_bytes <= 0:
                return 0
            share = -(-self._messages // sharers)
            fitting = self._size_bytes // self._mean_bytes
            count = max(min(share, fitting, _CHUNK), 1)
            self._messages -= count
            self._size_bytes -= count * self._mean_bytes
            return count

    def spend(self, reserved: int, messages: int, size_bytes: int) -> None:
        """Report how much of a reservation was used; the rest is free again."""
        with self._mutex:
            self._messages += reserved - messages
            self._size_bytes += reserved * self._mean_bytes - size_bytes
