"""Which message of the window expires next.

Only messages with a time to live are watched, and only while they are in memory;
those on disk are found by the store's expiry buckets. A message that is taken or
leaves stays in the heap and is passed over when its time comes: its `place` tells.
"""

from heapq import heapify, heappop, heappush
from typing import Final, final

from twinbus.broker.message import LEAVING, READY, Message

_SLACK: Final = 1024
"""Stale entries are swept when they could outnumber live ones by this much."""


@final
class ExpiryHeap:
    """Messages of the window by the end of their time to live."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Message]] = []
        # Breaks ties: the same row may be watched again after the window let go of
        # it, and messages have no order.
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
        """Drop what is no longer ready, so that the heap stays as the window is."""
        self._heap = [entry for entry in self._heap if entry[2].place == READY]
        heapify(self._heap)
        self._swept = len(self._heap)

    def due(self, now: int) -> list[Message]:
        """Ready messages whose time has come, marked as leaving; those of one instant
        in the order of the queue, whichever of them was delivered in between.

        Marked here and not later: one that was delivered and came back is in the
        heap as often as it was ready, and must expire once.
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
