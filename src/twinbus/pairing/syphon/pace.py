"""How many messages a worker asks for at a time: as many as it can restore in time.

Received messages are locked for a minute (P4), and are in memory. So a worker begins
with few, asks for twice as many while that goes well, and for half as many after a
batch that took long or was large. Pure.
"""

from typing import Final, final

_FIRST_COUNT: Final = 64
_SLOW_MS: Final = 10_000
_QUICK_MS: Final = 2_000
_BATCH_BYTES: Final = 8 * 1024 * 1024


@final
class Pace:
    """The size of the next batch of one worker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = min(_FIRST_COUNT, most)

    def worked(self, count: int, size_bytes: int, took_ms: int) -> None:
        """A batch of this many messages and bytes was processed."""
        if took_ms > _SLOW_MS or size_bytes > _BATCH_BYTES:
            self.count = max(self.count // 2, 1)
        elif (
            count >= self.count
            and took_ms <= _QUICK_MS
            and size_bytes * 2 <= _BATCH_BYTES
        ):
            self.count = min(self.count * 2, self._most)
