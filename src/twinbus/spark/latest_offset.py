"""What a query's progress shows as its latest offset: how far it is behind.

    {"backlog": 1200, "entities": {
        "orders": {"backlog": 1200, "next": {"0": 5042}}}}

`next` is the number that the next message of an entity gets, by fragment. `backlog` is
how many messages may wait after the batch that was just planned. It is counted by
numbers, and is not more than the entity has active messages. So it may be too high,
because numbers of messages that are gone count as well; it is never too low.

Spark does not read it: it is shown in `lastProgress` and to listeners.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinbus.spark.offsets import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityEnd:
    """Where an entity ends now."""

    path: str
    # By fragment index.
    next: Mapping[int, int]
    # None if it is not known.
    active_count: int | None = None


def latest_offset(
    ends: Sequence[EntityEnd], reached: Mapping[str, Position]
) -> dict[str, Any]:
    """For entities that end there, of which a batch ends at these positions."""
    entities = {end.path: _entity(end, reached.get(end.path)) for end in ends}
    return {
        "backlog": sum(entity["backlog"] for entity in entities.values()),
        "entities": entities,
    }


def _entity(end: EntityEnd, reached: Position | None) -> dict[str, Any]:
    done = {} if reached is None else reached.next
    # Without a position, reading begins with the first number of the fragment.
    left = sum(
        max(0, number - done.get(index, index << 48))
        for index, number in end.next.items()
    )
    if end.active_count is not None:
        left = min(left, end.active_count)
    return {
        "backlog": left,
        "next": {str(index): number for index, number in end.next.items()},
    }
