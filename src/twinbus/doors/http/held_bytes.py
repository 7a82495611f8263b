"""Counts what all HTTP connections of a server hold in memory.

Each connection has its own limits, but there may be thousands: slow request bodies and
unread responses would add up to more memory than the server has.
"""

from twinbus.errors import ServerBusy
from twinbus.limits import HTTP_HELD_BYTES


class HeldBytes:
    """Bodies being received or processed, and responses that were not read yet."""

    def __init__(self, limit: int = HTTP_HELD_BYTES) -> None:
        self.limit = limit
        self.held = 0

    @property
    def is_full(self) -> bool:
        return self.held >= self.limit

    def check(self, path: str) -> None:
        """Call this before making a large response. Raises ServerBusy."""
        if self.is_full:
            raise ServerBusy(self.text, entity_path=path)

    @property
    def text(self) -> str:
        return (
            f"The server holds {self.limit} bytes or more of requests and of unread "
            "responses. Wait a moment and try again."
        )
