"""The kinds of failures of the client's errors."""

import pytest

from twinbus import errors
from twinbus.amqp.errors import AmqpError
from twinbus.client.errors import (
    ConnectionLost,
    LinkClosed,
    NotAccepted,
    RequestFailed,
)
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.own.failures import kind_of


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), FailureKind.TIMEOUT),
        (ConnectionRefusedError(), FailureKind.CONNECTION),
        (ConnectionLost("gone"), FailureKind.CONNECTION),
        (LinkClosed("gone"), FailureKind.CONNECTION),
        (RequestFailed(401, "no"), FailureKind.AUTHENTICATION),
        (RequestFailed(404, "no"), FailureKind.NOT_FOUND),
        (RequestFailed(500, "no"), FailureKind.SERVICE),
        (NotAccepted("no", None), FailureKind.SERVICE),
    ],
)
def test_errors_without_a_condition(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.MessagingEntityNotFound, FailureKind.NOT_FOUND),
        (errors.EntityDisabled, FailureKind.DISABLED),
        (errors.QuotaExceeded, FailureKind.QUOTA),
        (errors.ServerBusy, FailureKind.BUSY),
        (errors.UnauthorizedAccess, FailureKind.AUTHORIZATION),
        (errors.MessageSizeExceeded, FailureKind.TOO_LARGE),
        (errors.NotAllowed, FailureKind.MESSAGE),
        (errors.ArgumentError, FailureKind.ARGUMENT),
        (errors.InternalError, FailureKind.SERVICE),
        (errors.ConnectionForced, FailureKind.CONNECTION),
    ],
)
def test_the_peer_s_condition_decides(
    error: type[errors.ServiceBusError], kind: FailureKind
) -> None:
    told = AmqpError(error.condition, "text")
    assert kind_of(NotAccepted("no", None, told)) is kind
    assert kind_of(LinkClosed("no", told)) is kind
