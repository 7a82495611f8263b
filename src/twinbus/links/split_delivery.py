"""A delivery whose messages belong to several fragments.

It is answered when all fragments have. If one of them fails, the client is told so and
sends the whole delivery again. That stores nothing twice, because only deliveries whose
messages all have twinbus ids are split.
"""

from typing import final

from twinbus.broker.commit_listener import CommitListener
from twinbus.errors import ServiceBusError


@final
class SplitDelivery(CommitListener):
    """Collects the outcomes of the parts, for the link."""

    def __init__(self, link: CommitListener, delivery_id: int, part_count: int) -> None:
        super().__init__()
        self._link: CommitListener = link
        self._delivery_id: int = delivery_id
        # Parts whose outcome is not known yet.
        self._left_count: int = part_count
        self._error: ServiceBusError | None = None

    def committed(self, items: list[int]) -> None:
        self._end(len(items))

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        # An error for good says more than one that passes.
        if self._error is None or self._error.retryable:
            self._error = error
        self._end(len(items))

    def _end(self, count: int) -> None:
        self._left_count -= count
        if self._left_count > 0:
            return
        if self._error is None:
            self._link.committed([self._delivery_id])
        else:
            self._link.failed([self._delivery_id], self._error)
