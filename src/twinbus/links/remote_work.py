"""The work of a transaction on fragments that other brokers have.

It is kept here until the discharge, as all work is. What it sends is written into the
outbox of the store that commits the transaction. Anything else belongs to the broker
that has the store: then that one gets all work of the transaction, and commits it.
"""

from typing import final

from twinbus.broker.admission import Duplicates
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import SENT
from twinbus.broker.transaction import Work
from twinbus.encoding.layout import PING
from twinbus.errors import EntityDisabled, FragmentUnavailable, ServiceBusError
from twinbus.fragments.destination import Destination
from twinbus.links.remote_receiver import RemoteReceiver
from twinbus.links.sending import post
from twinbus.links.transactional_work import shipped_messages


@final
class TransactionalRemoteSend(Work):
    """One delivery of a sender: a message, or a batch."""

    def __init__(self, destination: Destination, messages: list[Message]) -> None:
        super().__init__(destination.home, destination.settings().path)
        self._destination: Destination = destination
        self._messages: list[Message] = messages
        self.can_travel = True
        self.message_count = len(messages)
        for message in messages:
            self.added_bytes += len(message.raw)

    def check(self, now: int) -> None:
        raise _moved(self.path)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        raise AssertionError("its check refuses it")

    def check_travel(self, home: Home, now: int) -> None:
        settings = self._destination.settings()
        if not settings.takes_messages:
            raise EntityDisabled(entity_path=settings.path)
        home.outbox.check_room(self.added_bytes, settings.path)
        home.outbox.check_target(self._destination.address().text, now, settings.path)

    def apply_from(self, home: Home) -> None:
        address = self._destination.address()
        for message in self._messages:
            if message.layout & PING == 0:
                post(address, message, SENT, home)

    def shipment(self) -> list[object]:
        address = self._destination.address()
        return shipped_messages(self.path, address, self._messages, self.home)


@final
class RemoteStep(Work):
    """Work that the owner of another store does, as it will be told."""

    def __init__(
        self, home: Home, path: str, step: list[object], held_bytes: int
    ) -> None:
        super().__init__(home, path)
        self._step: list[object] = step
        self.added_bytes = held_bytes
        # The delivery that the commit settles; None if there is none.
        self._receiver: RemoteReceiver | None = None
        self._delivery_id: int = 0
        self._kind: int = 0

    def ends(self, receiver: RemoteReceiver, delivery_id: int, kind: int) -> None:
        """The commit settles this delivery, in this way."""
        self._receiver = receiver
        self._delivery_id = delivery_id
        self._kind = kind

    def check(self, now: int) -> None:
        raise _moved(self.path)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        raise AssertionError("its check refuses it")

    def shipment(self) -> list[object]:
        return self._step

    def committed(self) -> None:
        if self._receiver is not None:
            self._receiver.committed(self._delivery_id, self._kind)

    def let_go(self) -> None:
        if self._receiver is not None:
            self._receiver.let_go(self._delivery_id)


def _moved(path: str) -> ServiceBusError:
    """The store has come here, or is away, since the work was enlisted."""
    return FragmentUnavailable(
        f"The message store of '{path}' has moved to another broker of this bus. "
        "Receive the messages again, and repeat the work in a new transaction.",
        entity_path=path,
    )
