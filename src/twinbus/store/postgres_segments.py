"""Segments: tables that rows are added to one after the other, and emptied whole.

A row that is deleted leaves its space behind until no snapshot can see it. A table
without rows can be truncated at once, whoever holds a snapshot, if nobody has a lock
on it. So rows that live for a moment are in children of a parent: new ones go to the
current child, and one that has become empty is truncated and used again.

The owner alone adds and removes, so it knows how many rows a segment has. It does not
know this of segments that were there before it, or after a commit of which it does not
know whether it happened: those are counted when there is time.
"""

from dataclasses import dataclass
from typing import Final, final

SEGMENT_BYTES: Final = 64 << 20
"""About 200,000 small messages: a few seconds of load."""

_PART_OF_ALL: Final = 16
"""A large store has large segments, so that there are tens of them."""

_ROW_BYTES: Final = 96
"""What a row needs besides its bytes: its header, its numbers, its keys."""

_SPARSE_PART: Final = 4
"""A segment with less than this part of its rows is emptied into the current one."""

_SPARSE_AGE: Final = 4
"""So many segments later. Most segments become empty by themselves soon after they
were filled: to move their last rows would be work for nothing."""

_PINNED_TURNS: Final = 500
"""How many commits pass until a segment is tried again that somebody had locked."""


@dataclass(slots=True)
class TableSegment:
    """One child, as its owner knows it."""

    name: str
    oid: int
    # Rows and bytes that were added, and rows that are left. None: not known.
    added_bytes: int = 0
    added_count: int = 0
    live_count: int | None = 0
    # The number of the rotation that made it the current one.
    begun: int = 0
    # It is left alone until then, counted in commits: somebody has locked it.
    pinned_until: int = 0

    def add(self, count: int, size_bytes: int) -> None:
        self.added_count += count
        self.added_bytes += size_bytes + count * _ROW_BYTES
        if self.live_count is not None:
            self.live_count += count

    def remove(self, count: int) -> None:
        if self.live_count is not None:
            self.live_count -= count

    def is_sparse(self, rotation: int) -> bool:
        return (
            self.live_count is not None
            and 0 < self.live_count * _SPARSE_PART < self.added_count
            and rotation - self.begun >= _SPARSE_AGE
        )


@final
class SegmentedTable:
    """A parent and its children."""

    def __init__(self, parent: str, key: str, segment_bytes: int) -> None:
        self.parent: str = parent
        # The primary key.
        self.key: str = key
        self._segment_bytes: int = segment_bytes
        # By oid; `current` and those in `free` among them.
        self._all: dict[int, TableSegment] = {}
        self.current: TableSegment | None = None
        self._free: list[TableSegment] = []
        self._rotation: int = 0
        self._commits: int = 0

    def learn(self, found: list[TableSegment]) -> None:
        """What was there before. The smallest is filled further, if it is small."""
        self._all = {segment.oid: segment for segment in found}
        self._free = [segment for segment in found if segment.live_count == 0]
        self.current = min(
            (s for s in found if 0 < s.added_bytes < self._segment_bytes // 2),
            key=lambda segment: segment.added_bytes,
            default=None,
        )

    def is_full(self) -> bool:
        """The next rows need another segment."""
        return self.current is None or self.current.added_bytes >= self._limit_bytes()

    def _limit_bytes(self) -> int:
        stored = sum(segment.added_bytes for segment in self._all.values())
        return max(self._segment_bytes, stored // _PART_OF_ALL)

    def take_free(self) -> TableSegment | None:
        """One that can be filled, if there is one."""
        return self._free.pop() if self._free else None

    def begin(self, segment: TableSegment) -> None:
        """New rows go here from now on."""
        self._rotation += 1
        segment.begun = self._rotation
        self._all[segment.oid] = segment
        self.current = segment

    def removed(self, oid: int, count: int) -> None:
        if oid in self._all:
            self._all[oid].remove(count)

    def truncated(self, segment: TableSegment) -> None:
        segment.added_bytes = segment.added_count = segment.live_count = 0
        self._free.append(segment)

    def forget_counts(self) -> None:
        """Nobody knows whether the last commit happened."""
        for segment in self._closed():
            segment.live_count = None
        if self.current is not None:
            self.current.live_count = None

    def count_commit(self) -> None:
        self._commits += 1

    def pin(self, segment: TableSegment) -> None:
        segment.pinned_until = self._commits + _PINNED_TURNS

    # --- what is to be done ---------------------------------------------------

    def closed(self) -> list[TableSegment]:
        """Those that are not added to, and not truncated."""
        return list(self._closed())

    def _closed(self) -> list[TableSegment]:
        free = {segment.oid for segment in self._free}
        return [
            segment
            for segment in self._all.values()
            if segment is not self.current and segment.oid not in free
        ]

    def next_empty(self) -> TableSegment | None:
        """One that may be truncated now."""
        for segment in self._closed():
            if segment.live_count == 0 and segment.pinned_until <= self._commits:
                return segment
        return None

    def next_sparse(self) -> TableSegment | None:
        """One whose rows should move to the current one."""
        for segment in self._closed():
            if segment.is_sparse(self._rotation):
                return segment
        return None

    def next_uncounted(self) -> TableSegment | None:
        for segment in self._closed():
            if segment.live_count is None:
                return segment
        return None
