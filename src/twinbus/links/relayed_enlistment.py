"""What a client sends in a transaction, on a link that is passed on to another broker.

It is not passed on: it is kept here until the discharge, as all work of a transaction.
The answer to the client says only that.
"""

from collections.abc import Callable
from typing import Final, final

from twinbus.amqp.events import MessageReceived
from twinbus.amqp.transactions import TransactionalState
from twinbus.broker.message import Message
from twinbus.broker.transaction import Work
from twinbus.encoding.envelope import encode_envelope
from twinbus.errors import ArgumentError, ServiceBusError
from twinbus.fragments.destination import Destination
from twinbus.links.arrivals import Arrivals
from twinbus.links.coordinator import Coordinator
from twinbus.links.outcomes import accepted_in
from twinbus.links.remote_work import RemoteStep, TransactionalRemoteSend
from twinbus.links.sending import check_message, give_id

VIA_STEP: Final = "via"
"""Of a transaction that another broker commits: path of the way, address of the
destination, messages."""


@final
class RelayedEnlistment:
    """For the messages of one link."""

    def __init__(
        self,
        coordinator: Coordinator,
        arrivals: Arrivals,
        destination: Destination,
        via: str | None,
        now: Callable[[], int],
    ) -> None:
        """`via`: the address to which the entity of the link is to send them on."""
        self._coordinator: Coordinator = coordinator
        self._arrivals: Arrivals = arrivals
        self._destination: Destination = destination
        self._via: str | None = via
        self._now: Callable[[], int] = now

    def take(self, delivery: MessageReceived) -> bytes:
        """Keep the messages; return the state to answer with. Raises
        ServiceBusError, and then the transaction can only be rolled back."""
        state, now = delivery.state, self._now()
        if not isinstance(state, TransactionalState):
            raise ArgumentError(
                "A message must be sent with a transactional state, or with none.",
                entity_path=self._destination.settings().path,
            )
        transaction = self._coordinator.find(state.txn_id, now)
        try:
            if delivery.oversize:
                raise self._arrivals.too_large()
            payload, message_format = delivery.payload, delivery.message_format
            messages = self._arrivals.read(payload, message_format, now)
            transaction.enlist(self._work(messages))
        except ServiceBusError as error:
            transaction.doom(error)
            raise
        return accepted_in(state.txn_id)

    def _work(self, messages: list[Message]) -> Work:
        """Raises NotAllowed."""
        settings, home = self._destination.settings(), self._destination.home
        if self._via is None:
            for message in messages:
                check_message(settings, message)
            return TransactionalRemoteSend(self._destination, messages)
        envelopes: list[object] = []
        held_bytes = 0
        for message in messages:
            give_id(home, message)
            envelopes.append(encode_envelope(message))
            held_bytes += len(message.raw)
        step: list[object] = [VIA_STEP, settings.path, self._via, envelopes]
        work = RemoteStep(home, settings.path, step, held_bytes)
        work.message_count = len(messages)
        return work
