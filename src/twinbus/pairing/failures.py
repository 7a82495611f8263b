"""What a failed send says about its entity: the table of P7.

An adapter tells which kind of failure an error is; the table says what to do about it.
An application may change the table (option `verdicts`).
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


WITHOUT_ANSWER: Final = frozenset(
    {
        *(FailureKind.TIMEOUT, FailureKind.CONNECTION),
        *(FailureKind.COMMUNICATION, FailureKind.SERVICE),
    }
)
"""After these nobody knows whether the message was accepted."""


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
        # Not transient, and diverted all the same: an administrator may fix them.
        FailureKind.NOT_FOUND: Verdict.COUNTS,
        FailureKind.DISABLED: Verdict.COUNTS,
        FailureKind.QUOTA: Verdict.COUNTS,
        # The entity is there, and asks for patience (A2).
        FailureKind.BUSY: Verdict.WAIT,
        # It may last for any time, and waiting does not fix it.
        FailureKind.STORE: Verdict.COUNTS,
        # The client is misconfigured; the backlog does not help.
        FailureKind.AUTHENTICATION: Verdict.RAISE,
        FailureKind.AUTHORIZATION: Verdict.RAISE,
        # The message would be refused anywhere.
        FailureKind.TOO_LARGE: Verdict.RAISE,
        FailureKind.MESSAGE: Verdict.RAISE,
        FailureKind.ARGUMENT: Verdict.RAISE,
    }
)
"""P7: which failures count towards a failover, which to wait for, which to raise."""


ASKS_FOR_PATIENCE: Final = frozenset((FailureKind.BUSY, FailureKind.STORE))
"""Kinds after which every client waits at least 10 seconds, whatever else it does."""


REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))
"""The namespace answers, and refuses the credential or lacks a right for it."""

UNANSWERED: Final = frozenset(
    (FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.COMMUNICATION)
)
"""The namespace does not answer."""


def busy_kind(text: str) -> FailureKind:
    """The kind of a busy error, found by its text."""
    return FailureKind.STORE if STORE_TROUBLE in text else FailureKind.BUSY
