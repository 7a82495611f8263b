"""Finds the messages of the window that expire next.

Only messages with a time to live are watched, and only while they are in memory; the
store's expiry buckets find those on disk. A message that leaves the window stays in the
heap. It is skipped when it is due, because its `place` is no longer READY.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from twinbus.broker.message import LEAVING, READY, Message

_SLACK: Final = 1024
"""The heap is swept when stale entries may exceed live ones by this much."""


@final
class ExpiryHeap:
    """Messages of the window, ordered by the end of their time to live."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Message]] = []
        # Breaks ties, since messages cannot be compared. Row ids do not suffice: the
        # window may release a row and load it again.
        self._watched_count: int = 0
        # Length after the last sweep.
        self._swept: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, message: Message) -> None:
        self._watched_count += 1
        heappush(self._heap, (message.expires_at, self._watched_count, message))
        if len(self._heap) > 2 * self._swept + _SLACK:
            self._sweep()

    def _sweep(self) -> None:
        """Drop entries that are not ready: the heap is not larger than the window."""
        self._heap = [entry for entry in self._heap if entry[2].place == READY]
        heapify(self._heap)
        self._swept = len(self._heap)

    def due(self, now: int) -> list[Message]:
        """Ready messages that have expired, marked as leaving, ordered by expiry and
        then by sequence number.

        They are marked here, because a message that was delivered and returned is in
        the heap several times, and must expire once.
        """
        due: list[Message] = []
        while self._heap and self._heap[0][0] <= now:
            message = heappop(self._heap)[2]
            if message.place == READY:
                message.place = LEAVING
                due.append(message)
        due.sort(key=_end_and_number_of)
        return due


def _end_and_number_of(message: Message) -> tuple[int, int]:
    return message.expires_at, message.row_id
