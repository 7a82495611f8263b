"""The way of a client's messages into the fragments of a partitioned entity.

The routing of the entity chooses the fragment; this enqueues the messages there, and
keeps the order of those with the same key. If the commit of messages without a key did
not happen, because their store failed, they go to another fragment, and the client
notices nothing. A commit whose outcome is unknown is never repeated.
"""

from collections.abc import Callable
from typing import final

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.home import Home, commit_soon
from twinbus.broker.message import Message
from twinbus.broker.transaction import Transaction
from twinbus.errors import FragmentUnavailable, ServiceBusError, StoreRefused
from twinbus.fragments.routing import Routing
from twinbus.fragments.transaction_key import fragment_in_transaction
from twinbus.links.duplicate_detection import finds_duplicates
from twinbus.links.sending import Sending, accept, check_room
from twinbus.links.transactional_work import TransactionalSend


@final
class Routes(CommitListener):
    """The routes of one link or request to one partitioned entity."""

    def __init__(
        self,
        routing: Routing,
        introduce: Callable[[Home], int],
        now: Callable[[], int],
    ) -> None:
        super().__init__()
        self._routing: Routing = routing
        # Introduces the client to a store, and returns its number there.
        self._introduce: Callable[[Home], int] = introduce
        self._now: Callable[[], int] = now
        self._actors: dict[Home, int] = {}
        # By index of the fragment: the last work that waits for a look-up.
        self._admitted: dict[int, Sending] = {}
        # Messages without a key that wait for their commit, by delivery id.
        self._unkeyed: dict[int, Unkeyed] = {}

    def send(
        self,
        messages: list[Message],
        is_identified: bool,
        delivery_id: int,
        link: CommitListener | None,
        now: int,
    ) -> None:
        """Enqueue the messages of a delivery; the link is notified when they are
        durable. `is_identified`: some have a twinbus id. Raises NotAllowed,
        FragmentUnavailable, ServerBusy, QuotaExceeded."""
        key = self._routing.key_of(messages)
        if key is None:
            self._send_unkeyed(Unkeyed(messages, link), delivery_id, now)
            return
        fragment = self._routing.fragment_of(key)
        check_room(fragment, _size_bytes(messages), now)
        if self._must_look(fragment, is_identified):
            actor = self._actor(fragment.home)
            sending = Sending(fragment, messages, actor, delivery_id, link)
            self._admitted[fragment.index] = sending
            fragment.home.admit(sending)
            return
        self._enqueue(fragment, messages, now)
        if link is not None:
            link.note(fragment.home, delivery_id)

    def _must_look(self, fragment: Fragment, is_identified: bool) -> bool:
        """True if the messages need a look-up, or follow some that do."""
        admitted = self._admitted.get(fragment.index)
        if admitted is not None and admitted.is_applied:
            del self._admitted[fragment.index]
            admitted = None
        return is_identified or finds_duplicates(fragment) or admitted is not None

    def _enqueue(self, fragment: Fragment, messages: list[Message], now: int) -> None:
        actor = self._actor(fragment.home)
        for message in messages:
            accept(fragment, message, actor, now)
        commit_soon(fragment.home)

    def _actor(self, home: Home) -> int:
        actor = self._actors.get(home)
        if actor is None:
            actor = self._actors[home] = self._introduce(home)
        return actor

    def work(
        self, transaction: Transaction, messages: list[Message]
    ) -> TransactionalSend:
        """The messages as a part of a transaction. Raises NotAllowed,
        FragmentUnavailable."""
        fragment = fragment_in_transaction(transaction, self._routing, messages)
        return TransactionalSend(fragment, messages, self._actor(fragment.home))

    # --- without a key --------------------------------------------------------

    def _send_unkeyed(self, sent: "Unkeyed", delivery_id: int, now: int) -> None:
        fragment = any_with_room(self._routing, sent.size_bytes, sent.refused_by, now)
        sent.home = fragment.home
        self._enqueue(fragment, sent.messages, now)
        if sent.link is not None:
            self._unkeyed[delivery_id] = sent
            self.note(fragment.home, delivery_id)

    def committed(self, items: list[int]) -> None:
        link: CommitListener | None = None
        for delivery_id in items:
            link = self._unkeyed.pop(delivery_id).link
        assert link is not None
        link.committed(items)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for delivery_id in items:
            sent = self._unkeyed.pop(delivery_id)
            if isinstance(error, StoreRefused):
                self._move_on(sent, delivery_id)
            else:
                sent.fail(delivery_id, error)

    def _move_on(self, sent: "Unkeyed", delivery_id: int) -> None:
        """Send to another store what the last one did not take."""
        if sent.refused_by is None:
            sent.refused_by = []
        assert sent.home is not None
        sent.refused_by.append(sent.home)
        try:
            self._send_unkeyed(sent, delivery_id, self._now())
        except ServiceBusError as error:
            sent.fail(delivery_id, error)


@final
class Unkeyed:
    """Messages of a delivery without a key."""

    def __init__(self, messages: list[Message], link: CommitListener | None) -> None:
        self.messages: list[Message] = messages
        # Gets the outcome; None if it is not needed.
        self.link: CommitListener | None = link
        self.size_bytes: int = _size_bytes(messages)
        # The store that has them now, and those that did not take them.
        self.home: Home | None = None
        self.refused_by: list[Home] | None = None

    def fail(self, delivery_id: int, error: ServiceBusError) -> None:
        if self.link is not None:
            self.link.failed([delivery_id], error)


def any_with_room(
    routing: Routing, size_bytes: int, refused_by: list[Home] | None, now: int
) -> Fragment:
    """A fragment that takes messages without a key, in a store that has not refused
    them. Raises the error of the last one that does not."""
    refusal: ServiceBusError | None = None
    for _ in range(routing.fragment_count):
        try:
            fragment = routing.any_fragment(refused_by)
            check_room(fragment, size_bytes, now)
            return fragment
        except FragmentUnavailable as error:
            raise refusal or error from None
        except ServiceBusError as error:
            refusal = error
            routing.leave_current()
    assert refusal is not None
    raise refusal


def _size_bytes(messages: list[Message]) -> int:
    size_bytes = 0
    for message in messages:
        size_bytes += len(message.raw)
    return size_bytes
