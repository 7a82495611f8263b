"""Plans which entities can be recovered from a store. Changes nothing itself.

The store decides which entities exist, and the catalog decides their names. Nothing is
removed from either:

- an entity that the store holds and the catalog does not know is recovered from the
  store's own record;
- it is recovered as a queue with a new name if there is no such record (a store older
  than format 4), if another entity has its name, or if its topic is missing;
- an entity that only the catalog has is recovered empty.

Changes that the catalog notes as unfinished are left to the next start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from twinbus.broker.changes import FragmentRecord, StoredEntity
from twinbus.broker.descriptions.queue import queue_description
from twinbus.broker.entity_path import split_subscription_path
from twinbus.broker.fragment import MAIN
from twinbus.entities.record_description import is_made
from twinbus.entities.strangers import is_unfinished, message_count
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import EntityRecord, Unfinished, entity_of

AS_IT_WAS: Final = "as it was"
RENAMED: Final = "renamed"
EMPTY: Final = "empty"

KINDS: Final = ("queue", "topic", "subscription")

_SHOWN_DIGITS: Final = 12
"""Digits of the generation in a new name: enough to tell a thousand of them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The contents of a store and a catalog."""

    store_uuid: bytes
    fragments: Sequence[FragmentRecord]
    stored: Sequence[StoredEntity]
    records: Sequence[EntityRecord]
    unfinished: Sequence[Unfinished]
    # Stores that are recovered together with this one.
    other_stores: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """An entity to enter into the catalog."""

    record: EntityRecord
    # AS_IT_WAS, RENAMED or EMPTY.
    how: str
    # Dead letters included.
    message_count: int
    # Indices of main fragments that must be created for it in this store.
    lacking: tuple[int, ...]
    # The catalog does not have it, nor does a store that was looked at before.
    is_new: bool = True


class RecoveryPlan:
    """The entities to enter into the catalog of one store."""

    def __init__(self, found: Found, namespace: str, now: int) -> None:
        """Entities of an unknown namespace go to `namespace`. Raises
        StoreUnreadable."""
        self._found = found
        self._namespace = namespace
        self._now = now
        self._fragments: dict[bytes, list[FragmentRecord]] = {}
        for fragment in found.fragments:
            self._fragments.setdefault(fragment.generation, []).append(fragment)
        # By name: entities that have fragments, and recovered ones.
        self._named: dict[tuple[str, str], EntityRecord] = {}
        self.entities: list[Recovered] = []
        # Records of namespaces, for their creation times.
        self.namespaces: list[EntityRecord] = []
        self._check_placement()
        self._plan()

    def is_empty(self) -> bool:
        return not self.entities

    def _check_placement(self) -> None:
        served = {self._found.store_uuid, *self._found.other_stores}
        elsewhere = [
            record
            for record in self._found.records
            if record.kind in KINDS and not served.issuperset(record.placement)
        ]
        if elsewhere:
            record = elsewhere[0]
            (other, *_) = [uuid for uuid in record.placement if uuid not in served]
            raise StoreUnreadable(
                f"The catalog has the {record.kind} '{record.path}', whose messages "
                f"are in another store: {other.hex()} and not "
                f"{self._found.store_uuid.hex()}. Nothing was changed. Name the right "
                "store, or all of them, or move the catalog away if it is not that of "
                "this store."
            )

    def _plan(self) -> None:
        known = [record for record in self._found.records if record.kind in KINDS]
        for record in known:
            is_elsewhere = self._found.store_uuid not in record.placement
            if record.generation in self._fragments or is_elsewhere:
                self._named[_key(record)] = record
        for record in self._lost():
            self._bring_back(record)
        # Last, so that of two with the same name the one with messages keeps it.
        for record in known:
            if _key(record) not in self._named:
                self._enter(record, EMPTY)
            elif len(record.placement) > 1 and self._lacking(record):
                self._enter(record, EMPTY, is_new=False)
        self._plan_namespaces()

    def _lacking(self, record: EntityRecord) -> tuple[int, ...]:
        """Indices of its fragments that this store should have, and does not."""
        there = {
            fragment.index
            for fragment in self._fragments.get(record.generation, ())
            if fragment.sub_queue == MAIN
        }
        return tuple(
            index
            for index, store_uuid in enumerate(record.placement)
            if store_uuid == self._found.store_uuid and index not in there
        )

    def _lost(self) -> list[EntityRecord]:
        """Entities that the catalog does not know: topics before subscriptions, and of
        two with the same name the younger first."""
        known = {record.generation for record in self._found.records}
        left = {
            one.generation
            for one in self._found.unfinished
            if one.store_uuid == self._found.store_uuid
            and is_unfinished(one, self._fragments.get(one.generation, ()))
        }
        stored = {one.generation: one for one in self._found.stored}
        lost = [
            self._record_of(generation, stored.get(generation))
            for generation in self._fragments
            if generation not in known | left
        ]
        return sorted(lost, key=lambda r: (KINDS.index(r.kind), -r.created_at, r.path))

    def _record_of(
        self, generation: bytes, stored: StoredEntity | None
    ) -> EntityRecord:
        if stored is not None:
            try:
                record = entity_of(stored)
            except ValueError:
                pass
            else:
                if record.kind in KINDS:
                    return record
        return self._as_queue(generation)

    def _as_queue(self, generation: bytes) -> EntityRecord:
        """A queue for fragments without a record. It dead-letters messages that have
        expired, so that none is lost."""
        path = f"recovered-{generation.hex()[:_SHOWN_DIGITS]}"
        description = queue_description(
            {"dead_lettering_on_message_expiration": True}, path
        )
        return EntityRecord(
            namespace=self._namespace,
            path=path,
            kind="queue",
            generation=generation,
            description=description.to_json(),
            created_at=self._now,
            updated_at=self._now,
            placement=(self._found.store_uuid,),
        )

    def _bring_back(self, record: EntityRecord) -> None:
        made_up = self._as_queue(record.generation)
        if record.path == made_up.path:
            self._enter(record, RENAMED)
        elif _key(record) not in self._named and self._has_topic(record):
            self._enter(record, AS_IT_WAS)
        elif record.kind == "queue":
            self._enter(replace(record, path=made_up.path), RENAMED)
        else:
            self._enter(replace(made_up, namespace=record.namespace), RENAMED)

    def _has_topic(self, record: EntityRecord) -> bool:
        if record.kind != "subscription":
            return True
        topic, _ = split_subscription_path(record.path)
        parent = self._named.get((record.namespace.lower(), topic.lower()))
        return parent is not None and parent.kind == "topic"

    def _enter(self, record: EntityRecord, how: str, *, is_new: bool = True) -> None:
        self._named[_key(record)] = record
        fragments = self._fragments.get(record.generation, [])
        recovered = Recovered(
            record=record,
            how=how,
            message_count=sum(map(message_count, fragments)),
            lacking=self._lacking(record),
            is_new=is_new,
        )
        self.entities.append(recovered)

    def _plan_namespaces(self) -> None:
        """Recover the creation times of the entities' namespaces."""
        wanted = {one.record.namespace.lower() for one in self.entities}
        known = {
            record.namespace.lower()
            for record in self._found.records
            if record.kind == "namespace"
        }
        removed = {one.generation for one in self._found.unfinished}
        for stored in self._found.stored:
            try:
                record = entity_of(stored)
            except ValueError:
                continue
            # Several stores are known to belong together by this record alone.
            key, is_wanted = record.namespace.lower(), bool(self._found.other_stores)
            # The keys of a namespace that was made are nowhere else.
            is_wanted = is_wanted or is_made(record)
            is_left = record.generation not in removed and key not in known
            if record.kind == "namespace" and (key in wanted or is_wanted) and is_left:
                self.namespaces.append(record)


def _key(record: EntityRecord) -> tuple[str, str]:
    return record.namespace.lower(), record.path.lower()
