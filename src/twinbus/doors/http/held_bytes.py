"""What the HTTP connections of a server hold for their clients, counted together.

Each connection has bounds of its own, but there are thousands of them: bodies that come
slowly and answers that nobody reads would add up to more than a server has.
"""

from twinbus.errors import ServerBusy
from twinbus.limits import HTTP_HELD_BYTES


class HeldBytes:
    """Bodies that are being sent or answered, and answers that were not read yet."""

    def __init__(self, limit: int = HTTP_HELD_BYTES) -> None:
        self.limit = limit
        self.held = 0

    @property
    def is_full(self) -> bool:
        return self.held >= self.limit

    def check(self, path: str) -> None:
        """For whoever is about to make a large answer. Raises ServerBusy."""
        if self.is_full:
            raise ServerBusy(self.text, entity_path=path)

    @property
    def text(self) -> str:
        return (
            f"The server holds {self.limit} bytes or more of requests and of answers "
            "that were not read. Wait a moment and try again."
        )
