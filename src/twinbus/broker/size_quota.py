"""The size of an entity, over all of its fragments and sub-queues.

As in the service, a queue's dead letters count against its size, and the size of a
topic includes all its subscriptions. So these fragments share one quota object. It is
the sum of persisted counters, kept up to date in memory.
"""

from typing import final


@final
class SizeQuota:
    """The bytes of one queue, or of one topic with its subscriptions."""

    def __init__(self) -> None:
        self.used_bytes: int = 0
