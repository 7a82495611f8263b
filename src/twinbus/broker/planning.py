"""Plans what a reader of ranges reads next: where ranges end, and where to split them.

A fair plan gives every fragment a part of the limit in proportion to its backlog, and
at least one message. An aligned plan has everything up to one instant over all
fragments, as if they were one queue ordered by enqueued time. So a message that was
sent to one fragment is never planned after a later one that was sent to another.

Pure: the caller reads outlines of messages in portions, and passes them in.

    while not plan.is_done():
        for index in plan.wanted():
            plan.supply(index, its outlines from plan.next_of(index) on)
        plan.advance(some thousand messages)
"""

from abc import abstractmethod
from heapq import heapify, heappop, heapreplace
from typing import final

from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import sequence_of


@final
class Split:
    """Consecutive messages that one task reads."""

    def __init__(self, first: int) -> None:
        # Sequence numbers; `end` is the first one after the split.
        self.first: int = first
        self.end: int = first
        self.message_count: int = 0
        self.size_bytes: int = 0


@final
class PlannedRange:
    """The planned messages of one fragment."""

    def __init__(self, first: int, split_messages: int) -> None:
        self.first: int = first
        self.end: int = first
        self.message_count: int = 0
        self.size_bytes: int = 0
        self.splits: list[Split] = []
        self._split_messages: int = split_messages

    def add(self, sequence: int, size_bytes: int) -> None:
        if not self.splits or self.splits[-1].message_count >= self._split_messages:
            # Numbers between two messages belong to the split of the second.
            self.splits.append(Split(self.end))
        split = self.splits[-1]
        split.end = self.end = sequence + 1
        split.message_count += 1
        split.size_bytes += size_bytes
        self.message_count += 1
        self.size_bytes += size_bytes


@final
class _Portion:
    """Messages of a fragment that were read and not planned yet."""

    def __init__(self) -> None:
        self.messages: Outlines = Outlines()
        self.at: int = 0
        # The fragment has no messages after these.
        self.is_last: bool = False

    def is_used_up(self) -> bool:
        return self.at == len(self.messages)


class Plan:
    """A plan in progress, over several fragments."""

    def __init__(
        self, firsts: list[int], max_messages: int, max_bytes: int, split_messages: int
    ) -> None:
        # In the order of the fragments.
        self.ranges: list[PlannedRange] = [
            PlannedRange(first, split_messages) for first in firsts
        ]
        self._portions: list[_Portion] = [_Portion() for _ in firsts]
        self._max_messages: int = max_messages
        self._max_bytes: int = max_bytes

    @abstractmethod
    def is_done(self) -> bool: ...

    @abstractmethod
    def wanted(self) -> list[int]:
        """Fragments whose next portion is needed to continue."""

    @abstractmethod
    def advance(self, count: int) -> None:
        """Plan up to `count` more messages."""

    def next_of(self, index: int) -> int:
        """Where the next portion of a fragment begins."""
        portion = self._portions[index]
        if len(portion.messages) == 0:
            return self.ranges[index].first
        return sequence_of(portion.messages.row_ids[-1]) + 1

    def supply(self, index: int, messages: Outlines, is_last: bool) -> None:
        """Add the next portion; `is_last`: the fragment has no other."""
        portion = self._portions[index]
        assert portion.is_used_up(), "messages of the last portion are left"
        if len(messages) != 0:
            portion.messages = messages
            portion.at = 0
        portion.is_last = is_last

    def _take(self, index: int) -> None:
        portion = self._portions[index]
        at = portion.at
        portion.at = at + 1
        self.ranges[index].add(
            sequence_of(portion.messages.row_ids[at]), portion.messages.sizes[at]
        )


@final
class FairPlan(Plan):
    """Every fragment has its share."""

    def __init__(
        self,
        firsts: list[int],
        backlogs: list[int],
        max_messages: int,
        max_bytes: int,
        split_messages: int,
    ) -> None:
        super().__init__(firsts, max_messages, max_bytes, split_messages)
        self._message_shares: list[int] = shares(max_messages, backlogs)
        self._byte_shares: list[int] = shares(max_bytes, backlogs)

    def is_done(self) -> bool:
        for index in range(len(self.ranges)):
            if not self._is_done_with(index):
                return False
        return True

    def _is_done_with(self, index: int) -> bool:
        planned, portion = self.ranges[index], self._portions[index]
        return (
            planned.message_count >= self._message_shares[index]
            or planned.size_bytes >= self._byte_shares[index]
            or (portion.is_last and portion.is_used_up())
        )

    def wanted(self) -> list[int]:
        return [
            index
            for index, portion in enumerate(self._portions)
            if portion.is_used_up() and not self._is_done_with(index)
        ]

    def advance(self, count: int) -> None:
        for index, portion in enumerate(self._portions):
            while (
                count > 0 and not portion.is_used_up() and not self._is_done_with(index)
            ):
                self._take(index)
                count -= 1


@final
class AlignedPlan(Plan):
    """Everything up to one instant, which is before the horizon."""

    def __init__(
        self,
        firsts: list[int],
        max_messages: int,
        max_bytes: int,
        split_messages: int,
        horizon: int,
    ) -> None:
        super().__init__(firsts, max_messages, max_bytes, split_messages)
        # Messages enqueued later are not planned: fragments are read one after the
        # other, and the newest messages of those read first would be missing.
        self._horizon: int = horizon
        self._message_count: int = 0
        self._size_bytes: int = 0
        # Enqueued time of the last planned message; all of that time are planned.
        self._instant: int = 0
        self._is_done: bool = False

    def is_done(self) -> bool:
        return self._is_done

    def wanted(self) -> list[int]:
        if self._is_done:
            return []
        return [
            index
            for index, portion in enumerate(self._portions)
            if portion.is_used_up() and not portion.is_last
        ]

    def advance(self, count: int) -> None:
        """Stops when a portion is used up: the next one may have the next message."""
        if self.wanted():
            return
        heap: list[tuple[int, int]] = []
        for index, portion in enumerate(self._portions):
            if not portion.is_used_up():
                heap.append((portion.messages.enqueued_at[portion.at], index))
        heapify(heap)
        while heap and count > 0:
            instant, index = heap[0]
            if instant >= self._horizon or (
                self._is_full() and instant > self._instant
            ):
                self._is_done = True
                return
            portion = self._portions[index]
            self._instant = instant
            self._message_count += 1
            self._size_bytes += portion.messages.sizes[portion.at]
            self._take(index)
            count -= 1
            if not portion.is_used_up():
                following = portion.messages.enqueued_at[portion.at]
                heapreplace(heap, (following, index))
            elif portion.is_last:
                heappop(heap)
            else:
                return
        self._is_done = not heap

    def _is_full(self) -> bool:
        return (
            self._message_count >= self._max_messages
            or self._size_bytes >= self._max_bytes
        )


def shares(limit: int, backlogs: list[int]) -> list[int]:
    """Divide the limit in proportion to the backlogs; at least 1 if not empty."""
    total = sum(backlogs)
    return [
        max(1, limit * backlog // total) if backlog > 0 else 0 for backlog in backlogs
    ]
