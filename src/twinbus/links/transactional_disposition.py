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
from twinbus.errors import MessageLockLost, NotAllowed, ServiceBusError
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
    if event.settled or not isinstance(lock, MessageLock):
        del unsettled[delivery_id]
    if isinstance(lock, RemoteReceiver):
        error = NotAllowed(
            "The message is in a store of another broker, and a transaction cannot "
            "settle it there. Settle it without a transaction."
        )
        transaction.doom(error)
        if not event.settled:
            confirmations.refuse(delivery_id, delivery_id, error)
        return
    if not isinstance(lock, MessageLock):
        confirm_answer(delivery_id, event)
        return
    if event.settled and lock.enlisted_in is transaction:
        return
    holder: ReceiveLink = lock.holder  # type: ignore[assignment]
    try:
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
