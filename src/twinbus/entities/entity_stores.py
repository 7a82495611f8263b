"""The stores of entities: where a new one is placed, and what its stores are told.

An entity is made in all its stores or in none: each must serve and have room before
the first is told anything. What a crash or an error leaves behind is dropped by the
notes of the catalog.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from twinbus.broker.changes import StoredRule
from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.entity_path import split_subscription_path
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.directory import Directory
from twinbus.entities.entity import Description, misplaced
from twinbus.entities.other_brokers import NoOthers, OtherBrokers
from twinbus.entities.partitioning import partitioned
from twinbus.entities.subscription_rules import stored_rule
from twinbus.errors import FragmentUnavailable
from twinbus.fragments.placement import spread
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord, stored_entity


class EntityStores:
    """Finds and changes the stores that have the fragments of entities."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        # Set when this process has joined a cluster.
        self.others: OtherBrokers = NoOthers()
        # Rules of subscriptions whose fragments were made here for another broker, and
        # that the catalog may not have yet; by generation.
        self._made_rules: dict[bytes, list[StoredRule]] = {}

    def owners_of(self, record: EntityRecord) -> list[StoreOwner]:
        """The owner of each fragment's store, by index. Raises StoreUnreadable."""
        owners = []
        for store_uuid in record.placement:
            owner = self._owners.find(store_uuid)
            if owner is None:
                raise misplaced(record)
            owners.append(owner)
        return owners

    def tables_of(self, record: EntityRecord) -> tuple[FragmentTable, ...]:
        """The table of each fragment, by index. Raises StoreUnreadable."""
        return tuple(owner.table for owner in self.owners_of(record))

    def placement(
        self,
        directory: Directory,
        fragment_count: int,
        path: str,
        description: Description,
    ) -> tuple[bytes, ...]:
        """The stores of a new entity's fragments. Those of a subscription are beside
        its topic's. A queue that forwards is in the store of its target, if that has
        one: then it takes one commit to forward a message. Raises ServerBusy."""
        if isinstance(description, SubscriptionDescription):
            return directory.topic(split_subscription_path(path)[0]).record.placement
        if partitioned(description):
            self._check_all_are_served(path)
            return self._spread(directory, fragment_count)
        beside = ""
        if isinstance(description, QueueDescription):
            beside = forward_path(
                description.forward_to or description.forward_dead_lettered_messages_to
            )
        if beside and beside.lower() != path.lower():
            target = directory.entity(beside).record
            owners = self.owners_of(target)
            if len(owners) == 1 and owners[0].is_serving:
                return target.placement
        if not self._owners.serving():
            # A broker without a store makes it at another one.
            return self._spread(directory, 1)
        return (self._owners.for_new_entity().store_uuid,)

    def _spread(self, directory: Directory, fragment_count: int) -> tuple[bytes, ...]:
        """Over all stores that are served, here or elsewhere. Raises ServerBusy."""
        elsewhere = [one for one in self._owners if self._is_elsewhere(one)]
        if not elsewhere:
            return self._owners.for_new_fragments(fragment_count)
        counts = Counter(
            store for one in directory.entities() for store in one.record.placement
        )
        served = [*self._owners.serving(), *elsewhere]
        return spread(
            fragment_count, [(counts[one.store_uuid], one.store_uuid) for one in served]
        )

    def _check_all_are_served(self, path: str) -> None:
        """Fragments that were spread over the other stores would stay there for ever.
        Raises FragmentUnavailable."""
        if not all(one.is_serving or self._is_elsewhere(one) for one in self._owners):
            raise FragmentUnavailable.for_new_entity(path)

    def _is_elsewhere(self, owner: StoreOwner) -> bool:
        """Another broker serves the store."""
        return not owner.is_serving and self.others.serves(owner.store_uuid)

    def check_available(self, record: EntityRecord) -> None:
        """All its stores are served, here or elsewhere. Raises FragmentUnavailable."""
        for index, owner in enumerate(self.owners_of(record)):
            if not owner.is_serving and not self._is_elsewhere(owner):
                raise FragmentUnavailable.numbered(index, record.path)

    def check_room(self, record: EntityRecord) -> None:
        """All stores have room for their fragments; those elsewhere are checked there.
        Raises QuotaExceeded, FragmentUnavailable."""
        self.check_available(record)
        owners = self.owners_of(record)
        for owner in dict.fromkeys(owners):
            if owner.is_serving:
                owner.table.check_room(owners.count(owner))

    async def create(
        self, record: EntityRecord, rules: Sequence[Rule]
    ) -> list[StoredRule]:
        """Make the entity durable in all its stores; returns its rules as stored. Rules
        of a partitioned subscription are in the catalog instead."""
        owners = self.owners_of(record)
        away = [one.store_uuid for one in owners if self._is_elsewhere(one)]
        if away:
            await self.others.make_fragments(record, list(dict.fromkeys(away)), rules)
        return await self._create_here(record, rules)

    async def make_for_another(
        self, record: EntityRecord, rules: Sequence[Rule]
    ) -> None:
        """Another broker creates the entity, and some of its stores are here. Raises
        as `create` and `check_room` do."""
        owners = self.owners_of(record)
        for owner in dict.fromkeys(owners):
            if owner.is_serving:
                owner.table.check_room(owners.count(owner))
        if not any(owner.is_serving for owner in owners):
            raise FragmentUnavailable.none_left(record.path)
        stored = await self._create_here(record, rules)
        if stored:
            self._made_rules[record.generation] = stored

    def made_rules(self, record: EntityRecord) -> list[StoredRule] | None:
        """The rules of a subscription that was made here for another broker."""
        return self._made_rules.pop(record.generation, None)

    async def _create_here(
        self, record: EntityRecord, rules: Sequence[Rule]
    ) -> list[StoredRule]:
        owners = self.owners_of(record)
        stored: list[StoredRule] = []
        for index, owner in enumerate(owners):
            if not owner.is_serving:
                continue
            fragment = owner.table.create(record.generation, index, owner.changes)
            if len(owners) == 1:
                stored = [stored_rule(fragment.number, rule) for rule in rules]
                owner.changes.rules_put.extend(stored)
        for owner in dict.fromkeys(owners):
            if owner.is_serving:
                owner.changes.entities_put.append(stored_entity(record))
        await self.durable(record)
        return stored

    async def check_made(self, record: EntityRecord) -> None:
        """All stores still have what was made in them for a new entity. A broker that
        takes a store drops it, unless the catalog has the entity. Raises
        FragmentUnavailable, ServiceBusError."""
        self.check_available(record)
        owners = dict.fromkeys(self.owners_of(record))
        away = [one.store_uuid for one in owners if self._is_elsewhere(one)]
        if away:
            await self.others.check_made(record, away)
        if len(away) < len(owners):
            await self.check_made_here(record)

    async def check_made_here(self, record: EntityRecord) -> None:
        """The same of the stores that are served here. One commit shows that they still
        are. Raises FragmentUnavailable, ServiceBusError."""
        await self.durable(record)
        owners = [one for one in self.owners_of(record) if one.is_serving]
        is_there = [bool(one.table.records_of(record.generation)) for one in owners]
        if not is_there or not all(is_there):
            raise FragmentUnavailable.dropped(record.path)

    async def durable(self, record: EntityRecord) -> None:
        """Wait until all that was written to the entity's stores is committed. Raises
        the error of the first store that could not commit."""
        waiting = [
            owner.durable()
            for owner in dict.fromkeys(self.owners_of(record))
            if not self._is_elsewhere(owner)
        ]
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
