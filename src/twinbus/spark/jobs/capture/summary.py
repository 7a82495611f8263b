"""What a capture has done, counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from twinbus.spark.jobs.lake.layout import LakeHour


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSummary:
    """A run at one moment, or at its end."""

    lake: str
    namespace: str
    # Messages by entity.
    entities: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    # Of the messages.
    bytes: int = 0
    files: int = 0
    batches: int = 0
    # Rows that the lake had already, from a capture with another checkpoint.
    known: int = 0
    compacted_hours: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second, from the start to the end."""
        return self.messages / self.seconds if self.seconds else 0.0


@final
class CaptureTally:
    """The counters of a run."""

    def __init__(self) -> None:
        self.entities: Counter[str] = Counter()
        self.bytes = 0
        self.files = 0
        self.batches = 0
        self.known = 0
        self.compacted_hours = 0
        # What batches have added to, since it was last compacted.
        self.hours: set[LakeHour] = set()
