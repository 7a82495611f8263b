"""How many bytes of locked messages are kept in memory, over all fragments.

Whoever received a message has its bytes; until it is settled the bus needs them for
nothing but to hand it out again. A client may hold thousands of messages, and locks
outlive their clients, so beyond a limit the bytes of what is locked are left to the
store, which has them anyway, and read again if the message comes back.
"""

from typing import final

from twinbus.limits import LOCKED_BYTES


@final
class KeptBodies:
    """Shared by the fragments of a store."""

    def __init__(self, limit_bytes: int = LOCKED_BYTES) -> None:
        self.limit_bytes: int = limit_bytes
        # Of all locked messages whose bytes are here; changed by their fragments.
        self.held_bytes: int = 0
