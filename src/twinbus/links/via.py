"""Sends messages to one entity (the destination) through another (the way).

A sender is attached to the way and names the destination. The way accepts its messages,
and the same commit moves them on: into the destination, or into the outbox if that is
in another store. If the destination refuses a message (it does not exist, is disabled
or full), the transfer dead-letter queue of the way keeps it. So a
transaction with the way cannot fail because of the destination. A ping tests the way
only, because the way accepts the messages.
"""

from collections.abc import Callable
from typing import final

from twinbus.broker import operation_log
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.dead_letter import TRANSFER_FAILED
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.outbox import TRANSFERRED, origin_of
from twinbus.broker.transaction import Work
from twinbus.encoding.layout import PING
from twinbus.errors import ServiceBusError
from twinbus.fragments.destination import Destination
from twinbus.fragments.routing import Routing
from twinbus.links.duplicate_detection import ask_for_duplicates
from twinbus.links.sending import (
    accept,
    accept_unless_seen,
    check_message,
    check_room,
    check_status,
    post,
)


@final
class Via:
    """Sends the messages of one sender on."""

    def __init__(
        self,
        way: Fragment,
        find_destination: Callable[[], Routing],
        actor: int,
    ) -> None:
        self.way: Fragment = way
        # Raises ServiceBusError if it does not exist, or accepts nothing now.
        self._find_destination: Callable[[], Routing] = find_destination
        self._actor: int = actor

    def send(
        self,
        messages: list[Message],
        delivery_id: int,
        link: CommitListener | None,
    ) -> None:
        """Send after a look-up; the link is notified when that is durable."""
        self.way.home.admit(ViaSending(self, messages, delivery_id, link))

    def work(self, messages: list[Message]) -> Work:
        """The same as a part of a transaction."""
        return TransactionalViaSend(self, messages)

    def check(self, now: int) -> None:
        """Raises if the way itself accepts nothing: ServerBusy, QuotaExceeded,
        EntityDisabled, MessagingEntityNotFound."""
        check_room(self.way, 0, now)
        check_status(self.way)
        self.way.check_transfer_dead_letters()

    def ask(self, messages: list[Message], admission: Admission) -> None:
        try:
            routing = self._find_destination()
            for message in messages:
                here = self._here(routing.destination(message))
                if here is not None:
                    ask_for_duplicates(here, [message], admission)
        except ServiceBusError:
            # The messages are refused when they are applied.
            return

    def apply(self, messages: list[Message], duplicates: Duplicates, now: int) -> None:
        """Put each message into the destination, or dead-letter it at the way."""
        for message in messages:
            if message.layout & PING != 0:
                accept(self.way, message, self._actor, now)
                continue
            try:
                destination = self._find_destination().destination(message)
                self._check(destination, message, now)
            except ServiceBusError as error:
                self._keep(message, error, now)
                continue
            here = self._here(destination)
            if here is not None:
                accept_unless_seen(here, message, self._actor, now, duplicates)
            else:
                self._hand_over(destination, message)

    def _here(self, destination: Destination) -> Fragment | None:
        """The fragment, if the commit of the way can change it."""
        return destination.fragment if destination.home is self.way.home else None

    def _check(self, destination: Destination, message: Message, now: int) -> None:
        """Raises ServiceBusError if the destination does not take the message."""
        here, settings = self._here(destination), destination.settings()
        if here is not None:
            check_room(here, len(message.raw), now)
        else:
            destination.check_quota(len(message.raw))
            self.way.home.outbox.check_room(len(message.raw), settings.path)
        check_message(settings, message)

    def _hand_over(self, destination: Destination, message: Message) -> None:
        """Move the message to the outbox, for a destination in another store."""
        way = self.way
        origin = origin_of(TRANSFERRED, way)
        post(destination.address(), message, origin, way.home)

    def _keep(self, message: Message, error: ServiceBusError, now: int) -> None:
        changes = self.way.home.changes
        kept = self.way.fail_transfer(
            message, TRANSFER_FAILED, error.text, now, changes
        )
        changes.log.record(operation_log.SEND, self._actor, kept, now)


@final
class ViaSending(Admission):
    """A delivery that is sent on to another entity."""

    def __init__(
        self,
        via: Via,
        messages: list[Message],
        delivery_id: int,
        link: CommitListener | None,
    ) -> None:
        super().__init__()
        self._via: Via = via
        self._messages: list[Message] = messages
        self._delivery_id: int = delivery_id
        # Gets the outcome; None if it is not needed.
        self._link: CommitListener | None = link
        for message in messages:
            self.pending_bytes += len(message.raw)
        via.ask(messages, self)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        home, link = self._via.way.home, self._link
        try:
            self._via.check(now)
        except ServiceBusError as error:
            if link is not None:
                link.failed([self._delivery_id], error)
            return
        self._via.apply(self._messages, duplicates, now)
        if link is not None:
            link.note(home, self._delivery_id)


@final
class TransactionalViaSend(Work):
    """A delivery that is sent on by the commit of a transaction."""

    def __init__(self, via: Via, messages: list[Message]) -> None:
        super().__init__(via.way.home, via.way.settings.path)
        self._via: Via = via
        self._messages: list[Message] = messages
        self.message_count = len(messages)
        for message in messages:
            self.added_bytes += len(message.raw)

    def ask(self, admission: Admission) -> None:
        self._via.ask(self._messages, admission)

    def check(self, now: int) -> None:
        self._via.check(now)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._via.apply(self._messages, duplicates, now)
