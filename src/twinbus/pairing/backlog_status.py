"""The content of the backlog queues of a primary, for people and for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogQueueStatus:
    """One backlog queue."""

    path: str
    # Number of messages without dead letters: as peeked if all messages were peeked
    # at, else as the namespace counts them.
    waiting: int
    dead_letters: int
    size_bytes: int
    # When the oldest was enqueued; None if there is none.
    oldest_at: int | None = None
    # Among the messages that were peeked at: how many wait for each entity of the
    # primary, and how many of these are deferred, because the entity did not take them.
    entities: Mapping[str, int] = field(default_factory=dict)
    parked: Mapping[str, int] = field(default_factory=dict)
    looked_at: int = 0

    @property
    def is_unused(self) -> bool:
        return self.waiting == 0 and self.dead_letters == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogSurvey:
    """The backlog of one primary."""

    primary_name: str
    queues: tuple[BacklogQueueStatus, ...]
    # Path of the queue whose session lock is the right to run the syphon in a server;
    # None if no server ever ran one.
    lease: str | None
    # All primaries that have backlog queues there.
    primaries: tuple[str, ...]

    @property
    def missing(self) -> str:
        """The text for people if there are no queues."""
        others = f"; those of {', '.join(self.primaries)} are" if self.primaries else ""
        return f"No backlog queues of '{self.primary_name}' are there{others}."

    @property
    def entities(self) -> list[str]:
        """Paths on the primary that the peeked messages wait for. Messages without a
        path are left out."""
        found = {path for queue in self.queues for path in queue.entities}
        return sorted(path for path in found if path)

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues)

    @property
    def dead_letters(self) -> int:
        return sum(queue.dead_letters for queue in self.queues)

    @property
    def oldest_at(self) -> int | None:
        known = [queue.oldest_at for queue in self.queues if queue.oldest_at]
        return min(known, default=None)
