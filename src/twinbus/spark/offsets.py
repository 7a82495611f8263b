"""The offsets of a stream: small dicts of numbers, kept in Spark's own log.

    {"version": 1, "reader": "5f0c...", "entities": {
        "orders": {"generation": "9a1b...", "begin": {"0": 0}, "next": {"0": 1042}}}}

By fragment, `begin` is the first sequence number that was read, and `next` the first
that was not: when Spark gives the offset as a start, all messages between the two are
processed. An entity that was deleted and made again has another generation, and is read
from its begin. The reader's id is that of its leases: a restarted query keeps it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.spark.plain_error import PlainError

_VERSION: Final = 1

AMQP_GENERATION: Final = "amqp"
"""The generation over AMQP, where an entity that was made again looks the same."""


_OTHER_KIND: Final = {
    False: "The checkpoint is of a stream over a twinbus namespace, and this one "
    "offers no bulk requests: it is another, or strict now. Use another checkpoint "
    "location.",
    True: "The checkpoint is of a stream over AMQP, and this is a twinbus namespace: "
    "it is another, or not strict any more. Use another checkpoint location.",
}


class OffsetError(PlainError, ValueError):
    """The checkpoint does not have an offset of this source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one entity was read."""

    generation: str
    # By fragment index.
    begin: Mapping[int, int]
    next: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Where a stream is."""

    reader: str
    # By path, in the order in which they are read.
    entities: Mapping[str, Position] = field(default_factory=dict)

    def check_namespace(self, *, is_twinbus: bool) -> None:
        """Raises OffsetError for an offset of the other kind of namespace: only those
        of a twinbus have generations."""
        for position in self.entities.values():
            if (position.generation != AMQP_GENERATION) != is_twinbus:
                raise OffsetError(_OTHER_KIND[is_twinbus])

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "reader": self.reader,
            "entities": {
                path: {
                    "generation": position.generation,
                    "begin": _numbers_to_json(position.begin),
                    "next": _numbers_to_json(position.next),
                }
                for path, position in self.entities.items()
            },
        }


def read_offset(content: Mapping[str, Any]) -> Offset:
    """Raises OffsetError."""
    if "mode" in content:
        raise OffsetError(
            f"The checkpoint is of a stream with settlement={content['mode']}, which "
            "keeps other offsets. Use another checkpoint location, or that settlement."
        )
    with telling_malformed():
        check_version(content, _VERSION)
        return Offset(
            reader=str(content["reader"]),
            entities={
                path: Position(
                    generation=str(entity["generation"]),
                    begin=_numbers(entity["begin"]),
                    next=_numbers(entity["next"]),
                )
                for path, entity in content["entities"].items()
            },
        )


@contextmanager
def telling_malformed() -> Iterator[None]:
    """Turns errors of reading an offset into an OffsetError."""
    try:
        yield
    except OffsetError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):
        raise OffsetError(
            "The checkpoint has offsets that are not of the format 'servicebus'. Use "
            "another checkpoint location."
        ) from None


def check_version(content: Mapping[str, Any], version: int) -> None:
    """Raises OffsetError."""
    if content["version"] != version:
        raise OffsetError(
            f"The checkpoint has offsets of version {content['version']!r}; this "
            f"version of twinbus reads {version}."
        )


def _numbers_to_json(numbers: Mapping[int, int]) -> dict[str, int]:
    return {str(index): number for index, number in numbers.items()}


def _numbers(content: Mapping[str, Any]) -> dict[int, int]:
    return {int(index): int(number) for index, number in content.items()}
