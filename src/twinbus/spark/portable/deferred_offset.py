"""The offset of a deferring stream: the numbers that its last batch deferred.

    {"version": 1, "mode": "defer", "reader": "5f0c...", "batch": 7, "entities": {
        "orders": {"numbers": [[1042, 1097], [1099, 1120]], "bytes": 9120,
                   "sessions": false}}}

As the end of a batch it says what to read; as a start, what to settle. The number of
the batch makes each offset different, even if it names the same messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.spark.offsets import OffsetError, check_version, telling_malformed
from twinbus.spark.portable.number_ranges import NumberRanges

_VERSION: Final = 1
_MODE: Final = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredPart:
    """What was deferred of one entity."""

    numbers: NumberRanges
    size_bytes: int
    # Deferred messages of a session are received by its holder, too.
    has_sessions: bool

    def joined(self, other: "DeferredPart") -> "DeferredPart":
        return DeferredPart(
            numbers=NumberRanges.of((*self.numbers, *other.numbers)),
            size_bytes=self.size_bytes + other.size_bytes,
            has_sessions=self.has_sessions or other.has_sessions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredOffset:
    """How far a stream is; without a reader, it has not begun."""

    reader: str
    batch: int = 0
    # By path.
    entities: Mapping[str, DeferredPart] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "mode": _MODE,
            "reader": self.reader,
            "batch": self.batch,
            "entities": {
                path: {
                    "numbers": [list(pair) for pair in part.numbers.pairs()],
                    "bytes": part.size_bytes,
                    "sessions": part.has_sessions,
                }
                for path, part in self.entities.items()
            },
        }


def read_deferred_offset(content: Mapping[str, Any]) -> DeferredOffset:
    """Raises OffsetError."""
    with telling_malformed():
        if content.get("mode") != _MODE:
            raise OffsetError(
                "The checkpoint is of a stream that does not defer, and keeps other "
                "offsets. Use another checkpoint location, or the settlement it had."
            )
        check_version(content, _VERSION)
        return DeferredOffset(
            reader=str(content["reader"]),
            batch=int(content["batch"]),
            entities={
                path: DeferredPart(
                    numbers=NumberRanges(part["numbers"]),
                    size_bytes=int(part["bytes"]),
                    has_sessions=bool(part["sessions"]),
                )
                for path, part in content["entities"].items()
            },
        )
