"""What a replay has done, or would do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFlow:
    """Messages of one entity of the lake, and where they go."""

    entity: str
    target: str
    messages: int
    bytes: int
    # Sequence numbers, and milliseconds since the epoch.
    first: int
    last: int
    first_enqueued_at: int
    last_enqueued_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """A run at one moment, or at its end."""

    lake: str
    namespace: str
    replay_id: str
    is_dry_run: bool
    # What was selected.
    flows: tuple[ReplayFlow, ...] = ()
    selected: int = 0
    sent: int = 0
    # Sent by this replay id before, and dropped by the bus.
    known: int = 0
    # Not sent because they have expired.
    expired: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second, from the start to the end."""
        done = self.sent + self.known
        return done / self.seconds if self.seconds else 0.0
