"""How many messages an entity holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCounts:
    """Numbers of messages by state."""

    # Deferred messages count as active, as in the service.
    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0

    @property
    def total(self) -> int:
        return (
            self.active
            + self.dead_letter
            + self.scheduled
            + self.transfer
            + self.transfer_dead_letter
        )
