"""SB-E-01xx: every error of the bus, caused through the SDK where that is possible.

The table has the exception that users of the Python SDK get for each condition of
`errors.py`, and the management status. Each row has a test here; a row that no SDK for
Python can reach names the test that causes it. The last cases compare the table with
`errors.py`, so that a new error cannot be forgotten.
"""

import ast
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, exceptions
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus import errors
from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Int, Long, Timestamp
from twinbus.auth.claims import Claim
from twinbus.client import connect
from twinbus.doors.amqp import management

from .inspection import inside, limit_size
from .sdk import SyncSdk, receive_one
from .setups import own_size

TABLE = {
    errors.MessagingEntityNotFound: (404, exceptions.MessagingEntityNotFoundError),
    errors.EntityAlreadyExists: (409, ResourceExistsError),
    errors.EntityDisabled: (400, exceptions.MessagingEntityDisabledError),
    errors.MessageNotFound: (404, exceptions.MessageNotFoundError),
    errors.MessageLockLost: (410, exceptions.MessageLockLostError),
    errors.SessionLockLost: (410, exceptions.SessionLockLostError),
    errors.SessionCannotBeLocked: (410, exceptions.SessionCannotBeLockedError),
    errors.ReaderLeaseHeld: (409, None),
    errors.ReaderLeaseLost: (410, None),
    errors.SessionNotFound: (204, None),
    errors.QuotaExceeded: (403, exceptions.ServiceBusQuotaExceededError),
    errors.MessageSizeExceeded: (403, exceptions.MessageSizeExceededError),
    errors.ServerBusy: (503, exceptions.ServiceBusServerBusyError),
    errors.UnauthorizedAccess: (401, exceptions.ServiceBusAuthorizationError),
    errors.AuthenticationFailed: (401, exceptions.ServiceBusAuthenticationError),
    errors.ArgumentError: (400, exceptions.ServiceBusError),
    errors.ArgumentOutOfRange: (400, exceptions.ServiceBusError),
    errors.NotAllowed: (400, exceptions.ServiceBusError),
    errors.NotSupported: (501, None),
    errors.OperationTimeout: (408, exceptions.OperationTimeoutError),
    errors.TransactionNotFound: (404, None),
    errors.TransactionRolledBack: (409, None),
    errors.TransactionTimedOut: (408, None),
    errors.DetachForced: (503, None),
    errors.ConnectionForced: (503, exceptions.ServiceBusConnectionError),
    errors.InternalError: (500, exceptions.ServiceBusError),
}
"""Status and exception by error; None where the Python SDK has no way to it."""

ELSEWHERE = {
    errors.ReaderLeaseHeld: (
        *("bulk", "test_leases.py"),
        "test_somebody_else_is_told_who_reads",
    ),
    errors.ReaderLeaseLost: (
        *("bulk", "test_leases.py"),
        "test_an_epoch_that_is_not_the_last_one",
    ),
    errors.DetachForced: (
        *("unit/peers", "test_store_moves.py"),
        "test_links_to_a_store_that_has_moved_are_told_to_attach_again",
    ),
    errors.TransactionNotFound: (
        *("wire", "test_transactions.py"),
        "test_transaction_of_another_connection_is_unknown",
    ),
    errors.TransactionRolledBack: (
        *("wire", "test_transactions.py"),
        "test_one_refusal_rolls_back_all",
    ),
    errors.TransactionTimedOut: (
        *("wire", "test_transactions.py"),
        "test_transaction_has_two_minutes",
    ),
}
"""Tests of what the Python SDK does not have, or does not tell: transactions, leases of
readers, and links that it attaches again by itself."""

_provoked: set[type[errors.ServiceBusError]] = set()


def provokes(error):
    """Marks the test of a row."""

    def mark(test):
        _provoked.add(error)
        return test

    return mark


def expect(error, action: Callable[[], object]) -> None:
    """The SDK raises just the exception of the table, and names the condition."""
    _, exception = TABLE[error]
    with pytest.raises(exception) as raised:
        action()
    assert type(raised.value) is exception
    assert error.condition in str(raised.value)


def ask(bus, address, operation, body):
    """A management request by our own client: status and condition of its answer."""

    async def request():
        sasl = plain(bus.key_name, bus.key)
        async with await connect("127.0.0.1", bus.port, sasl=sasl) as connection:
            answer = await connection.request(
                f"{address}/$management",
                Message(
                    application_properties={"operation": f"com.microsoft:{operation}"},
                    body=AmqpValue(body),
                ),
            )
        return answer.application_properties

    properties = asyncio.run(request())
    return properties["statusCode"], str(properties["errorCondition"])


# --- entities ---------------------------------------------------------------------


@provokes(errors.MessagingEntityNotFound)
def test_entity_that_does_not_exist(own):
    """SB-E-0101 a receiver whose queue is deleted under it."""
    own.bus.create_queue("gone")
    receiver = own.receiver("gone")
    own.bus.delete_queue("gone")
    expect(
        errors.MessagingEntityNotFound,
        lambda: receiver.receive_messages(max_wait_time=5),
    )


def test_entity_that_never_existed(sdk):
    """SB-E-0119 as in the service the token is refused, with 404 and the sentence that
    JavaScript and Java go by; Python takes it for a matter of authentication."""
    with pytest.raises(exceptions.ServiceBusAuthenticationError):
        sdk.receiver("nowhere")


@provokes(errors.EntityAlreadyExists)
def test_entity_that_exists(new_bus):
    """SB-E-0102 a queue created twice; over HTTP the status is what is told."""
    with new_bus(tls=True) as bus:
        client = ServiceBusAdministrationClient.from_connection_string(
            bus.connection_string, connection_verify=str(bus.ca_file), retry_total=0
        )
        with client:
            client.create_queue("q")
            with pytest.raises(ResourceExistsError, match="already exists") as raised:
                client.create_queue("Q")
    assert raised.value.status_code == TABLE[errors.EntityAlreadyExists][0]


@provokes(errors.EntityDisabled)
def test_entity_that_is_disabled(sdk, bus, make_queue):
    """SB-E-0103 a sender to a disabled queue."""
    queue = make_queue(status="Disabled")
    expect(errors.EntityDisabled, lambda: sdk.sender(queue))


@own_size
@inside
@provokes(errors.QuotaExceeded)
def test_entity_that_is_full(sdk, bus, queue):
    """SB-E-0104 a send beyond the size of the queue."""
    limit_size(bus, queue, 1000)
    sender = sdk.sender(queue)
    expect(
        errors.QuotaExceeded,
        lambda: sender.send_messages(ServiceBusMessage("x" * 2000)),
    )


# --- messages ---------------------------------------------------------------------


@provokes(errors.MessageNotFound)
def test_message_that_is_not_there(sdk, queue):
    """SB-E-0111 a deferred message of a number that there is not."""
    receiver = sdk.receiver(queue)
    expect(errors.MessageNotFound, lambda: receiver.receive_deferred_messages([99]))


@provokes(errors.MessageLockLost)
def test_lock_that_ran_out(sdk, bus, queue):
    """SB-E-0112 a message completed after its lock."""
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    bus.advance(301)
    expect(errors.MessageLockLost, lambda: receiver.complete_message(message))


@provokes(errors.MessageSizeExceeded)
def test_message_that_is_too_large(sdk, queue):
    """SB-E-0113 a message beyond what the bus takes."""
    sender = sdk.sender(queue)
    expect(
        errors.MessageSizeExceeded,
        lambda: sender.send_messages(ServiceBusMessage("x" * 300_000)),
    )


# --- sessions ---------------------------------------------------------------------


@provokes(errors.SessionLockLost)
def test_session_whose_lock_ran_out(sdk, bus, make_queue):
    """SB-E-0121 a state set after the lock of the session."""
    queue = make_queue(requires_session=True)
    session = sdk.receiver(queue, session_id="s").session
    bus.advance(301)
    expect(errors.SessionLockLost, lambda: session.set_state(b"late"))


@provokes(errors.SessionCannotBeLocked)
def test_session_that_another_holds(sdk, make_queue):
    """SB-E-0122 a session that is accepted twice."""
    queue = make_queue(requires_session=True)
    # Referenced, or it would be closed before the second asks.
    holder = sdk.receiver(queue, session_id="s")
    expect(errors.SessionCannotBeLocked, lambda: sdk.receiver(queue, session_id="s"))
    assert holder.session.session_id == "s"


@provokes(errors.SessionNotFound)
def test_sessions_of_an_empty_queue(bus, make_queue):
    """SB-E-0123 a list of sessions where there are none: no content."""
    queue = make_queue(requires_session=True)
    body = {
        "last-updated-time": Timestamp(253402300800000),
        **{"skip": Int(0), "top": Int(10)},
    }
    answer = ask(bus, queue, "get-message-sessions", body)
    assert answer == (204, errors.SessionNotFound.condition)


@provokes(errors.OperationTimeout)
def test_no_session_in_time(sdk, make_queue):
    """SB-E-0124 the next session of an empty queue, with little patience."""
    queue = make_queue(requires_session=True)

    def accept():
        sdk.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)

    expect(errors.OperationTimeout, accept)


# --- arguments and operations -----------------------------------------------------


@provokes(errors.ArgumentError)
def test_argument_that_is_wrong(sdk, queue):
    """SB-E-0131 a message id that is too long, where the SDK does not look."""
    sender = sdk.sender(queue)
    message = AmqpAnnotatedMessage(data_body=b"x", properties={"message_id": "i" * 129})
    expect(errors.ArgumentError, lambda: sender.send_messages(message))


@provokes(errors.ArgumentOutOfRange)
def test_argument_that_is_out_of_range(sdk, queue):
    """SB-E-0132 more numbers in one request than are allowed."""
    receiver = sdk.receiver(queue)
    numbers = list(range(1, 5000))
    expect(
        errors.ArgumentOutOfRange, lambda: receiver.receive_deferred_messages(numbers)
    )


@provokes(errors.NotAllowed)
def test_operation_that_is_not_allowed(sdk, make_queue):
    """SB-E-0133 a message without session to a queue with sessions."""
    sender = sdk.sender(make_queue(requires_session=True))
    expect(errors.NotAllowed, lambda: sender.send_messages(ServiceBusMessage("x")))


@provokes(errors.NotSupported)
def test_operation_that_there_is_not(bus, queue):
    """SB-E-0134 an operation that no SDK knows."""
    answer = ask(bus, queue, "make-coffee", {"cups": Long(1)})
    assert answer == (501, errors.NotSupported.condition)


# --- rights -----------------------------------------------------------------------


@provokes(errors.UnauthorizedAccess)
def test_right_that_is_missing(sdk, bus, queue):
    """SB-E-0141 sending with the right to listen."""
    client = sdk.client(bus.connection_string_for("Listen"))
    expect(errors.UnauthorizedAccess, lambda: sdk.sender(queue, client=client))


@provokes(errors.AuthenticationFailed)
def test_key_that_is_wrong(sdk, bus, queue):
    """SB-E-0142 a wrong key; the SDK tells of the 401 of the token and no condition."""
    text = bus.connection_string.replace(bus.key, "d3Jvbmc=")
    client = sdk.client(text)
    with pytest.raises(TABLE[errors.AuthenticationFailed][1]):
        sdk.sender(queue, client=client)


# --- the bus itself ---------------------------------------------------------------


@inside
@provokes(errors.ServerBusy)
def test_bus_that_is_busy(own):
    """SB-E-0151 a bus whose disk is full takes nothing for a while, then again."""
    own.bus.create_queue("q")
    sender = own.sender("q")
    for owner in own.bus.server.owners:
        owner.refuses_until = owner.clock.now() + 1_000
    expect(errors.ServerBusy, lambda: sender.send_messages(ServiceBusMessage("x")))
    own.bus.advance(timedelta(seconds=30))
    own.sender("q").send_messages(ServiceBusMessage("y"))


@provokes(errors.ConnectionForced)
def test_bus_that_stops(own_sync):
    """SB-E-0152 a receiver that waits while the bus is stopped."""
    own_sync.bus.create_queue("q")
    receiver = own_sync.receiver("q")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(receiver.receive_messages, 1, 60)
        own_sync.bus.stop()
        with pytest.raises(TABLE[errors.ConnectionForced][1]):
            waiting.result()


@inside
@provokes(errors.InternalError)
def test_bus_that_has_a_bug(bus, queue, monkeypatch):
    """SB-E-0153 a bug, made on purpose: told without a word of its inside."""

    async def broken(*arguments):
        raise ZeroDivisionError("secret")

    peeking = (Claim.LISTEN, broken)
    monkeypatch.setitem(management._OPERATIONS, "peek-message", peeking)
    sdk = SyncSdk(bus)
    receiver = sdk.receiver(queue)
    with pytest.raises(exceptions.ServiceBusError) as raised:
        receiver.peek_messages()
    sdk.close()
    assert errors.InternalError.condition in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "TrackingId" in str(raised.value)


# --- the table --------------------------------------------------------------------


def test_every_error_has_a_row():
    """SB-E-0191 the table has the rows of `errors.py`, with their status."""
    statuses = {error: error.http_status for error in errors.ALL}
    assert {error: status for error, (status, _) in TABLE.items()} == statuses


def test_every_row_is_provoked():
    """SB-E-0192 each row has its test here or elsewhere."""
    assert _provoked | ELSEWHERE.keys() == set(errors.ALL)
    assert not _provoked & ELSEWHERE.keys()


def test_tests_elsewhere_exist():
    """SB-E-0193 what is said to be tested elsewhere is there."""
    tests = Path(__file__).parents[1]
    for folder, file, name in ELSEWHERE.values():
        tree = ast.parse((tests / folder / file).read_text())
        functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
        assert name in functions
