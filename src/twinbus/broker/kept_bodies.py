"""Counts the bytes of locked messages in memory, over all fragments.

The receiver of a message has its bytes. Until it is settled, the bus needs them only to
deliver it again. A client may hold thousands of messages, and locks outlive their
clients. So beyond a limit the bytes are dropped from memory, and read from the store if
the message returns.
"""

from typing import final

from twinbus.limits import LOCKED_BYTES


@final
class KeptBodies:
    """Shared by the fragments of a store."""

    def __init__(self, limit_bytes: int = LOCKED_BYTES) -> None:
        self.limit_bytes: int = limit_bytes
        # Bytes of all locked messages that are in memory; the fragments update it.
        self.held_bytes: int = 0
