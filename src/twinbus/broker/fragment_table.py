"""The fragments of one store: found by number or by entity, and loaded on demand.

Only fragments in use are in memory as `Fragment`. Of the others only the record is, so
ten thousand quiet queues cost ten thousand small tuples. A dead-letter queue gets its
number with its first dead letter.

Fragment numbers are part of row ids. So a number is reused only after the store has
purged the rows of its last fragment.
"""

from typing import Final, final

from twinbus.broker.changes import ChangeSet, FragmentRecord, ReaderLease
from twinbus.broker.fragment import (
    DEAD_LETTER,
    MAIN,
    TRANSFER_DEAD_LETTER,
    Fragment,
)
from twinbus.broker.fragment_settings import FragmentSettings, dead_letter_settings
from twinbus.broker.home import Home
from twinbus.broker.kept_bodies import KeptBodies
from twinbus.broker.operation_log import ADMINISTRATION, THE_BUS
from twinbus.broker.router import Router
from twinbus.broker.row_id import base_of
from twinbus.broker.size_quota import SizeQuota
from twinbus.errors import QuotaExceeded
from twinbus.limits import FRAGMENTS_PER_STORE

_SUFFIXES: Final = {
    DEAD_LETTER: "/$DeadLetterQueue",
    TRANSFER_DEAD_LETTER: "/$Transfer/$DeadLetterQueue",
}

_NUMBERS_PER_FRAGMENT: Final = 1 + len(_SUFFIXES)


@final
class FragmentTable:
    """All fragments of one store."""

    def __init__(
        self, epoch: int, records: list[FragmentRecord], home: Home | None = None
    ) -> None:
        self._epoch: int = epoch
        # The home of all fragments here.
        self.home: Home = Home() if home is None else home
        # Counts the bytes of locked messages of all fragments.
        self.bodies: KeptBodies = KeptBodies()
        # Records of the store by number; up to date if the fragment is not in memory.
        self._records: dict[int, FragmentRecord] = {}
        # Number by entity generation, index and sub-queue.
        self._numbers: dict[tuple[bytes, int, int], int] = {}
        # Keys of `_numbers`, by entity generation.
        self._keys: dict[bytes, list[tuple[bytes, int, int]]] = {}
        # Settings of the main fragment, by entity generation.
        self._settings: dict[bytes, FragmentSettings] = {}
        # Routers of topics, by entity generation.
        self._routers: dict[bytes, Router] = {}
        # By entity generation and index. A fragment and its sub-queues share one, and
        # so do subscriptions and their topic.
        self._quotas: dict[tuple[bytes, int], SizeQuota] = {}
        # By generation of a subscription: the generation of its topic.
        self._topics: dict[bytes, bytes] = {}
        # Of entities that are not in the default namespace.
        self._namespaces: dict[bytes, str] = {}
        self._fragments: dict[int, Fragment] = {}
        # By fragment number: leases that are held or were held, as the store has them.
        self._leases: dict[int, ReaderLease] = {}
        # Numbers whose rows are still being purged.
        self._purging: set[int] = set()
        # Generations that were dropped by a commit that failed.
        self._undropped: set[bytes] = set()
        # Numbers of the fragments of entities that this owner does not serve.
        self._kept_numbers: list[int] = []
        # How many of all fragments are main fragments.
        self._main_count: int = 0
        self._next_number: int = 0
        for record in records:
            self._remember(record)

    def _remember(self, record: FragmentRecord) -> None:
        self._records[record.number] = record
        self._main_count += record.sub_queue == MAIN
        key = (record.generation, record.index, record.sub_queue)
        self._numbers[key] = record.number
        self._keys.setdefault(record.generation, []).append(key)
        quota = self._quota(record.generation, record.index)
        quota.used_bytes += record.size_bytes

    def _quota(self, generation: bytes, index: int) -> SizeQuota:
        within = self._topics.get(generation, generation)
        quota = self._quotas.get((within, index))
        if quota is None:
            quota = self._quotas[within, index] = SizeQuota()
        return quota

    # --- entities -------------------------------------------------------------

    def admit(
        self,
        generation: bytes,
        settings: FragmentSettings,
        *,
        router: Router | None = None,
        within: bytes | None = None,
        namespace: str = "",
    ) -> None:
        """Add an entity that has fragments here. A topic has a router; a subscription
        is `within` its topic, and counts against the topic's size. `namespace`: what
        the operation log says, if it is not the default one."""
        self._settings[generation] = settings
        if namespace:
            self._namespaces[generation] = namespace
        if router is not None:
            self._routers[generation] = router
        if within is not None and generation not in self._topics:
            self._topics[generation] = within
            for _, index, _ in self._keys.get(generation, ()):
                own = self._quotas.pop((generation, index), None)
                if own is not None:
                    self._quota(within, index).used_bytes += own.used_bytes

    def update(self, generation: bytes, settings: FragmentSettings) -> None:
        """The entity was updated: its fragments get the new settings at once."""
        self._settings[generation] = settings
        for key in self._keys.get(generation, ()):
            fragment = self._fragments.get(self._numbers[key])
            if fragment is not None:
                fragment.settings = settings_of(settings, fragment.sub_queue)

    def drop(self, generation: bytes, changes: ChangeSet) -> None:
        """Drop all fragments of a deleted entity. It may be called again: without
        fragments it does nothing."""
        keys = self._keys.pop(generation, None)
        if keys is not None:
            for key in keys:
                self._drop(key, self._numbers[key], changes)
            changes.entities_removed.append(generation)
        self._settings.pop(generation, None)
        self._routers.pop(generation, None)
        self._topics.pop(generation, None)
        self._namespaces.pop(generation, None)
        for _, index, _ in keys or ():
            self._quotas.pop((generation, index), None)

    def _drop(
        self, key: tuple[bytes, int, int], number: int, changes: ChangeSet
    ) -> None:
        record = self.record_of(*key)
        assert record is not None
        description = self.description_of(number)
        if description:
            changes.log.deleted(base_of(number), number, description)
        self.home.book.forget_fragment(number)
        self._quota(key[0], key[1]).used_bytes -= record.size_bytes
        del self._numbers[key]
        del self._records[number]
        self._main_count -= key[2] == MAIN
        self._leases.pop(number, None)
        self._purging.add(number)
        changes.dropped.append(number)
        fragment = self._fragments.pop(number, None)
        if fragment is not None:
            fragment.drop()

    def orphans(self) -> set[bytes]:
        """Generations with fragments here whose entity was not admitted. That alone is
        no reason to drop them."""
        return {key for key in self._keys if key not in self._settings}

    def keep(self, generations: set[bytes]) -> None:
        """Keep orphans that belong to someone else: they stay unchanged, and count
        against the number of fragments."""
        self._kept_numbers = [
            record.number
            for generation in generations
            for record in self.records_of(generation)
        ]

    def kept_numbers(self) -> list[int]:
        """Numbers of the fragments of kept orphans; nothing expires in them."""
        return self._kept_numbers

    def records_of(self, generation: bytes) -> list[FragmentRecord]:
        """The stored records of an entity's fragments."""
        numbers = [self._numbers[key] for key in self._keys.get(generation, ())]
        return [self._records[number] for number in numbers]

    def drop_again(self, changes: ChangeSet) -> None:
        """Drop generations again whose drop was in a failed commit."""
        undropped, self._undropped = self._undropped, set()
        for generation in undropped:
            self.drop(generation, changes)

    def fragment_count(self) -> int:
        return len(self._records)

    def records(self) -> list[FragmentRecord]:
        """The current records of all fragments."""
        return [
            self.record_of(*key) or self._records[n] for key, n in self._numbers.items()
        ]

    def renew_epoch(self, epoch: int) -> None:
        """The store was opened again, with this epoch."""
        self._epoch = epoch
        for fragment in self._fragments.values():
            fragment.renew_epoch(epoch)

    def forget_drops(self) -> None:
        """Another owner may have had the store since: it has purged what was dropped,
        and used the numbers again."""
        self._purging.clear()
        self._undropped.clear()

    def purging(self) -> set[int]:
        return self._purging

    def purged(self, number: int) -> None:
        """The store has purged all rows of that number."""
        self._purging.discard(number)

    def description_of(self, number: int) -> str:
        """What the operation log says of a fragment; empty if there is none."""
        record = self._records.get(number)
        if record is None:
            return ""
        generation = record.generation
        settings = self._settings.get(generation)
        if settings is None:
            return ""
        kind = "queue"
        if generation in self._routers:
            kind = "topic"
        elif generation in self._topics:
            kind = "subscription"
        sub_queue = _SUFFIXES.get(record.sub_queue, "/")[1:].lower()
        place = f"{sub_queue}\t{record.index}\t{generation.hex()}"
        namespace = self._namespaces.get(generation)
        of_another = f"\t{namespace}" if namespace else ""
        return f"{settings.path}\t{kind}\t{place}{of_another}"

    # --- fragments ------------------------------------------------------------

    def create(self, generation: bytes, index: int, changes: ChangeSet) -> Fragment:
        """Create an empty fragment of an admitted entity. Raises QuotaExceeded."""
        self.check_room(1)
        record = FragmentRecord(
            number=self._free_number(),
            generation=generation,
            index=index,
            sub_queue=MAIN,
        )
        self._remember(record)
        fragment = self.by_number(record.number)
        assert fragment is not None
        fragment.touch(changes)
        changes.log.event(ADMINISTRATION, THE_BUS, fragment.base, 0, "created")
        return fragment

    def check_room(self, fragment_count: int) -> None:
        """Whether so many main fragments can be created. Each needs room for all its
        sub-queues, since a dead letter cannot be refused. Raises QuotaExceeded."""
        main_count = fragment_count + self._main_count
        needed = main_count * _NUMBERS_PER_FRAGMENT + len(self._purging)
        if needed > FRAGMENTS_PER_STORE:
            raise self._full()

    def _full(self) -> QuotaExceeded:
        return QuotaExceeded(
            f"This store can hold {FRAGMENTS_PER_STORE} queues and sub-queues, "
            f"{_NUMBERS_PER_FRAGMENT} for each fragment of a queue, topic or "
            "subscription, and has no room for another entity. Delete entities that "
            "are not needed, or add a store."
        )

    def _free_number(self) -> int:
        for _ in range(FRAGMENTS_PER_STORE):
            number = self._next_number
            self._next_number = (number + 1) % FRAGMENTS_PER_STORE
            if number not in self._records and number not in self._purging:
                return number
        raise self._full()

    def by_number(self, number: int) -> Fragment | None:
        """The fragment of that number, or None if there is none."""
        fragment = self._fragments.get(number)
        if fragment is None:
            record = self._records.get(number)
            if record is None or record.generation not in self._settings:
                return None
            fragment = self._load(record)
        return fragment

    def _load(self, record: FragmentRecord) -> Fragment:
        generation = record.generation
        is_main = record.sub_queue == MAIN
        fragment = Fragment(
            record,
            settings_of(self._settings[generation], record.sub_queue),
            self._epoch,
            self,
            self._quota(generation, record.index),
            self._routers.get(generation) if is_main else None,
            self.bodies,
            self.home,
        )
        self._lease(fragment)
        self._fragments[record.number] = fragment
        return fragment

    def remember_leases(self, leases: list[ReaderLease]) -> None:
        """Use these leases, held and ended ones, as the store has them."""
        self._leases = {lease.fragment_number: lease for lease in leases}
        for fragment in self._fragments.values():
            self._lease(fragment)

    def _lease(self, fragment: Fragment) -> None:
        fragment.last_lease = lease = self._leases.get(fragment.number)
        fragment.lease = lease if lease is not None and lease.expires_at else None

    def leased(self) -> list[Fragment]:
        """Fragments that a reader has a lease of."""
        for lease in self._leases.values():
            if lease.expires_at != 0:
                self.by_number(lease.fragment_number)
        return [item for item in self._fragments.values() if item.lease is not None]

    def is_read(self, generation: bytes) -> bool:
        """True if a reader has the lease of one of the entity's fragments."""
        for key in self._keys.get(generation, ()):
            fragment = self._fragments.get(self._numbers[key])
            if fragment is not None and fragment.lease is not None:
                return True
        return False

    def in_memory(self, number: int) -> Fragment | None:
        """The fragment of that number if it is in memory."""
        return self._fragments.get(number)

    def find(self, generation: bytes, index: int, sub_queue: int) -> Fragment | None:
        """A fragment of an entity, or None if it does not exist yet."""
        number = self._numbers.get((generation, index, sub_queue))
        return None if number is None else self.by_number(number)

    def record_of(
        self, generation: bytes, index: int, sub_queue: int
    ) -> FragmentRecord | None:
        """The current record of a fragment, without loading it."""
        number = self._numbers.get((generation, index, sub_queue))
        if number is None:
            return None
        fragment = self._fragments.get(number)
        return self._records[number] if fragment is None else fragment.record()

    def loaded_of(
        self, generation: bytes, index: int, sub_queue: int
    ) -> Fragment | None:
        """A fragment of an entity if it is in memory."""
        number = self._numbers.get((generation, index, sub_queue))
        return None if number is None else self._fragments.get(number)

    def sub_queue_of(self, fragment: Fragment, sub_queue: int) -> Fragment:
        """A sub-queue of a fragment; it is created if it does not exist.

        The commit that writes its first dead letter also writes its record, because
        adopting a message touches it.
        """
        found = self.find(fragment.generation, fragment.index, sub_queue)
        if found is not None:
            return found
        number = self._free_number()
        self._remember(_empty_record(number, fragment, sub_queue))
        made = self.by_number(number)
        assert made is not None
        return made

    def loaded(self) -> list[Fragment]:
        return list(self._fragments.values())

    def restore(self, records: list[FragmentRecord]) -> None:
        """After a failed commit: discard memory and use the records of the store.

        Fragments stay the same objects, because links refer to them. Dead-letter queues
        without a stored record are kept, too. Any other fragment that only the failed
        commit had is void.
        """
        fragments = self._fragments
        self._fragments = {}
        self._records.clear()
        self._main_count = 0
        self._numbers.clear()
        self._keys.clear()
        for quota in self._quotas.values():
            quota.used_bytes = 0
        for record in records:
            self._remember(record)
        # The store still has these fragments, so their drop failed. They must be
        # dropped again before their rows are purged.
        undropped = [number for number in self._purging if number in self._records]
        self._undropped |= {self._records[number].generation for number in undropped}
        self._purging.difference_update(undropped)
        for number, fragment in fragments.items():
            found = self._records.get(number) or self._unwritten(fragment)
            if found is None:
                continue
            if _is_of(found, fragment):
                fragment.restore(found)
                self._fragments[number] = fragment
            else:
                # Another owner has dropped it, and used its number again.
                fragment.drop()

    def _unwritten(self, fragment: Fragment) -> FragmentRecord | None:
        """The record of a dead-letter queue that has receivers but is not stored."""
        main = (fragment.generation, fragment.index, MAIN)
        if fragment.sub_queue == MAIN or main not in self._numbers:
            return None
        record = _empty_record(fragment.number, fragment, fragment.sub_queue)
        self._remember(record)
        return record


def settings_of(main: FragmentSettings, sub_queue: int) -> FragmentSettings:
    if sub_queue == MAIN:
        return main
    return dead_letter_settings(main, _SUFFIXES[sub_queue])


def _is_of(record: FragmentRecord, fragment: Fragment) -> bool:
    return (
        record.generation == fragment.generation
        and record.index == fragment.index
        and record.sub_queue == fragment.sub_queue
    )


def _empty_record(number: int, fragment: Fragment, sub_queue: int) -> FragmentRecord:
    """The record of an empty sub-queue of a fragment's entity."""
    return FragmentRecord(
        number=number,
        generation=fragment.generation,
        index=fragment.index,
        sub_queue=sub_queue,
    )
