"""How far a stream has come: small dicts of numbers, kept in Spark's own log.

    {"version": 1, "reader": "5f0c...", "entities": {
        "orders": {"generation": "9a1b...", "next": {"0": 1042}}}}

`next` is the first sequence number that was not read, by fragment. An entity that was
deleted and made again has another generation, and begins anew. The reader's id is that
of its leases: a query that is restarted is known again by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_VERSION: Final = 1


class OffsetError(ValueError):
    """What a checkpoint has is not an offset of this source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where the reading of one entity is."""

    generation: str
    # By fragment index.
    next: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Where a stream is."""

    reader: str
    # By path, in the order in which they are read.
    entities: Mapping[str, Position] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "reader": self.reader,
            "entities": {
                path: {
                    "generation": position.generation,
                    "next": {str(i): number for i, number in position.next.items()},
                }
                for path, position in self.entities.items()
            },
        }


def read_offset(content: Mapping[str, Any]) -> Offset:
    """Raises OffsetError."""
    try:
        if content["version"] != _VERSION:
            raise OffsetError(
                f"The checkpoint has offsets of version {content['version']!r}; this "
                f"version of twinbus reads {_VERSION}."
            )
        return Offset(
            reader=str(content["reader"]),
            entities={
                path: Position(
                    generation=str(entity["generation"]),
                    next={int(i): int(n) for i, n in entity["next"].items()},
                )
                for path, entity in content["entities"].items()
            },
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, OffsetError):
            raise
        raise OffsetError(
            "The checkpoint has offsets that are not of the format 'servicebus'. Use "
            "another checkpoint location."
        ) from None
