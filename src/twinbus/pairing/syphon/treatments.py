"""What to do if a message cannot be restored, by the kind of failure.

A sender raises an error if something is misconfigured. A syphon waits until somebody
fixes it, because the messages are safe in the backlog. Only a message that would be
refused for ever is poison.
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
"""Kinds that an administrator has to fix; waiting does not help."""

_REASONS: Final = {
    FailureKind.TOO_LARGE: "MessageSizeExceeded",
    FailureKind.MESSAGE: "MessageRefused",
    FailureKind.ARGUMENT: "InvalidArgument",
    FailureKind.NOT_FOUND: "MessagingEntityNotFound",
}


def fault_of(refusal: RestoreRefusal) -> Fault:
    """The reason in the dead letter of a message that the primary refuses for ever."""
    return Fault(_REASONS[refusal.kind], refusal.text)
