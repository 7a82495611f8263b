"""Which kind of failure an error of `twinbus.client` is, by the peer's condition."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from twinbus.amqp.errors import AmqpError
from twinbus.client.errors import (
    ClientError,
    ConnectionLost,
    LinkClosed,
    RequestFailed,
)
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    AuthenticationFailed,
    ConnectionForced,
    DetachForced,
    EntityDisabled,
    MessageSizeExceeded,
    MessagingEntityNotFound,
    NotAllowed,
    NotSupported,
    OperationTimeout,
    QuotaExceeded,
    ServerBusy,
    ServiceBusError,
    UnauthorizedAccess,
)
from twinbus.pairing.failures import FailureKind, busy_kind
from twinbus.pairing.syphon.errors import SecondaryError

_BY_CONDITION: Final = {
    OperationTimeout.condition: FailureKind.TIMEOUT,
    ConnectionForced.condition: FailureKind.CONNECTION,
    DetachForced.condition: FailureKind.CONNECTION,
    MessagingEntityNotFound.condition: FailureKind.NOT_FOUND,
    EntityDisabled.condition: FailureKind.DISABLED,
    QuotaExceeded.condition: FailureKind.QUOTA,
    ServerBusy.condition: FailureKind.BUSY,
    AuthenticationFailed.condition: FailureKind.AUTHENTICATION,
    UnauthorizedAccess.condition: FailureKind.AUTHORIZATION,
    MessageSizeExceeded.condition: FailureKind.TOO_LARGE,
    NotAllowed.condition: FailureKind.MESSAGE,
    NotSupported.condition: FailureKind.MESSAGE,
    "amqp:decode-error": FailureKind.MESSAGE,
    ArgumentError.condition: FailureKind.ARGUMENT,
    ArgumentOutOfRange.condition: FailureKind.ARGUMENT,
}

_BY_STATUS: Final = {
    401: FailureKind.AUTHENTICATION,
    403: FailureKind.AUTHORIZATION,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    410: FailureKind.SERVICE,
    503: FailureKind.BUSY,
}


def kind_of(error: BaseException) -> FailureKind:
    """An unknown error counts as an error of the service."""
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT
    if isinstance(error, OSError):
        return FailureKind.CONNECTION
    if isinstance(error, RequestFailed):
        kind = _BY_STATUS.get(error.status, FailureKind.SERVICE)
        return busy_kind(str(error)) if kind is FailureKind.BUSY else kind
    if isinstance(error, ServiceBusError):
        return _BY_CONDITION.get(error.condition, FailureKind.SERVICE)
    told = error.error if isinstance(error, ClientError) else None
    if told is not None:
        return kind_of_condition(told)
    if isinstance(error, ConnectionLost | LinkClosed):
        return FailureKind.CONNECTION
    return FailureKind.SERVICE


def kind_of_condition(error: AmqpError) -> FailureKind:
    kind = _BY_CONDITION.get(error.condition, FailureKind.SERVICE)
    return busy_kind(error.description or "") if kind is FailureKind.BUSY else kind


@asynccontextmanager
async def secondary_errors() -> AsyncIterator[None]:
    """Raises SecondaryError for whatever goes wrong with the secondary."""
    try:
        yield
    except (
        *(ServiceBusError, ClientError, OSError, TimeoutError),
        asyncio.IncompleteReadError,
    ) as error:
        text = error.text if isinstance(error, ServiceBusError) else str(error)
        raise SecondaryError(text or "it does not answer", kind_of(error)) from error
