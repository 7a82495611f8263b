"""What a failed send says about its entity: the table of P7.

An adapter tells which kind of failure an error is; the table says what follows. It is
a setting: an application may have a kind judged otherwise (`verdicts` of the options).
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from twinbus.errors import STORE_TROUBLE


class FailureKind(Enum):
    """Kinds of failures, by what went wrong."""

    TIMEOUT = "time-out"
    CONNECTION = "connection lost or refused"
    COMMUNICATION = "communication error"
    SERVICE = "service error"
    NOT_FOUND = "entity not found"
    DISABLED = "entity disabled"
    QUOTA = "quota exceeded"
    BUSY = "server busy"
    STORE = "server busy, because its message store is full or fails"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    TOO_LARGE = "message too large"
    MESSAGE = "message malformed or not allowed"
    ARGUMENT = "bad argument"


class Verdict(Enum):
    """What follows from a failure."""

    COUNTS = "counts towards failover"
    WAIT = "wait 10 seconds, then send again"
    RAISE = "raised to the caller"


VERDICTS: Final[Mapping[FailureKind, Verdict]] = MappingProxyType(
    {
        FailureKind.TIMEOUT: Verdict.COUNTS,
        FailureKind.CONNECTION: Verdict.COUNTS,
        FailureKind.COMMUNICATION: Verdict.COUNTS,
        FailureKind.SERVICE: Verdict.COUNTS,
        # Not transient, and yet the detour is open: who made them may mend them.
        FailureKind.NOT_FOUND: Verdict.COUNTS,
        FailureKind.DISABLED: Verdict.COUNTS,
        FailureKind.QUOTA: Verdict.COUNTS,
        # The entity is there, and asks for patience (A2).
        FailureKind.BUSY: Verdict.WAIT,
        # Nobody knows how long that lasts, and patience does not mend it.
        FailureKind.STORE: Verdict.COUNTS,
        # The client is misconfigured; no detour mends that.
        FailureKind.AUTHENTICATION: Verdict.RAISE,
        FailureKind.AUTHORIZATION: Verdict.RAISE,
        # The message would be refused anywhere.
        FailureKind.TOO_LARGE: Verdict.RAISE,
        FailureKind.MESSAGE: Verdict.RAISE,
        FailureKind.ARGUMENT: Verdict.RAISE,
    }
)
"""P7: what counts, what is waited out, and what is the caller's."""


ASKS_FOR_PATIENCE: Final = frozenset((FailureKind.BUSY, FailureKind.STORE))
"""Kinds after which every client waits at least 10 seconds, whatever else it does."""


def busy_kind(text: str) -> FailureKind:
    """Why a server says that it is busy, by its text."""
    return FailureKind.STORE if STORE_TROUBLE in text else FailureKind.BUSY
