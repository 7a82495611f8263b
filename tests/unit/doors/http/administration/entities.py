"""Entities for tests, with the given properties only."""

from dataclasses import dataclass, field

from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.entities.message_counts import MessageCounts

CREATED_AT = 1_700_000_000_123
UPDATED_AT = 1_700_000_100_000


@dataclass
class PlainQueue:
    """A queue for those who write descriptions."""

    description: QueueDescription = field(default_factory=QueueDescription)
    path: str = "orders"
    created_at: int = CREATED_AT
    updated_at: int = UPDATED_AT
    accessed_at: int = 0
    message_counts: MessageCounts = field(default_factory=MessageCounts)

    all_stores_serve: bool = True

    def is_available(self) -> bool:
        return self.all_stores_serve

    def counts(self) -> MessageCounts:
        return self.message_counts

    def size_bytes(self) -> int:
        return 77
