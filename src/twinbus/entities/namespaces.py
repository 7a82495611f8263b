"""All namespaces of a process: opened together, and followed together.

One is the default: that of the settings, which is always there. Others are made while
the server runs, or by its configuration. Each has a record in the catalog with its own
root rule. Stores, catalog and what works on them are shared (`shared_ground.py`).

A namespace that was the default once, under another name in the settings, is not
served: nobody could have a key of it. Its entities stay.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from twinbus.broker.changes import StoredEntity, StoredRule
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.clock import Clock
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_finding import meant_by
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.record_description import (
    NAMESPACE,
    entities_by_namespace,
    is_made,
    new_record,
    own_record,
)
from twinbus.entities.shared_ground import SharedGround
from twinbus.entities.store_entries import (
    StoreEntries,
    check_served,
    remembered_stores,
)
from twinbus.outbox.transfer_log import DOCUMENTED_TRANSFER, TransferSettings
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.store.catalog import (
    TOMBSTONE,
    Catalog,
    CatalogChanged,
    EntityRecord,
    unfinished,
)

NO_RULES: Final[Mapping[str, tuple[AccessRule, ...]]] = {}


def _nothing(namespace: Namespace) -> None:
    """Nobody wants to know."""


class Namespaces:
    """Of one process."""

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        owners: Owners,
        clock: Clock,
        entropy: Callable[[int], bytes],
        turns: Turns,
        *,
        rules: tuple[AccessRule, ...],
        limits: NamespaceLimits,
        transfer: TransferSettings = DOCUMENTED_TRANSFER,
        rules_of_others: Mapping[str, tuple[AccessRule, ...]] = NO_RULES,
    ) -> None:
        """`name` and `rules` are those of the default one. Rules that the settings have
        for others are by lower-case name."""
        self.ground = SharedGround(catalog, owners, clock, entropy, turns, transfer)
        self._catalog = catalog
        self._owners = owners
        self._limits = limits
        self._rules_of_others = rules_of_others
        self.default = Namespace(name, self.ground, rules=rules, limits=limits)
        # By lower-case name.
        self._by_name: dict[str, Namespace] = {name.lower(): self.default}
        # Those that a port is for; maintained by whoever listens.
        self._by_port: dict[int, Namespace] = {}
        # Names of those that the catalog has, and that are not served; lower-case.
        self.unserved: set[str] = set()
        # Told about each namespace but the default one.
        self.on_entered: Callable[[Namespace], None] = _nothing
        self.on_removed: Callable[[Namespace], None] = _nothing
        self._entries = StoreEntries(self, catalog, owners)
        # What was read of the catalog before the stores were opened.
        self._records: list[EntityRecord] | None = None
        self.ground.follower.followed = self

    # --- look-up --------------------------------------------------------------

    def __iter__(self) -> Iterator[Namespace]:
        """The default one first, then by name."""
        others = (self._by_name[name] for name in sorted(self._by_name))
        yield self.default
        yield from (one for one in others if one is not self.default)

    def __len__(self) -> int:
        return len(self._by_name)

    def named(self, name: str) -> Namespace | None:
        """Letter case does not matter."""
        return self._by_name.get(name.lower())

    def meant_by(self, hosts: Iterable[str | None], port: int = 0) -> Namespace:
        """The namespace that a client means who asked for these host names, at this
        port. Raises NotAllowed if they name several."""
        if len(self._by_name) == 1:
            return self.default
        found = meant_by(hosts, self._by_name)
        return found or self._by_port.get(port, self.default)

    def entities(self) -> Iterator[Entity]:
        """Of all namespaces."""
        for namespace in list(self._by_name.values()):
            yield from namespace.entities()

    def listens(self, port: int, namespace: Namespace) -> None:
        """Who connects to this port, and names none, means this namespace."""
        self._by_port[port] = namespace

    def largest_message_bytes(self) -> int:
        """That any entity of any namespace accepts."""
        return max(one.largest_message_bytes for one in self._by_name.values())

    # --- start ----------------------------------------------------------------

    async def remembered_stores(self) -> dict[str, bytes]:
        """Where the catalog has seen the stores of a process with several of them."""
        if self._owners.are_several and self._catalog.exists():
            self._records = await self._catalog.open()
        return remembered_stores(self._records or ())

    async def open(self) -> None:
        """Load the entities. Raises StoreError."""
        # The others are taken in when they are there.
        owners = self._owners.serving()
        stored = {owner: await owner.store.entities() for owner in owners}
        if not self._catalog.exists():
            # Check before an empty one is created: it would look like the right one.
            for owner in owners:
                self._entries.check_without_catalog(owner, stored[owner])
        records = await self._read_catalog()
        # Check before anything is written: an incomplete catalog is not changed.
        noted = await self._catalog.unfinished()
        self._admit_all(records)
        found = {
            owner: self._entries.check(owner, stored[owner], records, noted)
            for owner in owners
        }
        own = await self._learn_age(records)
        for owner in owners:
            self._entries.begin(owner, found[owner], stored[owner], [*records, own])
            self.restore_rules(owner, await owner.store.rules())
        for owner in self._owners:
            owner.on_restored = partial(self.restore_rules, owner)
            if owner not in stored:
                owner.on_first_opening = partial(self._take_in, owner)
        self.ground.transfer_log.open()

    async def _take_in(
        self, owner: StoreOwner, stored: list[StoredEntity]
    ) -> Callable[[], None]:
        """A store is opened that was away, or with another broker. Raises StoreError;
        returns what is to be done when it serves."""
        # In this order: the rules of a subscription that were read from the store go to
        # those that are known when it serves.
        await self._entries.end_creations(owner)
        await self.ground.follower.follow()
        return await self._entries.check_late(owner, stored)

    async def _read_catalog(self) -> list[EntityRecord]:
        records, self._records = self._records, None
        return await self._catalog.open() if records is None else records

    def _admit_all(self, records: list[EntityRecord]) -> None:
        own = [record for record in records if record.kind == NAMESPACE]
        made = [self._entered(one) for one in own if self._is_of_another(one)]
        known = entities_by_namespace(records)
        named = {record.namespace.lower() for record in records}
        self.unserved = named - self._by_name.keys()
        for namespace in self:
            entities = known.get(namespace.name.lower(), [])
            check_served(entities, records, self._owners)
            namespace.admit_all(entities)
        for namespace, record in made:
            namespace.learn_own(record)

    def _is_of_another(self, record: EntityRecord) -> bool:
        """It is the record of a namespace that is served besides the default one."""
        return is_made(record) and record.namespace.lower() not in self._by_name

    def _entered(self, record: EntityRecord) -> tuple[Namespace, EntityRecord]:
        """The namespace of a record, without its entities."""
        name = record.namespace
        rules = self._rules_of_others.get(name.lower(), ())
        made = Namespace(name, self.ground, rules=rules, limits=self._limits)
        made.own = record
        made.log_name = name
        self._by_name[name.lower()] = made
        self.on_entered(made)
        return made, record

    async def _learn_age(self, records: list[EntityRecord]) -> EntityRecord:
        own = self._own_of(records)
        while own not in records:
            # Another broker may change the rules in this record at the same time.
            snapshot = await self._catalog.snapshot()
            records = snapshot.entities
            own = self._own_of(records)
            with contextlib.suppress(CatalogChanged):
                await self._catalog.put(own, known=snapshot.version)
                break
        self.default.learn_own(own)
        return own

    def _own_of(self, records: list[EntityRecord]) -> EntityRecord:
        """The record of the default namespace as it is to be in the catalog."""
        record = own_record(self.default.name, records)
        if record is None:
            record = self.new_own(self.default.name, {})
        return self._entries.noted_in(record)

    def new_own(self, name: str, description: Mapping[str, object]) -> EntityRecord:
        """The record of a new namespace. Each store gets a copy."""
        uuids = tuple(owner.store_uuid for owner in self._owners)
        ground = self.ground
        return new_record(
            *(name, "", NAMESPACE, description, uuids),
            *(ground.clock.now(), ground.entropy),
        )

    def restore_rules(self, owner: StoreOwner, rules: list[StoredRule]) -> None:
        """Take the rules of a store: at the start, and after a failed commit."""
        by_fragment: dict[int, list[StoredRule]] = {}
        for rule in rules:
            by_fragment.setdefault(rule.fragment_number, []).append(rule)
        for namespace in self._by_name.values():
            namespace.restore_rules(owner, by_fragment)

    def start(self) -> None:
        """Start forwarding. The owners must be ready to commit."""
        for namespace in self:
            namespace.start()

    def tick(self, now: int) -> None:
        for namespace in list(self._by_name.values()):
            namespace.tick(now)
        self.ground.transfer_log.tick(now)
        self.ground.loose_ends.tick()

    async def close(self) -> None:
        for namespace in self:
            await namespace.idle.finished()
        await self.ground.loose_ends.stop()
        await self._catalog.close()

    # --- changes of the catalog -----------------------------------------------

    def own_followed(self, records: Iterable[EntityRecord]) -> None:
        """Namespaces were made or changed: here, or by another broker."""
        for record in records:
            if record.kind == NAMESPACE:
                self._follow_own(record)

    def _follow_own(self, record: EntityRecord) -> None:
        known = self.named(record.namespace)
        if known is not None and _is_another_life(known, record):
            if known is not self.default:
                self.forget(known)
                known = None
        if known is not None:
            known.own_followed(record)
        elif is_made(record):
            made, own = self._entered(record)
            made.learn_own(own)

    def forget_followed(self, generations: set[bytes]) -> None:
        """Entities and namespaces of these generations were removed."""
        for namespace in list(self._by_name.values()):
            namespace.forget_generations(generations)
            own = namespace.own
            if own is not None and own.generation in generations:
                self.forget(namespace)

    def forget(self, namespace: Namespace) -> None:
        """The catalog does not have it any more, nor its entities."""
        if namespace is self.default:
            return
        del self._by_name[namespace.name.lower()]
        ports = [port for port, one in self._by_port.items() if one is namespace]
        for port in ports:
            del self._by_port[port]
        namespace.removed()
        assert namespace.own is not None
        tombstones = unfinished(namespace.own, TOMBSTONE, self.ground.clock.now())
        self.ground.loose_ends.drop(tombstones)
        self.on_removed(namespace)


def _is_another_life(known: Namespace, record: EntityRecord) -> bool:
    return known.own is not None and known.own.generation != record.generation
