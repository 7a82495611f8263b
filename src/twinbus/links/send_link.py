"""A link on which a client sends to an entity.

A message is parsed, checked and enqueued when it arrives. It is accepted after the
commit, with one disposition for each run of delivery ids. A refusal is sent at once. A
batch is accepted as a whole or not at all.

A message that needs a look-up in the store is enqueued a turn later. Messages that
follow it on this link wait too, so that they stay in the order of sending.

For a partitioned entity the routing chooses the fragment of each delivery. Messages
without a key may go to another fragment if their store fails (`routes.py`).
"""

from typing import Final, final

from twinbus.amqp.events import MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED, encode_rejected
from twinbus.amqp.transactions import TransactionalState
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import commit_soon
from twinbus.broker.message import Message
from twinbus.broker.transaction import Transaction, Work
from twinbus.encoding.layout import IDENTIFIED
from twinbus.errors import ArgumentError, FragmentUnavailable, ServiceBusError
from twinbus.limits import CREDIT
from twinbus.links.arrivals import Arrivals
from twinbus.links.coordinator import Coordinator
from twinbus.links.duplicate_detection import finds_duplicates
from twinbus.links.outcomes import accepted_in
from twinbus.links.output import Output
from twinbus.links.refusal import amqp_error, log_refusal, overrun
from twinbus.links.routes import Routes
from twinbus.links.sending import Sending, accept, check_message, check_room
from twinbus.links.transactional_work import TransactionalSend
from twinbus.links.via import Via

_TOP_UP_AT: Final = CREDIT // 2


@final
class SendLink(CommitListener):
    """Accepts messages for one queue or topic."""

    def __init__(
        self,
        link: Link,
        fragment: Fragment | None,
        actor: int,
        arrivals: Arrivals,
        output: Output,
        coordinator: Coordinator,
        via: Via | None = None,
        routes: Routes | None = None,
        path: str = "",
        is_for_peers: bool = False,
    ) -> None:
        """`path`: needed without a fragment. `is_for_peers`: another broker has chosen
        the fragment."""
        super().__init__()
        self._link: Link = link
        # The path that authorization is checked for.
        self.path: str = path if fragment is None else fragment.settings.path
        # None if all fragments are at other brokers: then there are routes.
        self._fragment: Fragment | None = fragment
        self._actor: int = actor
        self._arrivals: Arrivals = arrivals
        self._output: Output = output
        # The transactions of the connection.
        self._coordinator: Coordinator = coordinator
        # Set if the messages are for another entity than the one attached to.
        self._via: Via | None = via
        # Of a partitioned entity: chooses the fragment of each delivery.
        self._routes: Routes | None = routes
        self._is_for_peers: bool = is_for_peers
        # The last work that waits for a look-up in the store.
        self._admitted: Sending | None = None
        # Credit is renewed when all received input has been processed.
        self._is_renewing: bool = False

    def start(self) -> None:
        """The attach was answered: give the client credit."""
        self._link.issue_credit(CREDIT)

    def on_message(self, delivery: MessageReceived, now: int) -> None:
        try:
            if self._routes is None:
                is_taken = self._take(delivery, now)
            else:
                is_taken = False
                self._route(self._routes, delivery, now)
        except ServiceBusError as error:
            if not delivery.settled:
                self._reject(delivery.delivery_id, delivery.delivery_id, error)
        else:
            if is_taken and not delivery.settled:
                assert self._fragment is not None
                self.note(self._fragment.home, delivery.delivery_id)
        if self._link.credit <= _TOP_UP_AT:
            self._top_up()

    def refuse(self, delivery: MessageReceived, error: ServiceBusError) -> None:
        """Answer a message that is not taken whatever it is."""
        if not delivery.settled:
            self._reject(delivery.delivery_id, delivery.delivery_id, error)
        if self._link.credit <= _TOP_UP_AT:
            self._top_up()

    def _top_up(self) -> None:
        """Renew the credit, or detach a client that has exceeded it."""
        if self._link.credit >= 0:
            if not self._output.is_behind:
                self._renew()
            elif not self._is_renewing:
                self._is_renewing = True
                self._output.renew_later(self._renew)
            return
        self._link.detach(
            overrun(
                f"the link has sent more messages than its credit of {CREDIT}",
            )
        )
        self._output.mark()

    def _renew(self) -> None:
        self._is_renewing = False
        self._link.issue_credit(CREDIT)

    def _take(self, delivery: MessageReceived, now: int) -> bool:
        """True if it was enqueued; False if it is answered later."""
        if delivery.state is not None:
            self._take_in_transaction(delivery, now)
            return False
        fragment = self._fragment
        assert fragment is not None
        if self._is_for_peers and fragment.is_awaited():
            raise FragmentUnavailable.numbered(fragment.index, self.path)
        messages = self._read(delivery, now)
        if self._via is not None:
            link = None if delivery.settled else self
            self._via.send(messages, delivery.delivery_id, link)
            return False
        if self._must_look():
            self._look(messages, delivery)
            return False
        for message in messages:
            accept(fragment, message, self._actor, now)
        commit_soon(fragment.home)
        return True

    def _route(self, routes: Routes, delivery: MessageReceived, now: int) -> None:
        """Hand the delivery to the fragment that its key names, or to any."""
        if delivery.state is not None:
            self._take_in_transaction(delivery, now)
            return
        messages = self._read(delivery, now)
        link = None if delivery.settled else self
        if self._via is not None:
            self._via.send(messages, delivery.delivery_id, link)
        else:
            # Not shortened by a tuple of arguments: that call is not compiled.
            routes.send(
                messages,
                self._arrivals.marks & IDENTIFIED != 0,
                delivery.delivery_id,
                link,
                now,
                delivery.payload,
                delivery.message_format,
            )

    def _must_look(self) -> bool:
        """True if the messages just read need a look-up, or follow some that do."""
        admitted = self._admitted
        if admitted is not None and admitted.is_applied:
            admitted = self._admitted = None
        return (
            self._arrivals.marks & IDENTIFIED != 0
            or (self._fragment is not None and finds_duplicates(self._fragment))
            or admitted is not None
        )

    def _look(self, messages: list[Message], delivery: MessageReceived) -> None:
        """Look the messages up in the store, and enqueue those that are new."""
        fragment, link = self._fragment, None if delivery.settled else self
        assert fragment is not None
        self._admitted = Sending(
            fragment, messages, self._actor, delivery.delivery_id, link
        )
        fragment.home.admit(self._admitted)

    def _read(self, delivery: MessageReceived, now: int) -> list[Message]:
        """The messages of a delivery, if the entity accepts them."""
        if delivery.oversize:
            raise self._arrivals.too_large()
        payload, fragment = delivery.payload, self._fragment
        if self._routes is None:
            assert fragment is not None
            check_room(fragment, len(payload), now)
        messages = self._arrivals.read(payload, delivery.message_format, now)
        if self._via is None:
            settings = self._settings() if fragment is None else fragment.settings
            for message in messages:
                check_message(settings, message)
        return messages

    def _settings(self) -> FragmentSettings:
        assert self._routes is not None
        return self._routes.settings()

    def _take_in_transaction(self, delivery: MessageReceived, now: int) -> None:
        """Keep the messages until the commit. The accepted state confirms only that."""
        state = delivery.state
        if not isinstance(state, TransactionalState):
            raise ArgumentError(
                "A message must be sent with a transactional state, or with none.",
                entity_path=self.path,
            )
        transaction = self._coordinator.find(state.txn_id, now)
        try:
            messages = self._read(delivery, now)
            transaction.enlist(self._work(transaction, messages))
        except ServiceBusError as error:
            transaction.doom(error)
            raise
        if not delivery.settled:
            at = delivery.delivery_id
            answer = accepted_in(state.txn_id)
            self._link.session.send_disposition(True, at, at, True, answer)
            self._output.mark()

    def _work(self, transaction: Transaction, messages: list[Message]) -> Work:
        if self._via is not None:
            return self._via.work(messages)
        if self._routes is not None:
            return self._routes.work(transaction, messages)
        assert self._fragment is not None
        return TransactionalSend(self._fragment, messages, self._actor)

    def committed(self, items: list[int]) -> None:
        """Accept durable messages: one frame for each run of ids."""
        session = self._link.session
        first = last = items[0]
        for delivery_id in items:
            if delivery_id > last + 1 or delivery_id < first:
                session.send_disposition(True, first, last, True, ACCEPTED)
                first = delivery_id
            last = delivery_id
        session.send_disposition(True, first, last, True, ACCEPTED)
        self._output.mark()

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for delivery_id in items:
            self._reject(delivery_id, delivery_id, error)

    def _reject(self, first: int, last: int, error: ServiceBusError) -> None:
        if self._fragment is not None:
            log_refusal(self._fragment, self._actor, error)
        state = encode_rejected(amqp_error(error))
        self._link.session.send_disposition(True, first, last, True, state)
        self._output.mark()

    def close(self) -> None:
        """The link was closed."""
        if self._routes is not None:
            self._routes.close()

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted, or no longer accepts messages."""
        self._link.detach(amqp_error(error))
        self._output.mark()
