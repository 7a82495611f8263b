"""The connections of a server, and who must go so that a newcomer gets in.

Whoever has shown no key is a stranger: a health check, a client in its first moments,
or somebody who wants to keep others out. Strangers have a share of the connections,
and never more than what those with a key leave them: when there is no room, the
stranger that came first makes it. So a newcomer is refused only where everybody has a
key.

Within the share nobody is pushed out, and for a few seconds not beyond it either: a
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
    """A client's connection, whatever it speaks."""

    # What it was asked and has not answered yet.
    requests: set[asyncio.Task[None]]

    def tick(self, now: int, monotonic: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, error: ServiceBusError | None, monotonic: int) -> None: ...

    def cut(self, error: ServiceBusError) -> None:
        """Say why if that is possible at once, and end the connection."""
        ...

    def abort(self) -> None: ...


class Connections:
    """All connections, and since when there are strangers among them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = max(limit // STRANGERS_PART, min(limit, STRANGERS_MIN))
        self._all: set[ServedConnection] = set()
        # When they came, oldest first.
        self._strangers: dict[ServedConnection, int] = {}
        self._refusals = LogPace()
        self._evictions = LogPace()
        # Set when the last one has gone.
        self.deserted = asyncio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ServedConnection]:
        """Over those that are there now, whoever leaves meanwhile."""
        return iter(list(self._all))

    def add(self, connection: ServedConnection, monotonic: int) -> None:
        """Somebody came; a stranger until `recognize`."""
        self._all.add(connection)
        self._strangers[connection] = monotonic

    def recognize(self, connection: ServedConnection) -> None:
        """It has shown a key."""
        self._strangers.pop(connection, None)

    def remove(self, connection: ServedConnection) -> None:
        self._all.discard(connection)
        self._strangers.pop(connection, None)
        if not self._all:
            self.deserted.set()

    # --- newcomers ------------------------------------------------------------

    def make_room(self, monotonic: int) -> bool:
        """Whether there is room for one more; a stranger may have to go for it."""
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
        """There are more strangers than their share, and the first had its time."""
        if len(self._strangers) < self._share:
            return False
        came_at = next(iter(self._strangers.values()))
        return monotonic - came_at > _GRACE_MS

    def _first_idle(self) -> ServedConnection | None:
        """The stranger that came first, of those with a question the last resort."""
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
        # Its place is free from now on, even if its end takes a moment.
        self._all.discard(stranger)
        del self._strangers[stranger]
        stranger.cut(
            ConnectionForced(
                "The connection has shown no key, and its place is needed: there are "
                f"places for {self._limit} connections, {self._share} of them for "
                "those without a key. Connect again and put a token."
            )
        )
