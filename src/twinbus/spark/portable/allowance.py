"""How much a batch may still take, reckoned by what it took."""

import threading
from typing import Final

_CHUNK: Final = 500
"""Messages that are received and deferred together: well within their locks' time."""

_FEWEST_BYTES: Final = 256


class Allowance:
    """Limits of messages and bytes. Threads that share it may each be a chunk ahead."""

    def __init__(self, messages: int, size_bytes: int, mean_bytes: int) -> None:
        """`mean_bytes` is what a message has, about."""
        self._messages = messages
        self._size_bytes = size_bytes
        self._mean_bytes = max(mean_bytes, _FEWEST_BYTES)
        self._mutex = threading.Lock()

    def chunk(self) -> int:
        """How many messages to ask for next; at least one, unless all is spent."""
        with self._mutex:
            if self._messages <= 0 or self._size_bytes <= 0:
                return 0
            fitting = self._size_bytes // self._mean_bytes
            return max(min(self._messages, fitting, _CHUNK), 1)

    def spend(self, messages: int, size_bytes: int) -> None:
        with self._mutex:
            self._messages -= messages
            self._size_bytes -= size_bytes

    @property
    def messages(self) -> int:
        with self._mutex:
            return max(self._messages, 0)
