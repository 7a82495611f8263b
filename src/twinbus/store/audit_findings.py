"""What an audit of a store finds, and how a fragment is compared with its counters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_COUNTERS: Final = ("active", "deferred", "scheduled", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it must be."""

    # Or another place of a store.
    file: str
    text: str
    # Otherwise it is worth knowing, and the bus gets along with it.
    is_damage: bool = True

    def line(self) -> str:
        return (
            self.text
            if self.text.startswith(self.file)
            else f"{self.file}: {self.text}"
        )


def as_json(finding: Finding) -> dict[str, Any]:
    """For programs."""
    return {"file": finding.file, "text": finding.text, "damage": finding.is_damage}


@dataclass(slots=True, kw_only=True)
class HeldRows:
    """What a fragment has, counted row by row."""

    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    size_bytes: int = 0
    last_sequence: int = 0

    def counters(self) -> tuple[int, ...]:
        """As a fragment counts them."""
        return (*self.counts, self.size_bytes)


def differences(
    number: int, counters: Sequence[int], next_sequence: int, held: HeldRows
) -> Iterator[str]:
    """What is wrong with a fragment, if anything."""
    there = held.counters()
    if there != tuple(counters):
        told = "; ".join(
            f"{name}: {counter} expected, {count} found"
            for name, counter, count in zip(_COUNTERS, counters, there, strict=True)
            if counter != count
        )
        yield f"fragment {number} has not what it counts: {told}"
    if held.last_sequence >= next_sequence:
        yield (
            f"fragment {number} has a message with the number {held.last_sequence}, "
            f"and would give out {next_sequence} next"
        )
