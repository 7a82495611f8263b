"""How much an entity holds, over all of its fragments and sub-queues.

A queue's dead letters count against its size, and a topic's size is that of all its
subscriptions, as in the service; so fragments that belong together share one of
these. It is a sum of persisted counters, kept up to date in memory.
"""

from typing import final


@final
class SizeQuota:
    """The bytes of one queue, or of one topic with its subscriptions."""

    def __init__(self) -> None:
        self.used_bytes: int = 0
