"""How much may be added to a store in a database server.

The server's disk is not ours to look at: it says so when it is full. Who shares a
server can give a store a size of its own. That is measured now and then, and in between
counted by what was added.
"""

from typing import Final, final

UNLIMITED: Final = 1 << 62

_MEASURED_AGAIN: Final = 8
"""When this part of what was left is used up, the size is measured again."""


@final
class PostgresRoom:
    """Of one store; `max_bytes` 0: without a limit of ours."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes: int = max_bytes
        # As of the last measurement, and added since.
        self._left_bytes: int = 0
        self._added_bytes: int = 0

    def must_measure(self) -> bool:
        return self._max_bytes > 0 and (
            self._added_bytes >= self._left_bytes // _MEASURED_AGAIN
        )

    def measured(self, stored_bytes: int) -> None:
        self._left_bytes = max(0, self._max_bytes - stored_bytes)
        self._added_bytes = 0

    def added(self, size_bytes: int) -> None:
        self._added_bytes += size_bytes

    def left(self) -> int:
        if self._max_bytes == 0:
            return UNLIMITED
        return max(0, self._left_bytes - self._added_bytes)
