"""A queue as the server knows it: description, home, and who is attached.

Links find their fragment through it, and are told when the queue is disabled or
deleted. A partitioned queue will have several homes; that is why links ask the
queue for a fragment and never compute one.
"""

from typing import Protocol

from twinbus.broker.changes import FragmentRecord
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.errors import EntityDisabled, ServiceBusError
from twinbus.server.owner import StoreOwner
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import EntityRecord


class EntityLink(Protocol):
    """A link that is attached to a queue."""

    def detach(self, error: ServiceBusError) -> None: ...


class Queue:
    """One queue of the namespace."""

    def __init__(
        self, record: EntityRecord, description: QueueDescription, owner: StoreOwner
    ) -> None:
        self.record = record
        self.description = description
        self.owner = owner
        self.send_links: set[EntityLink] = set()
        self.receive_links: set[EntityLink] = set()

    @property
    def path(self) -> str:
        return self.record.path

    def check_placement(self) -> None:
        """Raises StoreUnreadable if the store lacks what the catalog promises."""
        if self.counters(MAIN) is None:
            raise StoreUnreadable(
                f"The catalog has the queue '{self.path}', but the message store does "
                "not. The files of the data folder are of different moments: restore "
                "them all from the same backup."
            )

    def counters(self, sub_queue: int) -> FragmentRecord | None:
        """Of the queue or a sub-queue; None if that was never needed."""
        return self.owner.table.record_of(self.record.generation, 0, sub_queue)

    def fragment(self, *, dead_letter: bool) -> Fragment:
        """The queue's fragment, or its dead-letter queue."""
        table = self.owner.table
        main = table.find(self.record.generation, 0, MAIN)
        assert main is not None, f"queue {self.path} has no fragment"
        return table.sub_queue_of(main, DEAD_LETTER) if dead_letter else main

    def check_may_send(self) -> None:
        """Raises EntityDisabled."""
        if not self.description.may_send():
            raise self._disabled("sending")

    def check_may_receive(self) -> None:
        """Raises EntityDisabled."""
        if not self.description.may_receive():
            raise self._disabled("receiving")

    def _disabled(self, what: str) -> EntityDisabled:
        return EntityDisabled(
            f"The messaging entity '{self.path}' has status "
            f"{self.description.status} and does not allow {what}. Set its status to "
            "Active to use it.",
            entity_path=self.path,
        )

    def detach_links_it_disables(self) -> None:
        """After an update: links that could not be attached now must go."""
        if not self.description.may_send():
            self._detach(self.send_links, self._disabled("sending"))
        if not self.description.may_receive():
            self._detach(self.receive_links, self._disabled("receiving"))

    def detach_all(self, error: ServiceBusError) -> None:
        self._detach(self.send_links, error)
        self._detach(self.receive_links, error)

    def _detach(self, links: set[EntityLink], error: ServiceBusError) -> None:
        for link in list(links):
            link.detach(error)
