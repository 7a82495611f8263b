"""An entity: its description, its fragments, and the links attached to it.

Links get their fragment from it, and it detaches them when it is disabled or deleted.
A fragment knows its home, so an entity does not need to know the owner of its store.
"""

from abc import abstractmethod
from typing import Protocol

from twinbus.broker.changes import FragmentRecord
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.broker.fragment import (
    DEAD_LETTER,
    MAIN,
    TRANSFER_DEAD_LETTER,
    Fragment,
)
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.message_counts import MessageCounts
from twinbus.errors import (
    EntityDisabled,
    MessagingEntityNotFound,
    NotAllowed,
    ServiceBusError,
)
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import EntityRecord

Description = QueueDescription | TopicDescription | SubscriptionDescription


class EntityLink(Protocol):
    """A link that is attached to an entity."""

    def detach(self, error: ServiceBusError) -> None: ...


class Entity:
    """A queue, a topic or a subscription."""

    # Slots save memory: a namespace may have ten thousand entities.
    __slots__ = (
        *("record", "description", "_table", "used_at"),
        *("_send_links", "_receive_links"),
    )

    def __init__(
        self,
        record: EntityRecord,
        description: Description,
        table: FragmentTable,
        now: int,
    ) -> None:
        self.record = record
        # Narrowed by each kind of entity.
        self.description: Description = description
        # Holds its fragments.
        self._table = table
        # Last use other than a send; at first the time of its creation or loading.
        self.used_at = now
        # Created with the first link.
        self._send_links: set[EntityLink] | None = None
        self._receive_links: set[EntityLink] | None = None

    @property
    def path(self) -> str:
        return self.record.path

    @property
    def created_at(self) -> int:
        return self.record.created_at

    @property
    def updated_at(self) -> int:
        return self.record.updated_at

    def settings(self) -> FragmentSettings:
        """The settings of its fragments."""
        return self.description.settings(self.path)

    # --- fragments ------------------------------------------------------------

    def check_placement(self) -> None:
        """Raises StoreUnreadable if the store does not have its fragment."""
        if self.counters(MAIN) is None:
            raise misplaced(self.record)

    def is_in(self, table: FragmentTable) -> bool:
        """True if its fragments are in this table."""
        return self._table is table

    def counters(self, sub_queue: int) -> FragmentRecord | None:
        """Counters of a sub-queue; None if the sub-queue was never used."""
        return self._table.record_of(self.record.generation, 0, sub_queue)

    def fragment(self, sub_queue: int = MAIN) -> Fragment:
        """The fragment of the entity or a sub-queue. Raises MessagingEntityNotFound
        if the entity was deleted since it was looked up."""
        table = self._table
        main = table.find(self.record.generation, 0, MAIN)
        if main is None:
            raise MessagingEntityNotFound(entity_path=self.path)
        return main if sub_queue == MAIN else table.sub_queue_of(main, sub_queue)

    def loaded_fragment(self, sub_queue: int) -> Fragment | None:
        """The same, or None if it was not loaded since the start."""
        return self._table.loaded_of(self.record.generation, 0, sub_queue)

    def counts(self) -> MessageCounts:
        """Numbers of messages by state."""
        main = self.counters(MAIN)
        assert main is not None, f"{self.path} has no fragment"
        return MessageCounts(
            active=main.active_count + main.deferred_count,
            scheduled=main.scheduled_count,
            dead_letter=_held(self.counters(DEAD_LETTER)),
            transfer_dead_letter=_held(self.counters(TRANSFER_DEAD_LETTER)),
        )

    def size_bytes(self) -> int:
        """Size of its messages, with dead letters."""
        records = [
            self.counters(sub_queue)
            for sub_queue in (MAIN, DEAD_LETTER, TRANSFER_DEAD_LETTER)
        ]
        return sum(record.size_bytes for record in records if record is not None)

    @property
    def ping_count(self) -> int:
        """Pings received since the start."""
        return self.fragment().ping_count

    # --- use ------------------------------------------------------------------

    @property
    def accessed_at(self) -> int:
        """Time of the last send or receive; 0 means never."""
        main = self.counters(MAIN)
        return max(self.used_at, main.last_enqueued_at if main is not None else 0)

    def notice_use(self, now: int) -> None:
        """An attached link or a range reader counts as use."""
        is_read = self._table.is_read(self.record.generation)
        if self._send_links or self._receive_links or is_read:
            self.used_at = now

    def is_idle_since(self, instant: int) -> bool:
        """True if no link is attached, no message is scheduled, and the entity was
        not used since the instant."""
        main = self.counters(MAIN)
        return (
            not self._send_links
            and not self._receive_links
            and max(self.accessed_at, self.updated_at) <= instant
            and (main is None or main.scheduled_count == 0)
        )

    # --- status ---------------------------------------------------------------

    @abstractmethod
    def check_may_send(self) -> None:
        """Raises EntityDisabled, NotAllowed."""

    @abstractmethod
    def check_may_receive(self, sub_queue: int = MAIN) -> None:
        """Raises EntityDisabled, NotAllowed."""

    def _disabled(self, what: str) -> EntityDisabled:
        return EntityDisabled(
            f"The messaging entity '{self.path}' has status "
            f"{self.description.status} and does not allow {what}. Set its status to "
            "Active to use it.",
            entity_path=self.path,
        )

    def _forwards(self, target: str) -> NotAllowed:
        return NotAllowed(
            f"'{self.path}' forwards its messages to '{target}': receive them there.",
            entity_path=self.path,
        )

    # --- links ----------------------------------------------------------------

    def send_links(self) -> set[EntityLink]:
        if self._send_links is None:
            self._send_links = set()
        return self._send_links

    def receive_links(self) -> set[EntityLink]:
        if self._receive_links is None:
            self._receive_links = set()
        return self._receive_links

    def detach_links_it_disables(self) -> None:
        """After an update: detach links that would be refused now."""
        try:
            self.check_may_send()
        except ServiceBusError as error:
            self._detach(self._send_links, error)
        try:
            self.check_may_receive()
        except ServiceBusError as error:
            self._detach(self._receive_links, error)

    def detach_all(self, error: ServiceBusError) -> None:
        self._detach(self._send_links, error)
        self._detach(self._receive_links, error)

    def _detach(self, links: set[EntityLink] | None, error: ServiceBusError) -> None:
        for link in list(links or ()):
            link.detach(error)


def misplaced(record: EntityRecord) -> StoreUnreadable:
    """The error for an entity of the catalog that no served store has."""
    return StoreUnreadable(
        f"The catalog has the {record.kind} '{record.path}', but the message store "
        "does not. The files of the data folder are from different times: restore "
        "them all from the same backup. If there is no backup, 'twinbus recover' "
        "creates missing entities again, empty."
    )


def _held(record: FragmentRecord | None) -> int:
    return 0 if record is None else record.active_count + record.deferred_count
