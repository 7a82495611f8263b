"""A delivery that comes in several frames, until its last one is here.

Memory is bounded twice: a delivery that outgrows its link's limit drops its bytes and
goes on as `oversize`, so that it can be rejected by itself; and all that a connection
makes us keep has a budget, beyond which the connection is closed. What costs the peer a
few bytes and us an object is counted as what it costs us: unfinished deliveries, links
and sessions are many and small where somebody wants them to be.
"""

from typing import Final, final

from twinbus.amqp.errors import RESOURCE_LIMIT_EXCEEDED, ProtocolError

ASSEMBLY_BYTES: Final = 512
"""An unfinished delivery without its payload."""

LINK_BYTES: Final = 2_048
"""A link, and what a shell keeps with it."""

SESSION_BYTES: Final = 4_096
"""A session without links."""

ATTACH_FACTOR: Final = 4
"""What a decoded attach takes, as a multiple of its bytes, until it is answered."""


@final
class Budget:
    """What one connection may hold; shared by its sessions and links."""

    def __init__(self, limit_bytes: int, link_limit: int) -> None:
        self.limit_bytes: int = limit_bytes
        # What is kept for the peer: unfinished deliveries, sessions, links and what
        # was said of them, transfers that wait for a window.
        self.held_bytes: int = 0
        self.link_limit: int = link_limit
        self.link_count: int = 0

    def hold(self, size_bytes: int) -> None:
        """The peer makes us keep so much more. Raises ProtocolError past the limit."""
        held_bytes = self.held_bytes + size_bytes
        if held_bytes > self.limit_bytes:
            raise ProtocolError(
                RESOURCE_LIMIT_EXCEEDED,
                "unfinished deliveries, links and sessions of the connection would "
                f"take {held_bytes} bytes; it may have {self.limit_bytes}",
            )
        self.held_bytes = held_bytes

    def release(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes


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
        # Our part of the budget.
        self._held_bytes: int = ASSEMBLY_BYTES + len(delivery_tag)
        budget.hold(self._held_bytes)

    def add(self, part: bytes) -> None:
        if self.oversize or not part:
            return
        size = len(self._data) + len(part)
        if 0 < self._limit_bytes < size:
            self.drop()
            self.oversize = True
            return
        self._budget.hold(len(part))
        self._held_bytes += len(part)
        self._data += part

    def take(self) -> bytes:
        """The whole payload; the budget gets its bytes back."""
        payload = bytes(self._data)
        self.drop()
        return payload

    def drop(self) -> None:
        self._budget.release(self._held_bytes)
        self._held_bytes = 0
        self._data = bytearray()
