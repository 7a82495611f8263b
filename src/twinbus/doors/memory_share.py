"""Limits the memory that all connections of one kind use together.

Each connection has its own limits, but there are thousands. Strangers and clients with
a key have separate shares, so that strangers cannot take memory from clients. If a
share is exceeded, the connections that hold most are closed, the largest first, and of
equal ones the one that has held it longest. A connection that holds almost nothing is
never closed; the number of connections limits the total of these.
"""

import logging
from typing import Final, Protocol

from twinbus.clock import Clock
from twinbus.doors.log_pace import LogPace
from twinbus.errors import QuotaExceeded, ServiceBusError

_log = logging.getLogger(__name__)

_RELIEF: Final = 8
"""An eighth of the share is freed at a time, so that this does not happen too often."""


class Holder(Protocol):
    """A connection, as this module sees it."""

    def cut(self, error: ServiceBusError) -> None: ...


class MemoryShare:
    """Unfinished requests and unread answers of all connections of one kind."""

    def __init__(self, kind: str, limit: int, spared: int, clock: Clock) -> None:
        # Which connections these are, for error texts.
        self._kind = kind
        self.limit = limit
        # A connection that holds no more than this is not closed.
        self._spared = spared
        self._clock = clock
        self.held = 0
        # Connections that hold something, in the order in which they began to.
        self._sizes: dict[Holder, int] = {}
        self._pace = LogPace()

    def hold(self, holder: Holder, size: int) -> None:
        """Set how much is held for this connection."""
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
