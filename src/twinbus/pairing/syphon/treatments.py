"""What follows from a failure to restore, by its kind: the syphon's own table.

A sender gives up what is misconfigured; a syphon waits for it to be mended, because
the messages are safe where they are. Only what would be refused for ever is poison.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.ports import Fault, RestoreRefusal


class Treatment(Enum):
    """What follows."""

    PARK = "the entity is parked"
    WAIT = "the entity is left alone for 10 seconds at least"
    COMPLAIN = "the entity is parked, and the log says so loudly"
    GRACE = "the entity is parked, and its messages dead-lettered after a grace"
    POISON = "the message is dead-lettered"


TREATMENTS: Final[Mapping[FailureKind, Treatment]] = MappingProxyType(
    {
        FailureKind.TIMEOUT: Treatment.PARK,
        FailureKind.CONNECTION: Treatment.PARK,
        FailureKind.COMMUNICATION: Treatment.PARK,
        FailureKind.SERVICE: Treatment.PARK,
        FailureKind.NOT_FOUND: Treatment.GRACE,
        FailureKind.DISABLED: Treatment.PARK,
        FailureKind.QUOTA: Treatment.PARK,
        FailureKind.BUSY: Treatment.WAIT,
        FailureKind.STORE: Treatment.WAIT,
        FailureKind.AUTHENTICATION: Treatment.COMPLAIN,
        FailureKind.AUTHORIZATION: Treatment.COMPLAIN,
        FailureKind.TOO_LARGE: Treatment.POISON,
        FailureKind.MESSAGE: Treatment.POISON,
        FailureKind.ARGUMENT: Treatment.POISON,
    }
)

UNANSWERED: Final = frozenset(
    (FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.COMMUNICATION)
)
"""Kinds that may mean that the whole primary is away."""

CREDENTIALS: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))
"""Kinds that somebody has to mend; nothing gets better by waiting."""

_REASONS: Final = {
    FailureKind.TOO_LARGE: "MessageSizeExceeded",
    FailureKind.MESSAGE: "MessageRefused",
    FailureKind.ARGUMENT: "InvalidArgument",
    FailureKind.NOT_FOUND: "MessagingEntityNotFound",
}


def fault_of(refusal: RestoreRefusal) -> Fault:
    """What the dead letter says of a message that the primary refuses for ever."""
    return Fault(_REASONS[refusal.kind], refusal.text)
