"""Splits the numbers of a deferred batch into tasks.

A task peeks from its first number to its last, and reads all messages in between. So
each task gets neighbouring numbers.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from twinbus.spark.offsets import AMQP_GENERATION
from twinbus.spark.packing import Range
from twinbus.spark.portable.deferred_offset import DeferredPart

_FEWEST: Final = 500
"""The least messages of a task: each task opens a connection."""


def splits(
    entities: Mapping[str, DeferredPart], max_partitions: int
) -> list[list[Range]]:
    """At most so many parts, each with about the same number of messages."""
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
    """Cut a range where its task is full."""
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
