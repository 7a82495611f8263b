"""The connections of a server, and which of them is closed for a new one.

A connection that has shown no key is a stranger: a health check, a client that just
connected, or an attacker. Strangers have a share of the connections, and never take
places from those with a key: if there is no room, the oldest stranger is closed. So a
new connection is refused only if all others have shown a key.

Within the share no stranger is closed, and for a few seconds not beyond it either: a
thousand clients that come back after a restart are all strangers at first.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, Protocol

from twinbus.doors.log_pace import LogPace
from twinbus.errors import ConnectionForced, ServiceBusError
from twinbus.limits import (
    STRANGER_GRACE_SECONDS,
    STRANGERS_MIN,
    STRANGERS_PART,
)

_log = logging.getLogger(__name__)

_GRACE_MS: Final = STRANGER_GRACE_SECONDS * 1000


class ServedConnection(Protocol):
    """A client's connection, of any protocol."""

    # Requests that are not answered yet.
    requests: set[asyncio.Task[None]]

    def described(self) -> str:
        """In one line, without secrets."""
        ...

    def tick(self, now: int, monotonic: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, error: ServiceBusError | None, monotonic: int) -> None: ...

    def cut(self, error: ServiceBusError) -> None:
        """Send the error if that is possible at once, and end the connection."""
        ...

    def abort(self) -> None: ...


class Connections:
    """All connections, and when each stranger connected."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = max(limit // STRANGERS_PART, min(limit, STRANGERS_MIN))
        self._all: set[ServedConnection] = set()
        # When they connected, oldest first.
        self._strangers: dict[ServedConnection, int] = {}
        self._refusals = LogPace()
        self._evictions = LogPace()
        # Set when no connection is left.
        self.deserted = asyncio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ServedConnection]:
        """Iterates over a copy, so that connections may leave meanwhile."""
        return iter(list(self._all))

    def add(self, connection: ServedConnection, monotonic: int) -> None:
        """A new connection; it is a stranger until `recognize`."""
        self._all.add(connection)
        self._strangers[connection] = monotonic

    def recognize(self, connection: ServedConnection) -> None:
        """The client has shown a key."""
        self._strangers.pop(connection, None)

    def remove(self, connection: ServedConnection) -> None:
        self._all.discard(connection)
        self._strangers.pop(connection, None)
        if not self._all:
            self.deserted.set()

    # --- new connections ------------------------------------------------------

    def make_room(self, monotonic: int) -> bool:
        """Whether there is room for one more; a stranger may be closed for it."""
        is_full = len(self._all) >= self._limit
        if not is_full and not self._has_overstayed(monotonic):
            return True
        stranger = self._first_idle()
        if stranger is not None:
            self._send_away(stranger, monotonic)
            return True
        if count := self._refusals.due(monotonic):
            _log.warning(
                "refusing a connection: %d are open, the limit (max_connections)"
                " is %d, and all have shown a key; refused since the last line: %d",
                *(len(self._all), self._limit, count),
            )
        return False

    def _has_overstayed(self, monotonic: int) -> bool:
        """Strangers have used up their share, and the oldest has had its time."""
        if len(self._strangers) < self._share:
            return False
        came_at = next(iter(self._strangers.values()))
        return monotonic - came_at > _GRACE_MS

    def _first_idle(self) -> ServedConnection | None:
        """The oldest stranger without a request, or else the oldest."""
        for stranger in self._strangers:
            if not stranger.requests:
                return stranger
        return next(iter(self._strangers), None)

    def _send_away(self, stranger: ServedConnection, monotonic: int) -> None:
        if count := self._evictions.due(monotonic):
            _log.warning(
                "closing the oldest connection that has shown no key to admit another:"
                " %d of %d are without one (share %d, max_connections %d);"
                " closed since the last such line: %d",
                *(len(self._strangers), len(self._all)),
                *(self._share, self._limit, count),
            )
        # Its place is free from now on, even if closing takes a moment.
        self._all.discard(stranger)
        del self._strangers[stranger]
        stranger.cut(
            ConnectionForced(
                "The connection has shown no key, and its place is needed: there are "
                f"places for {self._limit} connections, {self._share} of them for "
                "those without a key. Connect again and put a token."
            )
        )
