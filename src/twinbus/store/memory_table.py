"""Messages by row id, in order, in memory.

A dictionary for the rows and a sorted list of their ids for the order. Ids of rows
that are gone stay in the list until they could outnumber the others: taking each
out at once would move the whole list.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, final

from twinbus.broker.message import Message, restored_message

_SLACK: Final = 1024


def copy_of(message: Message) -> Message:
    """The message as a store keeps it: its owner goes on changing the original."""
    copy = restored_message(
        message.row_id,
        message.raw,
        message.layout,
        message.enqueued_at,
        message.ttl_ms,
        message.delivery_count,
        message.state,
        message.scheduled_at,
        message.annex,
    )
    copy.expires_at = message.expires_at
    return copy


@final
class MemoryTable:
    """The messages of one state."""

    def __init__(self, state: int) -> None:
        # State of what is read from here.
        self._state: int = state
        self._rows: dict[int, Message] = {}
        # Sorted; may name rows that are gone.
        self._row_ids: list[int] = []

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._rows

    def add(self, message: Message) -> Message:
        """Keep a copy of the message; returns the copy."""
        copy = copy_of(message)
        copy.state = self._state
        row_id = message.row_id
        self._rows[row_id] = copy
        if not self._row_ids or row_id > self._row_ids[-1]:
            self._row_ids.append(row_id)
        else:
            insort(self._row_ids, row_id)
        return copy

    def change(self, message: Message) -> None:
        """Delivery count and annex of a row changed, if it exists."""
        row = self._rows.get(message.row_id)
        if row is not None:
            row.delivery_count = message.delivery_count
            row.annex = message.annex

    def remove(self, row_id: int) -> Message | None:
        """Take a row out, if it exists."""
        row = self._rows.pop(row_id, None)
        if len(self._row_ids) > 2 * len(self._rows) + _SLACK:
            self._row_ids = sorted(self._rows)
        return row

    def get(self, row_id: int) -> Message | None:
        """A copy of one message."""
        row = self._rows.get(row_id)
        return None if row is None else copy_of(row)

    def between(self, first: int, last: int) -> Iterator[Message]:
        """Copies of the messages with ids from `first` to `last`, in order."""
        previous = None
        for at in range(bisect_left(self._row_ids, first), len(self._row_ids)):
            row_id = self._row_ids[at]
            if row_id > last:
                return
            # A row that left and came back has its id in the list twice.
            if row_id != previous and row_id in self._rows:
                yield copy_of(self._rows[row_id])
            previous = row_id
