"""What clients of a simulated bus can see, and the error for wrong behaviour."""

from dataclasses import dataclass


class Violation(AssertionError):
    """The bus did something that it must not do."""


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
    """The counters of a queue, as the bus reports them."""

    active: int
    deferred: int
    scheduled: int
    dead_letter: int
    size_bytes: int
