"""What a deferred batch names, as work for tasks.

A task reads numbers by peeking from the first to the last of them, and pays for what
lies between. So each gets a run of neighbours; numbers of one stretch are not dealt out
among many.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from twinbus.spark.offsets import AMQP_GENERATION
from twinbus.spark.packing import Range
from twinbus.spark.portable.deferred_offset import DeferredPart

_FEWEST: Final = 500
"""Messages of a task: it opens a connection for them."""


def splits(
    entities: Mapping[str, DeferredPart], max_partitions: int
) -> list[list[Range]]:
    """At most so many runs of about the same count of messages."""
    total = sum(len(part.numbers) for part in entities.values())
    size = max(-(-total // max_partitions), _FEWEST)
    found: list[list[Range]] = []
    room = 0
    for path, part in entities.items():
        for first, last in part.numbers.pairs():
            for start, end in _pieces(first, last + 1, room, size):
                if room == 0:
                    found.append([])
                    room = size
                found[-1].append(_range(path, start, end))
                room -= end - start
    return found


def _pieces(first: int, end: int, room: int, size: int) -> Iterator[tuple[int, int]]:
    """A range, cut where the task is full that it goes to."""
    at = first
    while at < end:
        cut = min(at + (room or size), end)
        yield at, cut
        room = (room or size) - (cut - at)
        at = cut


def _range(path: str, first: int, end: int) -> Range:
    return Range(
        path=path,
        generation=AMQP_GENERATION,
        fragment=first >> 48,
        first=first,
        end=end,
        message_count=end - first,
        size_bytes=0,
    )
