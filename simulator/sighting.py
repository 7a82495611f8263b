"""What clients of a simulated bus can see, and what the auditor calls a lie."""

from dataclasses import dataclass


class Violation(AssertionError):
    """The bus did what it must not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A message as a client saw it."""

    uid: str
    path: str
    dead_letter: bool
    sequence_number: int
    delivery_count: int
    enqueued_at: int
    # "active", "deferred" or "scheduled".
    state: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the bus says it holds of a queue."""

    active: int
    deferred: int
    scheduled: int
    dead_letter: int
    size_bytes: int
