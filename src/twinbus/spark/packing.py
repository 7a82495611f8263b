"""Packs ranges into few partitions.

A partition costs Spark some thirty milliseconds, however small it is, so a hundred
queues must not become a hundred partitions. The ranges are distributed by size, the
largest first, each to the partition that has least. Within a partition they are in the
order of entity and number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final

_BYTES_PER_MESSAGE: Final = 200
"""What a message costs besides its bytes, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of sequence numbers of one fragment."""

    path: str
    generation: str
    fragment: int
    first: int
    # The first number that is not part of it.
    end: int
    # How many messages it had when it was planned.
    message_count: int
    size_bytes: int

    @property
    def weight(self) -> int:
        return self.size_bytes + _BYTES_PER_MESSAGE * self.message_count


def pack(ranges: Sequence[Range], max_partitions: int) -> list[list[Range]]:
    """The ranges in at most so many lists of about the same weight."""
    filled = [found for found in ranges if found.message_count > 0]
    count = min(max_partitions, len(filled))
    bins: list[list[tuple[int, Range]]] = [[] for _ in range(count)]
    heap = [(0, index) for index in range(count)]
    heapify(heap)
    order = {id(found): at for at, found in enumerate(filled)}
    for found in sorted(filled, key=lambda one: -one.weight):
        weight, index = heap[0]
        bins[index].append((order[id(found)], found))
        heapreplace(heap, (weight + found.weight, index))
    return [[found for _, found in sorted(part, key=_place)] for part in bins]


def _place(item: tuple[int, Range]) -> int:
    return item[0]
