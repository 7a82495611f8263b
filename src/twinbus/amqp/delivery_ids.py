"""Finds ranges of delivery ids: 32-bit serial numbers that wrap around (RFC 1982).

With a few bytes a peer can name a range of billions of ids, again and again, while only
a handful exist. So neither the range nor all deliveries are walked: ids are assigned in
order, kept in order, and looked up by binary search.
"""

from collections.abc import Mapping
from typing import Final, final

_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000

_SHORT: Final = 16
"""Ranges up to this length are looked up id by id."""

_SLACK: Final = 1_024
"""Ids of settled deliveries are kept until there are so many of them."""


def find_ids(known: Mapping[int, object], first: int, last: int) -> list[int]:
    """The known ids from `first` through `last` in serial order, whatever the order of
    `known`.

    The cost is bounded by the smaller of the range and the number of known ids.
    """
    span = (last - first) & _MASK
    if span < len(known):
        ids = [(first + step) & _MASK for step in range(span + 1)]
        return [delivery_id for delivery_id in ids if delivery_id in known]
    steps = [(delivery_id - first) & _MASK for delivery_id in known]
    return [(first + step) & _MASK for step in sorted(steps) if step <= span]


@final
class SerialIds:
    """The keys of a mapping to which ids are added in serial order."""

    def __init__(self, known: dict[int, object]) -> None:
        self._known: dict[int, object] = known
        # In serial order; some may be settled already.
        self._ids: list[int] = []
        # The first id that is not in the list yet.
        self._next: int = 0
        # How many ids were examined so far, for tests.
        self.looked_at: int = 0

    def find(self, first: int, last: int, next_id: int) -> list[int]:
        """The known ids from `first` through `last`, in serial order; `next_id` is the
        next one to be assigned."""
        span = (last - first) & _MASK
        known = self._known
        if span < _SHORT:
            self.looked_at += span + 1
            ids = [(first + step) & _MASK for step in range(span + 1)]
            return [delivery_id for delivery_id in ids if delivery_id in known]
        self._catch_up(next_id)
        if not self._ids:
            return []
        start, end = self._place(first, span)
        self.looked_at += end - start
        found = [
            delivery_id for delivery_id in self._ids[start:end] if delivery_id in known
        ]
        if len(found) < end - start:
            # Remove settled ids, so that they are not examined again.
            self._ids[start:end] = found
        return found

    def _catch_up(self, next_id: int) -> None:
        """Add ids that were assigned since the last call. The cost is bounded by their
        number and by the number of known ids."""
        known = self._known
        since = (next_id - self._next) & _MASK
        if since > len(known) or len(self._ids) > 2 * len(known) + _SLACK:
            # A dictionary keeps the order of insertion.
            self._ids = list(known)
            self.looked_at += len(known)
        else:
            ids = [(self._next + step) & _MASK for step in range(since)]
            self._ids += [delivery_id for delivery_id in ids if delivery_id in known]
            self.looked_at += since
        self._next = next_id

    def _place(self, first: int, span: int) -> tuple[int, int]:
        """The start and end of a range in the list."""
        offset = (first - self._ids[0]) & _MASK
        if offset < _HALF:
            return self._count_below(offset), self._count_below(offset + span + 1)
        # The range begins before the first id of the list.
        before = _MASK + 1 - offset
        return 0, self._count_below(max(0, span + 1 - before))

    def _count_below(self, offset: int) -> int:
        """How many ids are less than `offset` after the first."""
        ids = self._ids
        base = ids[0]
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if (ids[middle] - base) & _MASK < offset:
                low = middle + 1
            else:
                high = middle
        return low
