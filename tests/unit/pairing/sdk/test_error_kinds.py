"""Every error that the SDK raises, or wraps, has its kind."""

import asyncio
import ssl
import struct

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.servicebus import exceptions
from azure.servicebus._pyamqp.error import (
    AMQPConnectionError,
    AuthenticationException,
    ErrorCondition,
    TokenAuthFailure,
)
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from twinbus.pairing.errors import CannotCancel
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of

_K = FailureKind


def _expired() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("certificate has expired")
    error.verify_code = 10
    return error


BY_CLASS = {
    exceptions.OperationTimeoutError: _K.TIMEOUT,
    exceptions.ServiceBusConnectionError: _K.CONNECTION,
    exceptions.ServiceBusCommunicationError: _K.COMMUNICATION,
    exceptions.ServiceBusAuthenticationError: _K.AUTHENTICATION,
    exceptions.ServiceBusAuthorizationError: _K.AUTHORIZATION,
    exceptions.MessagingEntityNotFoundError: _K.NOT_FOUND,
    exceptions.MessagingEntityDisabledError: _K.DISABLED,
    exceptions.ServiceBusQuotaExceededError: _K.QUOTA,
    exceptions.ServiceBusServerBusyError: _K.BUSY,
    exceptions.MessageSizeExceededError: _K.TOO_LARGE,
    exceptions.MessageNotFoundError: _K.ARGUMENT,
    exceptions.MessageAlreadySettled: _K.ARGUMENT,
    exceptions.MessageLockLostError: _K.SERVICE,
    exceptions.SessionLockLostError: _K.SERVICE,
    exceptions.SessionCannotBeLockedError: _K.SERVICE,
    exceptions.MessagingEntityAlreadyExistsError: _K.SERVICE,
}
"""All that need no more to be made than their class."""


def raised_for(exception: Exception) -> Exception:
    """What the SDK raises when its AMQP client raises this."""

    class Silent:
        def info(self, *args: object) -> None: ...

        exception = info

    return PyamqpTransport.create_servicebus_exception(Silent(), exception)


@pytest.mark.parametrize(("error_class", "kind"), BY_CLASS.items())
def test_classes_of_the_sdk(error_class, kind: FailureKind) -> None:
    assert kind_of(error_class()) is kind


def test_no_class_of_the_sdk_is_forgotten() -> None:
    classes = {
        value
        for value in vars(exceptions).values()
        if isinstance(value, type) and value.__module__ == exceptions.__name__
    }
    beyond = {
        exceptions.ServiceBusError,
        exceptions.AutoLockRenewFailed,
        exceptions.AutoLockRenewTimeout,
    }
    assert classes - beyond == set(BY_CLASS)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, _K.AUTHENTICATION),
        (403, _K.AUTHENTICATION),
        (404, _K.NOT_FOUND),
        (408, _K.TIMEOUT),
        (500, _K.SERVICE),
        (503, _K.BUSY),
        (0, _K.SERVICE),
    ],
)
def test_what_is_answered_to_a_token(status: int, kind: FailureKind) -> None:
    error = raised_for(TokenAuthFailure(status, "text"))
    assert type(error) is exceptions.ServiceBusAuthenticationError
    assert kind_of(error) is kind


def test_a_token_link_that_broke_is_a_lost_connection() -> None:
    error = raised_for(
        AuthenticationException(
            condition=ErrorCondition.InternalError,
            description="Failed to open CBS authentication link.",
        )
    )
    assert kind_of(error) is _K.CONNECTION


def test_a_peer_that_refuses_who_connects_is_a_matter_of_authentication() -> None:
    error = raised_for(
        AuthenticationException(
            condition=ErrorCondition.ClientError, description="SASL failed"
        )
    )
    assert kind_of(error) is _K.AUTHENTICATION


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("amqp:not-allowed", _K.MESSAGE),
        ("amqp:not-implemented", _K.MESSAGE),
        ("com.microsoft:argument-error", _K.ARGUMENT),
        ("com.microsoft:argument-out-of-range", _K.ARGUMENT),
        ("amqp:internal-error", _K.SERVICE),
        ("com.example:never-heard", _K.SERVICE),
        ("", _K.SERVICE),
    ],
)
@pytest.mark.parametrize("form", [str, str.encode])
def test_conditions_without_a_class(condition: str, kind: FailureKind, form) -> None:
    error = exceptions.ServiceBusError("text", condition=form(condition))
    assert kind_of(error) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), _K.TIMEOUT),
        (TimeoutError(), _K.TIMEOUT),
        (ConnectionResetError(), _K.CONNECTION),
        (ConnectionRefusedError(), _K.CONNECTION),
        (OSError(101, "Network is unreachable"), _K.CONNECTION),
        # The client is misconfigured; a certificate that ran out is an outage.
        (ssl.SSLCertVerificationError("self-signed"), _K.AUTHENTICATION),
        (_expired(), _K.CONNECTION),
        (asyncio.IncompleteReadError(b"", 8), _K.CONNECTION),
        (TypeError("Unable to encode"), _K.MESSAGE),
        (struct.error("too large"), _K.MESSAGE),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), _K.MESSAGE),
        (ValueError("bad"), _K.ARGUMENT),
        (ImportError("aiohttp"), _K.ARGUMENT),
        (CannotCancel("no"), _K.ARGUMENT),
        (ClientAuthenticationError("no token"), _K.AUTHENTICATION),
        (ServiceRequestError("no network"), _K.CONNECTION),
        (ServiceResponseError("cut"), _K.CONNECTION),
        (ResourceNotFoundError("gone"), _K.NOT_FOUND),
        (HttpResponseError("500"), _K.SERVICE),
        (RuntimeError("a bug"), _K.SERVICE),
    ],
)
def test_other_errors_bare_and_wrapped_as_the_sdk_wraps_them(
    error: Exception, kind: FailureKind
) -> None:
    assert kind_of(error) is kind
    assert kind_of(raised_for(error)) is kind


def test_a_refused_connection_as_the_sdk_tells_it() -> None:
    error = raised_for(
        AMQPConnectionError(ErrorCondition.SocketError, description="refused")
    )
    assert kind_of(error) is _K.CONNECTION


def test_a_request_whose_links_broke_was_cut_off() -> None:
    """The SDK raises a plain ValueError for it."""
    assert kind_of(ValueError("Management Operation error occurred.")) is _K.CONNECTION
    assert kind_of(ValueError("Message must be a dict.")) is _K.ARGUMENT
