"""The stores of entities: where a new one is placed, and what its stores are told.

An entity is made in all its stores or in none: each must serve and have room before
the first is told anything. What a crash or an error leaves behind is dropped by the
notes of the catalog.
"""

import asyncio
from collections.abc import Sequence

from twinbus.broker.changes import StoredRule
from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.entity_path import split_subscription_path
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.directory import Directory
from twinbus.entities.entity import Description, misplaced
from twinbus.entities.partitioning import partitioned
from twinbus.entities.subscription_rules import stored_rule
from twinbus.errors import FragmentUnavailable
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord, stored_entity


class EntityStores:
    """Finds and changes the stores that have the fragments of entities."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

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
        one: then it takes one commit to forward a message."""
        if isinstance(description, SubscriptionDescription):
            return directory.topic(split_subscription_path(path)[0]).record.placement
        if partitioned(description):
            return self._owners.for_new_fragments(fragment_count)
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
        return (self._owners.for_new_entity().store_uuid,)

    def check_room(self, record: EntityRecord) -> None:
        """All stores have room for their fragments. Raises QuotaExceeded,
        FragmentUnavailable."""
        owners = self.owners_of(record)
        for index, owner in enumerate(owners):
            if not owner.is_serving:
                raise FragmentUnavailable.numbered(index, record.path)
        for owner in dict.fromkeys(owners):
            owner.table.check_room(owners.count(owner))

    async def create(
        self, record: EntityRecord, rules: Sequence[Rule]
    ) -> list[StoredRule]:
        """Make the entity durable in all its stores; returns its rules as stored. Rules
        of a partitioned subscription are in the catalog instead."""
        owners = self.owners_of(record)
        stored: list[StoredRule] = []
        for index, owner in enumerate(owners):
            fragment = owner.table.create(record.generation, index, owner.changes)
            if len(owners) == 1:
                stored = [stored_rule(fragment.number, rule) for rule in rules]
                owner.changes.rules_put.extend(stored)
        for owner in dict.fromkeys(owners):
            owner.changes.entities_put.append(stored_entity(record))
        await self.durable(record)
        return stored

    async def durable(self, record: EntityRecord) -> None:
        """Wait until all that was written to the entity's stores is committed. Raises
        the error of the first store that could not commit."""
        waiting = [owner.durable() for owner in dict.fromkeys(self.owners_of(record))]
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
