"""Messages by row id, in order, in memory.

A dictionary for the rows and a sorted list of their ids for the order. Ids of rows
that are gone stay in the list until they could outnumber the others: taking each
out at once would move the whole list.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, final

from twinbus.broker.message import Message, restored_message
from twinbus.store.memory_bodies import MemoryBodies
from twinbus.store.memory_sessions import MemorySessionIndex

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
        message.session_id,
        message.body_id,
        message.is_shared,
    )
    copy.expires_at = message.expires_at
    return copy


@final
class MemoryTable:
    """The messages of one state."""

    def __init__(self, state: int, bodies: MemoryBodies) -> None:
        # State of what is read from here.
        self._state: int = state
        # Where the bytes of shared messages are.
        self._bodies: MemoryBodies = bodies
        self._rows: dict[int, Message] = {}
        self.sessions: MemorySessionIndex = MemorySessionIndex()
        # Sorted; may name rows that are gone.
        self._row_ids: list[int] = []

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._rows

    def add(self, message: Message) -> Message:
        """Keep a copy of the message; returns the copy."""
        copy = copy_of(message)
        copy.state = self._state
        if copy.is_shared:
            copy.raw = b""
        self.sessions.add(copy)
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
        if row is not None:
            self.sessions.remove(row)
        if len(self._row_ids) > 2 * len(self._rows) + _SLACK:
            self._row_ids = sorted(self._rows)
        return row

    def get(self, row_id: int) -> Message | None:
        """A copy of one message."""
        row = self._rows.get(row_id)
        return None if row is None else self._read(row)

    def _read(self, row: Message) -> Message:
        copy = copy_of(row)
        if copy.is_shared:
            copy.raw = self._bodies.raw_of(copy.body_id)
        return copy

    def of_session(
        self, fragment_number: int, session_id: str, first: int
    ) -> Iterator[Message]:
        """Copies of a session's messages from the id `first` on, in order."""
        for row_id in self.sessions.row_ids(fragment_number, session_id, first):
            yield self._read(self._rows[row_id])

    def between(self, first: int, last: int) -> Iterator[Message]:
        """Copies of the messages with ids from `first` to `last`, in order."""
        previous = None
        for at in range(bisect_left(self._row_ids, first), len(self._row_ids)):
            row_id = self._row_ids[at]
            if row_id > last:
                return
            # A row that left and came back has its id in the list twice.
            if row_id != previous and row_id in self._rows:
                yield self._read(self._rows[row_id])
            previous = row_id
