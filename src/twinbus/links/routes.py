"""The ways of a client's messages into the fragments of an entity.

The routing of the entity chooses the fragment; this enqueues the messages there, and
keeps the order of those with the same key. Messages without a key go to another
fragment if their commit did not happen, because their store failed, and the client
notices nothing. Messages that belong to a certain fragment may take a detour then
(`detour.py`). A commit whose outcome is unknown is never repeated. A delivery may be
split (`split_delivery.py`).
"""

from collections.abc import Callable
from typing import final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import Home, commit_soon
from twinbus.broker.message import Message
from twinbus.broker.transaction import Transaction, Work
from twinbus.errors import (
    FragmentUnavailable,
    ServerBusy,
    ServiceBusError,
    StoreRefused,
)
from twinbus.fragments.routing import Routing
from twinbus.fragments.transaction_key import index_in_transaction
from twinbus.links.detour import StoreDetour
from twinbus.links.duplicate_detection import finds_duplicates
from twinbus.links.remote_fragments import RemoteFragments
from twinbus.links.remote_work import TransactionalRemoteSend
from twinbus.links.sending import Sending, accept, check_room, give_keys_back
from twinbus.links.split_delivery import SplitDelivery
from twinbus.links.transactional_work import TransactionalSend


@final
class Routes(CommitListener):
    """The routes of one link or request to one entity."""

    def __init__(
        self,
        routing: Routing,
        introduce: Callable[[Home], int],
        now: Callable[[], int],
        detour: StoreDetour | None = None,
        remote: RemoteFragments | None = None,
    ) -> None:
        super().__init__()
        self._routing: Routing = routing
        # Introduces the client to a store, and returns its number there.
        self._introduce: Callable[[Home], int] = introduce
        self._now: Callable[[], int] = now
        # Takes messages whose fragment is away; None if there is no other store.
        self._detour: StoreDetour | None = detour
        # Fragments that other brokers have; None if there is no other broker.
        self.remote: RemoteFragments | None = remote
        # Whose turn it is to get messages without a key, if there are remote ones.
        self._turn: int = 0
        self._actors: dict[Home, int] = {}
        # The store that got the last messages, and the client's number there.
        self._last_home: Home | None = None
        self._last_actor: int = 0
        # Deliveries that wait for the commit that was open last.
        self._open: WaitingSends | None = None
        # By index of the fragment: the last work that waits for a look-up.
        self._admitted: dict[int, Sending] = {}
        # Other deliveries that wait for a commit, by delivery id: those that are looked
        # up, and those that a store has refused before.
        self._waiting: dict[int, Routed] = {}
        # The id of the last part of a delivery that was split. They are negative.
        self._part_id: int = 0

    def send(
        self,
        messages: list[Message],
        is_identified: bool,
        delivery_id: int,
        link: CommitListener | None,
        now: int,
        payload: bytes = b"",
        message_format: int = 0,
    ) -> None:
        """Enqueue the messages of a delivery; the link is notified when they are
        durable. `is_identified`: some have a twinbus id; `payload`: the delivery as it
        came. Raises NotAllowed, FragmentUnavailable, ServerBusy, QuotaExceeded."""
        if self.remote is not None and not self._is_split(messages, is_identified):
            index = self._remote_index(self.remote, messages)
            if index >= 0:
                self.remote.send(index, payload, message_format, delivery_id, link)
                return
        if self._routing.fragment_count == 1:
            self._send_to(0, messages, link, is_identified, delivery_id, now)
            return
        if is_identified and len(messages) > 1:
            parts = self._routing.split(messages)
            if len(parts) > 1:
                self._send_parts(parts, delivery_id, link, now)
                return
        key = self._routing.key_of(messages)
        if key is None:
            self._send_unkeyed(messages, link, delivery_id, now)
        else:
            index = self._routing.index_of(key)
            self._send_to(index, messages, link, is_identified, delivery_id, now)

    def _send_parts(
        self,
        parts: list[list[Message]],
        delivery_id: int,
        link: CommitListener | None,
        now: int,
    ) -> None:
        """Each part to its fragment. One that is refused does not stop the others."""
        split = None if link is None else SplitDelivery(link, delivery_id, len(parts))
        for messages in parts:
            self._part_id -= 1
            key = self._routing.key_of(messages)
            assert key is not None, "a part without a key"
            index = self._routing.index_of(key)
            try:
                self._send_to(index, messages, split, True, self._part_id, now)
            except ServiceBusError as error:
                if split is not None:
                    split.failed([self._part_id], error)

    def _is_split(self, messages: list[Message], is_identified: bool) -> bool:
        """The messages belong to several fragments. Those at other brokers are refused
        then: a part has no bytes of its own to pass on."""
        if not is_identified or len(messages) == 1 or self._routing.fragment_count == 1:
            return False
        return len(self._routing.split(messages)) > 1

    def _remote_index(self, remote: RemoteFragments, messages: list[Message]) -> int:
        """The fragment for these messages, if another broker has it; otherwise -1."""
        routing = self._routing
        count = routing.fragment_count
        key = None if count == 1 else routing.key_of(messages)
        if count == 1 or key is not None:
            index = 0 if key is None else routing.index_of(key)
            is_there = remote.serves(index) or remote.diverts(index)
            return index if is_there and not self._is_here(index) else -1
        for _ in range(count):
            index = self._turn
            self._turn = (index + 1) % count
            if self._is_here(index):
                return -1
            if remote.serves(index):
                return index
        return -1

    def _is_here(self, index: int) -> bool:
        fragment = self._routing.find(index)
        return fragment is not None and fragment.home.is_serving

    def settings(self) -> FragmentSettings:
        """Those of the entity, whether or not a fragment of it is here. Raises
        FragmentUnavailable."""
        return self._routing.destination_at(0).settings()

    def close(self) -> None:
        """The link is gone."""
        if self.remote is not None:
            self.remote.close()

    # --- to a certain fragment ------------------------------------------------

    def _send_to(
        self,
        index: int,
        messages: list[Message],
        link: CommitListener | None,
        is_identified: bool,
        delivery_id: int,
        now: int,
    ) -> None:
        fragment = self._routing.find(index)
        follows = fragment is not None and self._follows(fragment)
        if fragment is None or not (follows or fragment.is_reachable()):
            self._divert(messages, link, delivery_id)
            return
        if follows or is_identified or finds_duplicates(fragment):
            self._look(fragment, Routed(messages, link), delivery_id)
            return
        try:
            check_room(fragment, size_of(messages), now)
        except StoreRefused as refusal:
            self._divert_from_full(messages, link, delivery_id, refusal)
            return
        self._enqueue(fragment, messages, now)
        self._wait(fragment.home, messages, link, delivery_id, is_bound=True)

    def _follows(self, fragment: Fragment) -> bool:
        """True if earlier messages of this link wait for a look-up: these must not come
        before them."""
        admitted = self._admitted.get(fragment.index)
        if admitted is None:
            return False
        if admitted.is_applied:
            del self._admitted[fragment.index]
            return False
        return True

    def _look(self, fragment: Fragment, sent: "Routed", delivery_id: int) -> None:
        """Look the messages up in the store, and enqueue those that are new."""
        actor = self._actor(fragment.home)
        listener = None if sent.link is None else self
        sending = Sending(fragment, sent.messages, actor, delivery_id, listener)
        if listener is not None:
            self._waiting[delivery_id] = sent
        sent.sending = sending
        # If their commit fails, what comes later is returned after them.
        self._open = None
        self._admitted[fragment.index] = sending
        fragment.home.admit(sending)

    def _wait(
        self,
        home: Home,
        messages: list[Message],
        link: CommitListener | None,
        delivery_id: int,
        is_bound: bool,
    ) -> None:
        """The delivery waits for the open change set of the home. `is_bound`: it can
        go to no other fragment."""
        if link is None:
            return
        waiting = self._open
        if (
            waiting is None
            or waiting.changes is not home.changes
            or waiting.link is not link
            or waiting.is_bound != is_bound
        ):
            waiting = self._open = WaitingSends(self, home, link, is_bound)
        waiting.add(messages, delivery_id)

    def _divert(
        self,
        messages: list[Message],
        link: CommitListener | None,
        delivery_id: int,
        is_returned: bool = False,
    ) -> None:
        """The fragment cannot be reached, or has returned the messages. Raises
        ServiceBusError if they take no detour."""
        detour = self._detour
        if detour is None:
            raise FragmentUnavailable(entity_path=self._routing.path)
        detour.send(messages, link, delivery_id, is_returned)

    def _divert_from_full(
        self,
        messages: list[Message],
        link: CommitListener | None,
        delivery_id: int,
        refusal: StoreRefused,
    ) -> None:
        """The store has no room. If the messages take no detour, that says more than
        why. Raises ServiceBusError."""
        try:
            self._divert(messages, link, delivery_id)
        except ServiceBusError:
            raise refusal from None

    def _enqueue(self, fragment: Fragment, messages: list[Message], now: int) -> None:
        actor = self._actor(fragment.home)
        for message in messages:
            accept(fragment, message, actor, now)
        commit_soon(fragment.home)

    def _actor(self, home: Home) -> int:
        if home is self._last_home:
            return self._last_actor
        actor = self._actors.get(home)
        if actor is None:
            actor = self._actors[home] = self._introduce(home)
        self._last_home, self._last_actor = home, actor
        return actor

    def work(self, transaction: Transaction, messages: list[Message]) -> Work:
        """The messages as a part of a transaction. Raises NotAllowed,
        FragmentUnavailable."""
        routing, index = self._routing, 0
        if routing.fragment_count > 1:
            index = index_in_transaction(transaction, routing, messages)
        destination = routing.destination_at(index)
        home, fragment = destination.home, destination.fragment
        if fragment is None or (home.is_shared and not home.is_serving):
            return TransactionalRemoteSend(destination, messages)
        if routing.fragment_count > 1 and not fragment.is_reachable():
            raise FragmentUnavailable.numbered(index, routing.path)
        return TransactionalSend(fragment, messages, self._actor(home))

    # --- without a key --------------------------------------------------------

    def _send_unkeyed(
        self,
        messages: list[Message],
        link: CommitListener | None,
        delivery_id: int,
        now: int,
    ) -> None:
        fragment = any_with_room(self._routing, size_of(messages), None, now)
        self._enqueue(fragment, messages, now)
        self._wait(fragment.home, messages, link, delivery_id, is_bound=False)

    def _move_on(self, sent: "Routed", delivery_id: int) -> None:
        """Send to another store what the last one did not take."""
        assert sent.home is not None
        sent.refused_by.append(sent.home)
        now = self._now()
        try:
            size_bytes = size_of(sent.messages)
            chosen = any_with_room(self._routing, size_bytes, sent.refused_by, now)
        except ServiceBusError as error:
            sent.fail(delivery_id, error)
            return
        sent.home = chosen.home
        self._enqueue(chosen, sent.messages, now)
        self._waiting[delivery_id] = sent
        self.note(chosen.home, delivery_id)

    # --- after the commit -----------------------------------------------------

    def committed(self, items: list[int]) -> None:
        link: CommitListener | None = None
        ended: list[int] = []
        for delivery_id in items:
            sent = self._waiting.pop(delivery_id)
            if link is not None and sent.link is not link:
                link.committed(ended)
                ended = []
            link = sent.link
            ended.append(delivery_id)
        if link is not None:
            link.committed(ended)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for delivery_id in items:
            sent = self._waiting.pop(delivery_id)
            if isinstance(error, StoreRefused):
                self.send_elsewhere(sent, delivery_id, error)
            else:
                sent.fail(delivery_id, error)

    def forget(self, waiting: "WaitingSends") -> None:
        """The commit is over."""
        if self._open is waiting:
            self._open = None

    def send_elsewhere(
        self, sent: "Routed", delivery_id: int, error: StoreRefused
    ) -> None:
        """Nothing of the commit happened, so the messages may go elsewhere."""
        give_keys_back(sent.messages)
        if sent.home is None:
            self._try_detour(sent, delivery_id, error)
        else:
            self._move_on(sent, delivery_id)

    def _try_detour(
        self, sent: "Routed", delivery_id: int, error: ServiceBusError
    ) -> None:
        """If the messages take no detour, the error of the commit says more than
        that."""
        is_returned = sent.sending is None or not sent.sending.is_refused
        try:
            self._divert(sent.messages, sent.link, delivery_id, is_returned)
        except ServiceBusError:
            sent.fail(delivery_id, error)


@final
class WaitingSends(CommitListener):
    """Deliveries of a link that wait for the same commit. An object for each of them
    would be a third of the cost of a message."""

    def __init__(
        self, routes: Routes, home: Home, link: CommitListener, is_bound: bool
    ) -> None:
        super().__init__()
        self.changes: ChangeSet = home.changes
        self.link: CommitListener = link
        self.is_bound: bool = is_bound
        self._routes: Routes = routes
        self._home: Home = home
        self._delivery_ids: list[int] = []
        # In the order of their deliveries.
        self._messages: list[list[Message]] = []
        home.listeners.add(self, self._delivery_ids)

    def add(self, messages: list[Message], delivery_id: int) -> None:
        self._delivery_ids.append(delivery_id)
        self._messages.append(messages)

    def committed(self, items: list[int]) -> None:
        self._routes.forget(self)
        self.link.committed(items)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self._routes.forget(self)
        if not isinstance(error, StoreRefused):
            self.link.failed(items, error)
            return
        home = None if self.is_bound else self._home
        for number, delivery_id in enumerate(items):
            sent = Routed(self._messages[number], self.link, home)
            self._routes.send_elsewhere(sent, delivery_id, error)


@final
class Routed:
    """The messages of a delivery that is followed by itself."""

    def __init__(
        self,
        messages: list[Message],
        link: CommitListener | None,
        home: Home | None = None,
    ) -> None:
        self.messages: list[Message] = messages
        # Gets the outcome; None if it is not needed.
        self.link: CommitListener | None = link
        # None if they belong to a certain fragment: that of their key, or the only one.
        # Otherwise the store that has them now, and those that did not take them.
        self.home: Home | None = home
        self.refused_by: list[Home] = []
        # Their look-up, if there was one.
        self.sending: Sending | None = None

    def fail(self, delivery_id: int, error: ServiceBusError) -> None:
        if self.link is not None:
            self.link.failed([delivery_id], error)


def any_with_room(
    routing: Routing, size_bytes: int, refused_by: list[Home] | None, now: int
) -> Fragment:
    """A fragment that takes messages without a key, in a store that has not refused
    them. Raises the error of the last one that does not."""
    refusal: ServiceBusError | None = None
    full: list[Fragment] = []
    while True:
        try:
            fragment = routing.any_fragment(refused_by, full)
        except FragmentUnavailable as error:
            raise refusal or error from None
        try:
            check_room(fragment, size_bytes, now)
            return fragment
        except ServerBusy as error:
            # No other fragment of this store takes them either.
            refused_by = [fragment.home, *(refused_by or ())]
            refusal = error
        except ServiceBusError as error:
            full.append(fragment)
            refusal = error


def size_of(messages: list[Message]) -> int:
    size_bytes = 0
    for message in messages:
        size_bytes += len(message.raw)
    return size_bytes
