"""Which dead letters of an entity a command works on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Some by sequence number, or the first so many, or all."""

    numbers: frozenset[int] = frozenset()
    # None: all.
    count: int | None = None

    def takes(self, sequence_number: int) -> bool:
        return not self.numbers or sequence_number in self.numbers

    def is_done(self, taken_count: int) -> bool:
        limit = len(self.numbers) if self.numbers else self.count
        return limit is not None and taken_count >= limit
