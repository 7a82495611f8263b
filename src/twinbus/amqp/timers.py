"""When a heartbeat is due, and when a peer has been silent too long (2.4.5).

A heartbeat is sent if nothing was written for half of the peer's idle time-out. A peer
is given up after our own. Times are known only from calls of the connection, so a
heartbeat may be sent slightly early.
"""

from typing import final


@final
class Timers:
    def __init__(self, idle_timeout_ms: int) -> None:
        # 0: the peer may be silent for any time.
        self.idle_timeout_ms: int = idle_timeout_ms
        # 0: the peer does not ask for heartbeats.
        self._heartbeat_ms: int = 0
        self._started: bool = False
        self._now: int = 0
        self._received_at: int = 0
        # The last known time before a write. It may be too early; then a heartbeat is
        # sent sooner than needed.
        self._sent_at: int = 0

    def start(self, now: int) -> None:
        if not self._started:
            self._started = True
            self._received_at = self._sent_at = now
        self._now = now

    def received(self, now: int) -> None:
        self.start(now)
        self._received_at = now

    def sent(self) -> None:
        self._sent_at = self._now

    def peer_timeout(self, idle_timeout_ms: int) -> None:
        self._heartbeat_ms = idle_timeout_ms // 2

    def heartbeat_due(self, now: int) -> bool:
        return self._heartbeat_ms > 0 and now >= self._sent_at + self._heartbeat_ms

    def idle_due(self, now: int) -> bool:
        return self.idle_timeout_ms > 0 and now >= (
            self._received_at + self.idle_timeout_ms
        )

    def next_deadline(self) -> int | None:
        if not self._started:
            return None
        deadlines: list[int] = []
        if self._heartbeat_ms > 0:
            deadlines.append(self._sent_at + self._heartbeat_ms)
        if self.idle_timeout_ms > 0:
            deadlines.append(self._received_at + self.idle_timeout_ms)
        return min(deadlines) if deadlines else None
