"""Events of a pair, for callbacks, log lines and metrics."""

from dataclasses import dataclass
from enum import Enum


class EventKind(Enum):
    """What happened."""

    STATE_CHANGED = "state changed"
    DIVERTED = "diverted"
    PINGED = "pinged"
    BACKLOG_QUEUE_OUT = "backlog queue out of rotation"
    BACKLOG_QUEUE_BACK = "backlog queue back in rotation"
    RESTORED = "restored"
    PARKED = "entity parked"
    UNPARKED = "entity unparked"
    POISON = "poison message"
    # One for every receive: its count is 0 if there was nothing.
    RECEIVED = "received from backlog"
    # About one backlog queue if that is named, else about all of them; with the reason.
    SYPHON_WAITS = "syphon cannot run"
    SYPHON_RUNS = "syphon runs"
    FAULTED = "faulted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEvent:
    """One event; its kind decides which fields are set."""

    kind: EventKind
    # Entity on the primary, if it is about one.
    path: str = ""
    # Backlog queue, if it is about one.
    queue: str = ""
    # New state, outcome or reason, as a text.
    text: str = ""
    # How many messages.
    count: int = 0
