"""Which kind of failure an error of the SDK is; `failures.py` says what to do then.

An error of the SDK often wraps the one that matters: the answer of `$cbs`, an error of
the socket, an error of an encoder. The class of the error decides if it is specific
enough; otherwise the AMQP condition, then the wrapped error.
"""

import struct
from typing import Final

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.servicebus import exceptions

from twinbus.pairing.errors import PairingError
from twinbus.pairing.failures import FailureKind, busy_kind
from twinbus.pairing.sdk.explaining import is_untrusted, reason_of
from twinbus.sdk_internals.errors import condition_of, token_status_of

_BY_CLASS: Final[tuple[tuple[type[BaseException], FailureKind], ...]] = (
    (exceptions.OperationTimeoutError, FailureKind.TIMEOUT),
    (exceptions.ServiceBusAuthorizationError, FailureKind.AUTHORIZATION),
    (exceptions.MessagingEntityNotFoundError, FailureKind.NOT_FOUND),
    (exceptions.MessagingEntityDisabledError, FailureKind.DISABLED),
    (exceptions.ServiceBusQuotaExceededError, FailureKind.QUOTA),
    (exceptions.ServiceBusServerBusyError, FailureKind.BUSY),
    (exceptions.MessageSizeExceededError, FailureKind.TOO_LARGE),
    (exceptions.MessageNotFoundError, FailureKind.ARGUMENT),
    (exceptions.ServiceBusCommunicationError, FailureKind.COMMUNICATION),
    (exceptions.ServiceBusConnectionError, FailureKind.CONNECTION),
    (ClientAuthenticationError, FailureKind.AUTHENTICATION),
    (ResourceNotFoundError, FailureKind.NOT_FOUND),
    (ServiceRequestError, FailureKind.CONNECTION),
    (ServiceResponseError, FailureKind.CONNECTION),
    (HttpResponseError, FailureKind.SERVICE),
    (PairingError, FailureKind.ARGUMENT),
    (TimeoutError, FailureKind.TIMEOUT),
    # Before ValueError: a certificate that has expired is both.
    (OSError, FailureKind.CONNECTION),
    (EOFError, FailureKind.CONNECTION),
    # Raised by an encoder, or by a check of arguments.
    (UnicodeError, FailureKind.MESSAGE),
    (struct.error, FailureKind.MESSAGE),
    (TypeError, FailureKind.MESSAGE),
    (ValueError, FailureKind.ARGUMENT),
    (ImportError, FailureKind.ARGUMENT),
)
"""The first that fits."""

_BY_CONDITION: Final = {
    "amqp:not-allowed": FailureKind.MESSAGE,
    "amqp:not-implemented": FailureKind.MESSAGE,
    "amqp:decode-error": FailureKind.MESSAGE,
    "amqp:invalid-field": FailureKind.MESSAGE,
    "amqp:link:message-size-exceeded": FailureKind.TOO_LARGE,
    "com.microsoft:argument-error": FailureKind.ARGUMENT,
    "com.microsoft:argument-out-of-range": FailureKind.ARGUMENT,
    "amqp:socket-error": FailureKind.CONNECTION,
    "amqp:connection:forced": FailureKind.CONNECTION,
    "amqp:link:detach-forced": FailureKind.CONNECTION,
}
"""Conditions for which the SDK has no class of its own."""

_BY_TOKEN_STATUS: Final = {
    401: FailureKind.AUTHENTICATION,
    403: FailureKind.AUTHENTICATION,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    503: FailureKind.BUSY,
}
"""What `$cbs` answers to a token."""


def kind_of(error: BaseException) -> FailureKind:
    """An unknown error counts as an error of the service."""
    kind = _kind_of(error)
    return busy_kind(reason_of(error)) if kind is FailureKind.BUSY else kind


def _kind_of(error: BaseException) -> FailureKind:
    wrapped = getattr(error, "inner_exception", None) or error.__cause__
    status = token_status_of(wrapped)
    if isinstance(error, exceptions.ServiceBusError) and status is not None:
        return _BY_TOKEN_STATUS.get(status, FailureKind.SERVICE)
    if isinstance(error, exceptions.ServiceBusAuthenticationError):
        return _authentication_kind(wrapped)
    if is_untrusted(error):
        # Misconfigured, as a wrong key is; no detour mends that.
        return FailureKind.AUTHENTICATION
    if _is_cut_off(error):
        return FailureKind.CONNECTION
    for error_class, kind in _BY_CLASS:
        if isinstance(error, error_class):
            return kind
    if isinstance(error, AzureError):
        by_condition = _BY_CONDITION.get(condition_of(error))
        if by_condition is not None:
            return by_condition
    if isinstance(wrapped, BaseException):
        return _kind_of(wrapped)
    return FailureKind.SERVICE


def _is_cut_off(error: BaseException) -> bool:
    """Whether the links of a request broke: the SDK raises a ValueError for that, as
    for a wrong argument."""
    return "Management Operation error" in str(error)


def _authentication_kind(wrapped: BaseException | None) -> FailureKind:
    """Whether `$cbs` gave no answer about the token itself.

    Then the link to `$cbs` broke, or the peer refused the connection (SASL). For a
    broken link the SDK makes up a condition.
    """
    if "CBS authentication link" in str(wrapped):
        return FailureKind.CONNECTION
    return FailureKind.AUTHENTICATION
