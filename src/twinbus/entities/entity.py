"""An entity: its description, its fragments, and the links attached to it.

A conventional entity has one fragment. A partitioned one has several, in different
stores as far as there are that many; dead-letter queues have as many. While the store
of a fragment is away, the fragment is not available, and the others are.

Links get their fragments from it, and it detaches them when it is disabled or deleted.
A fragment knows its home, so an entity does not need to know the owners of its stores.
"""

from abc import abstractmethod
from collections.abc import Iterable
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
from twinbus.broker.fragment_table import FragmentTable, settings_of
from twinbus.broker.home import Home
from twinbus.entities.message_counts import MessageCounts
from twinbus.entities.shown_leases import ShownLease, joined_leases, leases_of
from twinbus.errors import (
    EntityDisabled,
    FragmentUnavailable,
    MessagingEntityNotFound,
    NotAllowed,
    ServiceBusError,
)
from twinbus.fragments import hashing
from twinbus.fragments.fragment_source import FragmentSource
from twinbus.fragments.routing import Routing
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import HASH_VERSION, EntityRecord

Description = QueueDescription | TopicDescription | SubscriptionDescription


class EntityLink(Protocol):
    """A link that is attached to an entity."""

    def detach(self, error: ServiceBusError) -> None: ...


class Entity(FragmentSource):
    """A queue, a topic or a subscription."""

    # Slots save memory: a namespace may have ten thousand entities.
    __slots__ = (
        *("record", "description", "_tables", "used_at"),
        *("_send_links", "_receive_links", "_routing", "_elsewhere"),
        "_leases_elsewhere",
    )

    def __init__(
        self,
        record: EntityRecord,
        description: Description,
        tables: tuple[FragmentTable, ...],
        now: int,
    ) -> None:
        super().__init__()
        self.record = record
        # Narrowed by each kind of entity.
        self.description: Description = description
        # The table that holds each of its fragments, by index.
        self._tables = tables
        # Last use other than a send; at first the time of its creation or loading.
        self.used_at = now
        # Created with the first link.
        self._send_links: set[EntityLink] | None = None
        self._receive_links: set[EntityLink] | None = None
        # Created with the first message that is sent to it.
        self._routing: Routing | None = None
        # What other brokers last said of their fragments, by index and sub-queue.
        self._elsewhere: dict[tuple[int, int], FragmentRecord] = {}
        self._leases_elsewhere: tuple[ShownLease, ...] = ()

    @property
    def path(self) -> str:
        return self.record.path

    @property
    def created_at(self) -> int:
        return self.record.created_at

    @property
    def updated_at(self) -> int:
        return self.record.updated_at

    def settings(self, sub_queue: int = MAIN) -> FragmentSettings:
        """The settings of its fragments."""
        return settings_of(self.description.settings(self.path), sub_queue)

    def detects_duplicates(self) -> bool:
        return self.settings().duplicate_window_ms != 0

    def main_settings(self) -> FragmentSettings:
        return self.settings()

    def generation(self) -> bytes:
        return self.record.generation

    # --- fragments ------------------------------------------------------------

    @property
    def fragment_count(self) -> int:
        return len(self._tables)

    @property
    def is_partitioned(self) -> bool:
        """It has several fragments. A description may say so of an entity that has one,
        because it was created before fragments could be spread."""
        return len(self._tables) > 1

    def tables(self) -> Iterable[FragmentTable]:
        """The tables that hold its fragments, each once."""
        return dict.fromkeys(self._tables)

    def home(self, index: int) -> Home:
        """The home of the fragment of that index."""
        return self._tables[index].home

    def homes(self) -> list[Home]:
        """The home of each fragment, by index."""
        return [table.home for table in self._tables]

    def check_placement(self, table: FragmentTable) -> None:
        """Raises StoreUnreadable if the store of this table lacks one of its
        fragments."""
        for index, own in enumerate(self._tables):
            if own is table and self.counters(MAIN, index) is None:
                raise misplaced(self.record)

    def home_of(self, index: int) -> Home:
        """The home of one of its fragments, also while its store is away."""
        return self._tables[index].home

    def may_be_elsewhere(self, index: int) -> bool:
        return self._tables[index].home.is_shared

    def is_in(self, table: FragmentTable) -> bool:
        """True if one of its fragments is in this table."""
        return table in self._tables

    def counters(self, sub_queue: int, index: int = 0) -> FragmentRecord | None:
        """Counters of one fragment; None if the sub-queue was never used."""
        is_elsewhere = not self._tables[index].home.is_serving
        if is_elsewhere and (index, MAIN) in self._elsewhere:
            return self._elsewhere.get((index, sub_queue))
        return self._tables[index].record_of(self.record.generation, index, sub_queue)

    def all_counters(self, sub_queue: int) -> list[FragmentRecord]:
        """Counters of all its fragments, without those that were never used."""
        found = [self.counters(sub_queue, index) for index in range(len(self._tables))]
        return [record for record in found if record is not None]

    def find_fragment(self, index: int, sub_queue: int = MAIN) -> Fragment | None:
        table = self._tables[index]
        main = table.find(self.record.generation, index, MAIN)
        if main is None or sub_queue == MAIN:
            return main
        return table.sub_queue_of(main, sub_queue)

    def fragment(self, sub_queue: int = MAIN, index: int = 0) -> Fragment:
        """A fragment of the entity or a sub-queue. Raises MessagingEntityNotFound
        if the entity was deleted since it was looked up, and FragmentUnavailable if the
        store was never opened."""
        found = self.find_fragment(index, sub_queue)
        if found is None:
            raise self._without(index)
        return found

    def _without(self, index: int) -> ServiceBusError:
        home = self._tables[index].home
        if home.is_serving:
            return MessagingEntityNotFound(entity_path=self.path)
        return FragmentUnavailable.numbered(index, self.path)

    def fragments(self, sub_queue: int = MAIN) -> list[Fragment]:
        """All fragments whose stores were opened, by index. Raises
        MessagingEntityNotFound, FragmentUnavailable if there is none."""
        all_of_them = range(len(self._tables))
        found = [self.find_fragment(index, sub_queue) for index in all_of_them]
        known = [fragment for fragment in found if fragment is not None]
        if not known:
            raise self._without(0)
        return known

    def loaded_fragments(self, sub_queue: int) -> list[Fragment]:
        """Those that were loaded since the start."""
        found = [
            table.loaded_of(self.record.generation, index, sub_queue)
            for index, table in enumerate(self._tables)
        ]
        return [fragment for fragment in found if fragment is not None]

    def routing(self) -> Routing:
        """Chooses the fragment of what is sent to it."""
        if self._routing is None:
            self._routing = Routing(self.path, len(self._tables), self)
        return self._routing

    def is_available(self) -> bool:
        """All of its stores serve. If not, its counts are those of the others."""
        return all(
            table.home.is_serving or (index, MAIN) in self._elsewhere
            for index, table in enumerate(self._tables)
        )

    def learn_elsewhere(
        self,
        records: Iterable[FragmentRecord],
        leases: Iterable[ShownLease] = (),
        used_at: int = 0,
    ) -> None:
        """What other brokers say of their fragments now, and when it was last used
        there."""
        self.used_at = max(self.used_at, used_at)
        self._elsewhere = {(one.index, one.sub_queue): one for one in records}
        self._leases_elsewhere = (*leases,)

    def records_here(self) -> list[FragmentRecord]:
        """Those of the fragments whose stores are served here."""
        return [
            record
            for index, table in enumerate(self._tables)
            if table.home.is_serving
            for sub_queue in (MAIN, DEAD_LETTER, TRANSFER_DEAD_LETTER)
            if (record := self.counters(sub_queue, index)) is not None
        ]

    def leases_here(self, now: int) -> list[ShownLease]:
        """Reader leases of the fragments whose stores are served here."""
        loaded = (
            (sub_queue, fragment)
            for sub_queue in (MAIN, DEAD_LETTER, TRANSFER_DEAD_LETTER)
            for fragment in self.loaded_fragments(sub_queue)
        )
        return leases_of(self.path, loaded, now)

    def reader_leases(self, now: int) -> list[ShownLease]:
        """Of all its fragments, as far as other brokers have told."""
        told = [one for one in self._leases_elsewhere if one.expires_at > now]
        return joined_leases((*self.leases_here(now), *told))

    def check_available(self) -> None:
        """For changes that reach all fragments. Raises FragmentUnavailable."""
        for index, table in enumerate(self._tables):
            if not table.home.is_serving:
                raise FragmentUnavailable.numbered(index, self.path)

    def counts(self) -> MessageCounts:
        """Numbers of messages by state, in all its fragments."""
        main = self.all_counters(MAIN)
        return MessageCounts(
            active=sum(one.active_count + one.deferred_count for one in main),
            scheduled=sum(one.scheduled_count for one in main),
            dead_letter=_held(self.all_counters(DEAD_LETTER)),
            transfer=sum(
                table.home.outbox.transfer_count(self.record.generation)
                for table in self.tables()
            ),
            transfer_dead_letter=_held(self.all_counters(TRANSFER_DEAD_LETTER)),
        )

    def size_bytes(self) -> int:
        """Size of its messages, with dead letters."""
        return sum(
            record.size_bytes
            for sub_queue in (MAIN, DEAD_LETTER, TRANSFER_DEAD_LETTER)
            for record in self.all_counters(sub_queue)
        )

    @property
    def ping_count(self) -> int:
        """Pings received since the start."""
        return sum(one.ping_count for one in self.loaded_fragments(MAIN))

    # --- use ------------------------------------------------------------------

    @property
    def accessed_at(self) -> int:
        """Time of the last send or receive; 0 means never."""
        sent_at = [one.last_enqueued_at for one in self.all_counters(MAIN)]
        return max([self.used_at, *sent_at])

    def notice_use(self, now: int) -> None:
        """An attached link or a range reader counts as use."""
        is_read = any(t.is_read(self.record.generation) for t in self._tables)
        if self._send_links or self._receive_links or is_read:
            self.used_at = now

    def is_idle_since(self, instant: int) -> bool:
        """True if no link is attached, no message is scheduled, and the entity was
        not used since the instant."""
        return (
            not self._send_links
            and not self._receive_links
            and max(self.accessed_at, self.updated_at) <= instant
            and all(one.scheduled_count == 0 for one in self.all_counters(MAIN))
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

    def detach_receivers(self, error: ServiceBusError) -> None:
        self._detach(self._receive_links, error)

    def detach_senders(self, error: ServiceBusError) -> None:
        self._detach(self._send_links, error)

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


def check_hash_version(record: EntityRecord) -> None:
    """Raises StoreUnreadable for one whose keys belong to other fragments than this
    release would find: the messages of a session would be spread over two."""
    version = record.description.get(HASH_VERSION, hashing.HASH_VERSION)
    if len(record.placement) > 1 and version != hashing.HASH_VERSION:
        raise StoreUnreadable(
            f"The {record.kind} '{record.path}' assigns keys to its fragments by "
            f"version {version} of the key hash, and this release knows version "
            f"{hashing.HASH_VERSION} only. Use a release that knows both."
        )


def _held(records: list[FragmentRecord]) -> int:
    return sum(record.active_count + record.deferred_count for record in records)
