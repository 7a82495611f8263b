"""Settlements that are part of a transaction.

They are answered at once and unsettled, with the outcome in a transactional state; the
commit settles the deliveries. After the answer some clients settle them too, with the
same state; that changes nothing. A refused settlement is answered settled, as usual,
and its transaction can only be rolled back.
"""

from twinbus.amqp.events import DispositionReceived
from twinbus.amqp.transactions import TransactionalState
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.transaction import Transaction
from twinbus.errors import MessageLockLost, ServiceBusError
from twinbus.links.coordinator import Coordinator
from twinbus.links.outcomes import is_terminal
from twinbus.links.output import Output
from twinbus.links.receive_link import (
    Confirmations,
    ReceiveLink,
    confirm_answer,
    refuse_unknown,
)
from twinbus.links.remote_receiver import RemoteReceiver


def on_transactional_disposition(
    event: DispositionReceived,
    state: TransactionalState,
    coordinator: Coordinator,
    output: Output,
    now: int,
) -> None:
    """A client settles deliveries within a transaction."""
    if not event.peer_is_receiver or not is_terminal(state.outcome, event.settled):
        return
    session = event.session
    confirmations = Confirmations(session, output)
    try:
        transaction = coordinator.find(state.txn_id, now)
    except ServiceBusError as error:
        session.pop_unsettled(event.first, event.last)
        if not event.settled:
            confirmations.refuse(event.first, event.last, error)
        return
    found = session.find_unsettled(event.first, event.last)
    for delivery_id in found:
        _settle(event, state, delivery_id, transaction, confirmations)
    if len(found) <= (event.last - event.first) & 0xFFFFFFFF:
        transaction.doom(MessageLockLost())
        if not event.settled:
            refuse_unknown(event, found, confirmations)
    output.mark()


def _settle(
    event: DispositionReceived,
    state: TransactionalState,
    delivery_id: int,
    transaction: Transaction,
    confirmations: Confirmations,
) -> None:
    unsettled = event.session.unsettled
    lock = unsettled[delivery_id]
    is_known = isinstance(lock, MessageLock | RemoteReceiver)
    if event.settled or not is_known:
        del unsettled[delivery_id]
    if not is_known:
        confirm_answer(delivery_id, event)
        return
    if event.settled and _is_in(lock, transaction, delivery_id):
        return
    try:
        if isinstance(lock, RemoteReceiver):
            answer = lock.settle_in(transaction, delivery_id, state.outcome)
        else:
            assert isinstance(lock, MessageLock)
            holder: ReceiveLink = lock.holder  # type: ignore[assignment]
            answer = holder.settle_in(
                transaction, delivery_id, lock, state.outcome, event.settled
            )
    except ServiceBusError as error:
        transaction.doom(error)
        unsettled.pop(delivery_id, None)
        if not event.settled:
            confirmations.refuse(delivery_id, delivery_id, error)
        return
    if not event.settled:
        event.session.send_disposition(False, delivery_id, delivery_id, False, answer)


def _is_in(lock: object, transaction: Transaction, delivery_id: int) -> bool:
    """The transaction settles this delivery already."""
    if isinstance(lock, RemoteReceiver):
        return lock.is_in(transaction, delivery_id)
    return isinstance(lock, MessageLock) and lock.enlisted_in is transaction
