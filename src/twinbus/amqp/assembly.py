"""A delivery that comes in several frames, until its last one is here.

Memory is bounded twice: a delivery that outgrows its link's limit drops its bytes and
goes on as `oversize`, so that it can be rejected by itself; and all unfinished
deliveries of a connection share a budget, beyond which the connection is closed.
"""

from typing import final

from twinbus.amqp.errors import RESOURCE_LIMIT_EXCEEDED, ProtocolError


@final
class Budget:
    """What one connection may hold; shared by its sessions and links."""

    def __init__(self, partial_limit_bytes: int, link_limit: int) -> None:
        self.partial_limit_bytes: int = partial_limit_bytes
        self.partial_bytes: int = 0
        self.link_limit: int = link_limit
        self.link_count: int = 0


@final
class Assembly:
    """Fields of the first frame and the payload so far."""

    def __init__(
        self,
        budget: Budget,
        delivery_id: int,
        delivery_tag: bytes,
        message_format: int,
        limit_bytes: int,
    ) -> None:
        self._budget: Budget = budget
        self.delivery_id: int = delivery_id
        self.delivery_tag: bytes = delivery_tag
        self.message_format: int = message_format
        # Said by any of the frames; the last one to say it wins (2.7.5).
        self.settled: bool = False
        self.state: object = None
        self.oversize: bool = False
        # Zero: no limit of the link's own.
        self._limit_bytes: int = limit_bytes
        # One buffer instead of a list of parts: a thousand frames of one byte each
        # then take a thousand bytes.
        self._data: bytearray = bytearray()

    def add(self, part: bytes) -> None:
        if self.oversize or not part:
            return
        size = len(self._data) + len(part)
        if 0 < self._limit_bytes < size:
            self.drop()
            self.oversize = True
            return
        budget = self._budget
        budget.partial_bytes += len(part)
        if budget.partial_bytes > budget.partial_limit_bytes:
            raise ProtocolError(
                RESOURCE_LIMIT_EXCEEDED,
                "the connection's unfinished deliveries exceed"
                f" {budget.partial_limit_bytes} bytes",
            )
        self._data += part

    def take(self) -> bytes:
        """The whole payload; the budget gets its bytes back."""
        payload = bytes(self._data)
        self.drop()
        return payload

    def drop(self) -> None:
        self._budget.partial_bytes -= len(self._data)
        self._data = bytearray()
