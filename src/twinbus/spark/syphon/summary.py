"""What a run has done, counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run at one moment, or at its end."""

    primary_name: str
    queues: tuple[str, ...]
    restored: int
    # Messages that the primary had already, from a run or a syphon before.
    known: int
    # By reason.
    dead_lettered: Mapping[str, int] = field(default_factory=dict)
    # By entity, those of others included.
    parked: Mapping[str, int] = field(default_factory=dict)
    # Active messages in the backlog queues, when it began and now.
    found: int = 0
    left: int = 0
    batches: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second, from the start to the end."""
        return (self.restored + self.known) / self.seconds if self.seconds else 0.0

    @property
    def is_backlog_left(self) -> bool:
        return bool(self.left or self.parked or self.dead_lettered)


@final
class RunTally:
    """The counters; whoever does something counts it here."""

    def __init__(self) -> None:
        self.restored = 0
        self.known = 0
        self.dead_lettered: Counter[str] = Counter()
        self.batches = 0
        # Times that a message was deferred.
        self.deferred = 0

    @property
    def moved(self) -> int:
        """Messages that are no longer active because of us."""
        buried = sum(self.dead_lettered.values())
        return self.restored + self.known + self.deferred + buried
