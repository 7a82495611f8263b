"""Shared bodies in memory: counted as a disk would count them.

The bytes are looked up when a row is read, and not kept with it. So a body that is
released too early is missed here, as it would be on a disk.
"""

from collections import Counter
from typing import final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.row_id import fragment_number_of
from twinbus.store.base import StoreUnreadable


@final
class MemoryBodies:
    """Bytes by body id, while a row uses them."""

    def __init__(self) -> None:
        self._raw: dict[int, bytes] = {}
        # Has the same keys.
        self._use_counts: dict[int, int] = {}

    def __contains__(self, body_id: int) -> bool:
        return body_id in self._raw

    def raw_of(self, body_id: int) -> bytes:
        """Raises StoreUnreadable if there is no such body."""
        raw = self._raw.get(body_id)
        if raw is None:
            raise StoreUnreadable(f"The store in memory lacks the body {body_id}.")
        return raw

    def has_any_of(self, fragment_number: int) -> bool:
        """There are bodies of messages that were sent to that topic."""
        return any(fragment_number_of(i) == fragment_number for i in self._raw)

    def write(self, changes: ChangeSet) -> None:
        for body in changes.bodies_added:
            self._raw[body.body_id] = body.raw
            self._use_counts[body.body_id] = 0
        differences = Counter(changes.bodies_taken)
        differences.subtract(changes.bodies_released)
        # A body that no row uses is not kept.
        for body in changes.bodies_added:
            differences[body.body_id] += 0
        self._count(differences)

    def release(self, body_id: int) -> None:
        """A row that used it was purged."""
        self._count({body_id: -1})

    def _count(self, differences: dict[int, int]) -> None:
        for body_id, difference in differences.items():
            if body_id not in self._use_counts:
                continue
            self._use_counts[body_id] += difference
            if self._use_counts[body_id] <= 0:
                del self._use_counts[body_id]
                del self._raw[body_id]
