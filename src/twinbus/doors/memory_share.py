"""What the connections of one kind may make the process keep, counted together.

Each connection has bounds of its own, but there are thousands of them. Strangers and
clients with a key have a share each, so that the former can take nothing from the
latter. Beyond a share those who hold most are cut off, the largest first and of equals
the one that has held it for longest: whoever comes with a little is not asked to pay
for it. Who holds next to nothing is never cut off; the number of connections bounds
what all of those have.
"""

import logging
from typing import Final, Protocol

from twinbus.clock import Clock
from twinbus.doors.log_pace import LogPace
from twinbus.errors import QuotaExceeded, ServiceBusError

_log = logging.getLogger(__name__)

_RELIEF: Final = 8
"""An eighth of the share is freed at a time, so that this is not done all the time."""


class Holder(Protocol):
    """A connection, as far as this is concerned."""

    def cut(self, error: ServiceBusError) -> None: ...


class MemoryShare:
    """Unfinished requests and unread answers of all connections of one kind."""

    def __init__(self, kind: str, limit: int, spared: int, clock: Clock) -> None:
        # For people: whose connections these are.
        self._kind = kind
        self.limit = limit
        # Nobody is cut off for so little.
        self._spared = spared
        self._clock = clock
        self.held = 0
        # Those who hold something, in the order in which they began to.
        self._sizes: dict[Holder, int] = {}
        self._pace = LogPace()

    def hold(self, holder: Holder, size: int) -> None:
        """So much is kept for this one now."""
        before = self._sizes.get(holder, 0)
        if size == before:
            return
        self.held += size - before
        if size:
            self._sizes[holder] = size
        else:
            del self._sizes[holder]
        if self.held > self.limit and size > before:
            self._shed()

    def _shed(self) -> None:
        largest = sorted(self._sizes.items(), key=lambda item: item[1], reverse=True)
        for holder, size in largest:
            if self.held <= self.limit - self.limit // _RELIEF or size <= self._spared:
                return
            held = self.held
            self.held -= size
            del self._sizes[holder]
            self._tell(held, size)
            holder.cut(
                QuotaExceeded(
                    f"The connections {self._kind} hold {held} bytes of unfinished "
                    f"requests and unread answers, the limit is {self.limit}, and this "
                    f"one holds most of them: {size} bytes. Finish what was begun, "
                    "read the answers, and connect again."
                )
            )

    def _tell(self, held: int, size: int) -> None:
        if count := self._pace.due(self._clock.monotonic()):
            _log.warning(
                "closing the connection that holds most, %d bytes: those %s hold %d, "
                "the limit is %d; closed since the last such line: %d",
                *(size, self._kind, held, self.limit, count),
            )
