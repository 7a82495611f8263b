"""Sessions in memory: which rows each has, and what applications keep with them."""

from bisect import bisect_right, insort
from typing import final

from twinbus.broker.changes import SessionState
from twinbus.broker.message import Message
from twinbus.broker.row_id import fragment_number_of


@final
class MemorySessionIndex:
    """The rows of one table that belong to sessions."""

    def __init__(self) -> None:
        # By fragment number and session id; no set is empty.
        self._rows: dict[tuple[int, str], set[int]] = {}
        # Sorted, by fragment number.
        self._ids: dict[int, list[str]] = {}

    def add(self, message: Message) -> None:
        if message.session_id is None:
            return
        number = fragment_number_of(message.row_id)
        key = (number, message.session_id)
        if key not in self._rows:
            self._rows[key] = set()
            insort(self._ids.setdefault(number, []), message.session_id)
        self._rows[key].add(message.row_id)

    def remove(self, message: Message) -> None:
        if message.session_id is None:
            return
        number = fragment_number_of(message.row_id)
        key = (number, message.session_id)
        self._rows[key].remove(message.row_id)
        if not self._rows[key]:
            del self._rows[key]
            self._ids[number].remove(message.session_id)

    def row_ids(self, fragment_number: int, session_id: str, first: int) -> list[int]:
        """Those of a session from a row id on, in order."""
        rows = self._rows.get((fragment_number, session_id), ())
        return sorted(row_id for row_id in rows if row_id >= first)

    def ids(self, fragment_number: int, after: str | None, limit: int) -> list[str]:
        """Sessions that have rows, in order, from behind one on."""
        ids = self._ids.get(fragment_number, [])
        begin = 0 if after is None else bisect_right(ids, after)
        return ids[begin : begin + limit]


@final
class MemorySessionStates:
    """What applications keep with sessions."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, str], SessionState] = {}

    def put(self, state: SessionState) -> None:
        key = (state.fragment_number, state.session_id)
        if state.state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state

    def get(self, fragment_number: int, session_id: str) -> bytes | None:
        found = self._states.get((fragment_number, session_id))
        return None if found is None else found.state

    def updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        """Sessions whose state was set after `since`, in order, from behind one on."""
        ids = sorted(
            state.session_id
            for state in self._states.values()
            if state.fragment_number == fragment_number and state.updated_at > since
        )
        begin = 0 if after is None else bisect_right(ids, after)
        return ids[begin : begin + limit]

    def purge(self, fragment_number: int, limit: int) -> int:
        """Remove up to `limit` states of a fragment; returns how many."""
        keys = [key for key in self._states if key[0] == fragment_number][:limit]
        for key in keys:
            del self._states[key]
        return len(keys)
