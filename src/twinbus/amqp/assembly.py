"""A delivery in several frames, until its last frame has arrived.

Memory has two limits. A delivery that exceeds its link's limit drops its bytes and
continues as `oversize`, so that only this delivery is rejected. And each connection has
a budget for everything kept for the peer; if it is exceeded, the connection is closed.
Unfinished deliveries, links and sessions cost the peer a few bytes each, but count as
the memory that they take here: an attacker can make many of them.
"""

from typing import Final, final

from twinbus.amqp.errors import RESOURCE_LIMIT_EXCEEDED, ProtocolError

ASSEMBLY_BYTES: Final = 512
"""Memory of an unfinished delivery without its payload."""

LINK_BYTES: Final = 2_048
"""Memory of a link, and of what a shell keeps with it."""

SESSION_BYTES: Final = 4_096
"""Memory of a session without links."""

ATTACH_FACTOR: Final = 4
"""Memory of a decoded attach until it is answered, as a multiple of its bytes."""


@final
class Budget:
    """Limits of one connection; its sessions and links share it."""

    def __init__(self, limit_bytes: int, link_limit: int) -> None:
        self.limit_bytes: int = limit_bytes
        # Bytes kept for the peer: unfinished deliveries, sessions, links with their
        # attach, transfers that wait for a window.
        self.held_bytes: int = 0
        self.link_limit: int = link_limit
        self.link_count: int = 0

    def hold(self, size_bytes: int) -> None:
        """Count bytes kept for the peer. Raises ProtocolError beyond the limit."""
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
    """Fields of the first frame, and the payload so far."""

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
        # Any frame may set these; the last one wins (2.7.5).
        self.settled: bool = False
        self.state: object = None
        self.oversize: bool = False
        # 0: the link has no limit of its own.
        self._limit_bytes: int = limit_bytes
        # One buffer, not a list of parts: a frame of one byte then takes one byte.
        self._data: bytearray = bytearray()
        # Its part of the budget.
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
        """Return the whole payload, and release its bytes in the budget."""
        payload = bytes(self._data)
        self.drop()
        return payload

    def drop(self) -> None:
        self._budget.release(self._held_bytes)
        self._held_bytes = 0
        self._data = bytearray()
