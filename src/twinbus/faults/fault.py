"""A fault: what goes wrong, for which operations, and for how long.

    refuse      the operation is refused with an internal error
    busy        it is refused with server-busy
    drop        the connection is cut before anything is done
    unanswered  the operation is done; the connection is cut instead of an answer
    slow        commits of the store take longer
    failing     commits of the store fail; nothing of them happens
    gone        nothing works with the store until the fault is cleared

The first four hit operations of clients, by the path of their entity. The others hit a
store, so that everything in it has the same trouble as with a bad disk or database.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

EVERYTHING: Final = "*"
"""The pattern that matches every name."""


class Effect(Enum):
    """What a fault does."""

    REFUSE = "refuse"
    BUSY = "busy"
    DROP = "drop"
    UNANSWERED = "unanswered"
    SLOW = "slow"
    FAILING = "failing"
    GONE = "gone"


class Operation(Enum):
    """What a client wants to do. Each can fail while the others work."""

    SEND = "send"
    RECEIVE = "receive"
    MANAGE = "manage"
    CONNECT = "connect"


STORE_EFFECTS: Final = frozenset((Effect.SLOW, Effect.FAILING, Effect.GONE))

USUAL_OPERATIONS: Final = frozenset(
    (Operation.SEND, Operation.RECEIVE, Operation.MANAGE)
)
"""Those of a fault that names none: clients that are connected notice it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """One fault. Patterns are those of file names, such as `orders-*`."""

    effect: Effect
    operations: frozenset[Operation] = USUAL_OPERATIONS
    entity: str = EVERYTHING
    # The location of a store, as the server prints it.
    store: str = EVERYTHING
    namespace: str = EVERYTHING
    # Epoch milliseconds; 0: until it is cleared.
    until: int = 0
    # How many of the operations it hits, above 0 and at most 1.
    probability: float = 1.0
    # With the same seed it hits the same operations; None: any.
    seed: int | None = None
    # Of slow commits: how much longer each takes, and how many messages per second
    # the store takes at most (0: any number).
    delay_ms: int = 0
    rate: int = 0
    # Given when it is set; the name by which it is cleared.
    number: int = 0

    def has_ended(self, now: int) -> bool:
        return self.until != 0 and now >= self.until
