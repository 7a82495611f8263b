"""A namespace: its entities, and their creation, update and removal.

An entity exists if the catalog has it. So creation first makes its fragments durable,
and enters it into the catalog last; removal works in the opposite order. The catalog
notes both before any fragment changes. After a crash the next start drops the fragments
that are noted, and no others: see `loose_ends.py` and `strangers.py`.

Rules are not entities. They are in the store, because one transaction may change rules
and messages (`subscription_rules.py`). `entity_register.py` has the entities in memory,
`forwarders.py` moves messages between them. Other namespaces of the process are in
`namespaces.py`; what all of them share is in `shared_ground.py`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from twinbus.auth.policy import Policy
from twinbus.broker.changes import StoredEntity, StoredRule
from twinbus.broker.descriptions.access_rule import AccessRule, check_changed
from twinbus.broker.descriptions.queue import queue_description
from twinbus.broker.descriptions.subscription import (
    SubscriptionDescription,
    subscription_description,
)
from twinbus.broker.descriptions.topic import topic_description
from twinbus.broker.entity_path import (
    check_entity_name,
    check_subscription_name,
    subscription_path,
)
from twinbus.broker.fragment import MAIN
from twinbus.entities.access_keys import AccessKeys, Change
from twinbus.entities.entity import Description, Entity
from twinbus.entities.entity_access import own_access_rules
from twinbus.entities.entity_count import check_count
from twinbus.entities.entity_detour import EntityDetour
from twinbus.entities.entity_register import EntityRegister
from twinbus.entities.entity_sizes import EntitySizes
from twinbus.entities.entity_stores import EntityStores
from twinbus.entities.forwarders import Forwarders
from twinbus.entities.idle_entities import IdleEntities
from twinbus.entities.namespace_access import NamespaceAccess
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.overtaken import tried_again
from twinbus.entities.partitioning import (
    check_fragment_size,
    partitioned,
    without_total,
)
from twinbus.entities.queue import Queue
from twinbus.entities.record_description import (
    description_of,
    entity_order,
    new_record,
)
from twinbus.entities.shared_ground import SharedGround
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import (
    SubscriptionRules,
    rules_of_record,
    with_internals,
)
from twinbus.entities.topic import Topic, subscriptions_of
from twinbus.entities.unread_rules import UnreadRules
from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    FragmentUnavailable,
    MessagingEntityNotFound,
)
from twinbus.links.detour import StoreDetour
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner
from twinbus.rules.rule import Rule, default_rule
from twinbus.store.catalog import (
    INTENT,
    TOMBSTONE,
    EntityRecord,
    Unfinished,
    entity_of,
    unfinished,
    with_properties,
)


def _never_busy(entity_path: str) -> None:
    """Refuses nothing."""


class Namespace(EntityRegister):
    """The entities of one namespace on this server."""

    def __init__(
        self,
        name: str,
        ground: SharedGround,
        *,
        rules: tuple[AccessRule, ...],
        limits: NamespaceLimits,
    ) -> None:
        """`rules`: those of the settings, which are not stored."""
        # Features beyond Service Bus.
        self.extensions = limits.extensions
        sizes = EntitySizes(
            limits.max_message_bytes,
            limits.max_entity_message_bytes,
            limits.max_entity_megabytes,
            self.extensions.headroom_bytes,
        )
        super().__init__(
            EntityStores(ground.owners),
            ground.clock,
            ground.entropy,
            NamespaceAccess(name, rules, self.change_own),
            sizes,
            limits.max_message_bytes,
        )
        self.name = name
        self._owners = ground.owners
        self.follower = ground.follower
        self.loose_ends = ground.loose_ends
        self.transfer_log = ground.transfer_log
        # Refuses requests while the server has too much to do. Raises ServerBusy.
        self.check_not_busy: Callable[[str], None] = _never_busy
        # Of queues and topics.
        self._max_entities = limits.max_entities
        self._topic_quotas = limits.topic_quotas
        self._partitioning = limits.partitioning
        # The record of the namespace itself, once it was read.
        self.own: EntityRecord | None = None
        # It was removed while the process ran: connections to it end.
        self.is_removed = False
        self.keys = AccessKeys(self, ground.entropy)
        # Paths whose creation or removal is under way.
        self._busy: set[str] = set()
        # How many of them will be partitioned.
        self._busy_partitioned_count = 0
        self.forwarders = Forwarders(self)
        self._unread_rules = UnreadRules(ground.turns)
        self.rules = SubscriptionRules(
            ground.clock, limits.topic_quotas, self._save_rules
        )
        self.idle = IdleEntities(self)

    # --- start ----------------------------------------------------------------

    def admit_all(self, known: Sequence[EntityRecord]) -> None:
        """Enter the entities that the catalog has: topics before subscriptions."""
        for record in known:
            self._enter(self._admitted(record))

    def learn_own(self, record: EntityRecord) -> None:
        """The catalog has this record of the namespace itself."""
        self.own = record
        self.access.learn(record)
        self._access_changed()

    @property
    def created_at(self) -> int:
        return 0 if self.own is None else self.own.created_at

    @property
    def updated_at(self) -> int:
        return 0 if self.own is None else self.own.updated_at

    def start(self) -> None:
        """Start forwarding. The owners must be ready to commit."""
        for entity in self._entities.values():
            self._renew_forwarders(entity)

    def _renew_forwarders(self, entity: Entity) -> None:
        # What is away is renewed when it is back.
        with contextlib.suppress(FragmentUnavailable, MessagingEntityNotFound):
            self.forwarders.renew(entity)

    def restore_rules(
        self, owner: StoreOwner, rules: Mapping[int, list[StoredRule]]
    ) -> None:
        """Take the rules of a store, by fragment: at the start, and after a failed
        commit."""
        for entity in self._entities.values():
            if not isinstance(entity, Subscription) or not entity.is_in(owner.table):
                continue
            if entity.is_partitioned:
                self._restore_rules_of(entity, rules_of_record(entity.record))
            else:
                main = entity.counters(MAIN)
                found = [] if main is None else rules.get(main.number, [])
                self._restore_rules_of(entity, found)

    @tried_again
    async def _save_rules(self, subscription: Subscription) -> None:
        """Write the rules of a partitioned subscription to the catalog. Raises
        FragmentUnavailable, StoreError."""
        async with self.follower.latest():
            self._still(subscription)
            self.stores.check_available(subscription.record)
            rules = [rule.to_json() for rule in subscription.rules()]
            record = subscription.record.with_rules(rules, self.clock.now())
            await self.follower.put(record)
            subscription.record = record
            self.loose_ends.record(record)

    def _restore_rules_of(self, entity: Subscription, rules: list[StoredRule]) -> None:
        entity.router.restore(entity.key, rules)
        self._unread_rules.expect(entity.router)

    def detour_of(self, entity: Entity) -> StoreDetour | None:
        """Takes messages to the entity while a store is away; None if there is no
        other store."""
        if not self.transfer_log.has_stores():
            return None
        return EntityDetour(entity, self.transfer_log)

    def tick(self, now: int) -> None:
        self.forwarders.tick(now)
        self.idle.tick(now)

    # --- queues and topics ----------------------------------------------------

    async def create_queue(self, path: str, properties: Mapping[str, Any]) -> Queue:
        """Create a queue; it is durable when this returns.

        Raises ArgumentError, ArgumentOutOfRange, EntityAlreadyExists, NotAllowed,
        QuotaExceeded, MessagingEntityNotFound (of a forward target).
        """
        check_entity_name(path)
        description = queue_description(properties, path)
        self.forwarders.check(path, description)
        queue = await self._create_top(path, "queue", description)
        assert isinstance(queue, Queue)
        return queue

    @tried_again
    async def update_queue(self, path: str, properties: Mapping[str, Any]) -> Queue:
        """Change the given properties; others stay. Raises the errors of a creation
        except EntityAlreadyExists."""
        async with self.follower.latest():
            queue = self.queue(path)
            properties = without_total(properties, queue)
            description = queue_description(properties, queue.path, queue.description)
            self.forwarders.check(queue.path, description)
            await self._update(queue, description)
        return queue

    async def delete_queue(self, path: str) -> None:
        """Delete a queue and its messages. Raises MessagingEntityNotFound."""
        await self._delete(lambda: self.queue(path))

    async def create_topic(self, path: str, properties: Mapping[str, Any]) -> Topic:
        """Create a topic without subscriptions. Raises as `create_queue`."""
        check_entity_name(path)
        topic = await self._create_top(
            path, "topic", topic_description(properties, path)
        )
        assert isinstance(topic, Topic)
        return topic

    @tried_again
    async def update_topic(self, path: str, properties: Mapping[str, Any]) -> Topic:
        """Raises as `update_queue`."""
        async with self.follower.latest():
            topic = self.topic(path)
            properties = without_total(properties, topic)
            await self._update(
                topic, topic_description(properties, topic.path, topic.description)
            )
        return topic

    async def delete_topic(self, path: str) -> None:
        """Delete a topic and its subscriptions. Raises MessagingEntityNotFound."""
        await self._delete(lambda: self.topic(path))

    # --- subscriptions --------------------------------------------------------

    async def create_subscription(
        self,
        topic_path: str,
        name: str,
        properties: Mapping[str, Any],
        rules: Sequence[Rule] | None = None,
    ) -> Subscription:
        """Create a subscription with these rules; None means the default rule, which
        matches every message. Raises as `create_queue`, and MessagingEntityNotFound
        for the topic."""
        check_subscription_name(name)
        topic = self.topic(topic_path)
        path = subscription_path(topic.path, name)
        description = subscription_description(properties, path)
        self.forwarders.check(path, description)
        if rules is None:
            rules = [default_rule(self.clock.now())]
        self._check_room_for_subscription(topic, rules)
        entity = await self._create(path, "subscription", description, rules)
        assert isinstance(entity, Subscription)
        return entity

    def _check_room_for_subscription(self, topic: Topic, rules: Sequence[Rule]) -> None:
        """Raises QuotaExceeded."""
        count, limit = len(topic.subscriptions), self._topic_quotas.subscriptions
        check_count(
            "subscriptions", count, limit, "max_subscriptions_per_topic", topic.path
        )
        self.rules.check_counts(topic.router, topic.path, rules)

    @tried_again
    async def update_subscription(
        self, topic_path: str, name: str, properties: Mapping[str, Any]
    ) -> Subscription:
        """Raises as `update_queue`."""
        async with self.follower.latest():
            found = self.subscription(topic_path, name)
            description = subscription_description(
                properties, found.path, found.description
            )
            self.forwarders.check(found.path, description)
            await self._update(found, description)
        return found

    async def delete_subscription(self, topic_path: str, name: str) -> None:
        """Raises MessagingEntityNotFound."""
        await self._delete(lambda: self.subscription(topic_path, name))

    async def add_rule(self, topic_path: str, subscription: str, rule: Rule) -> Rule:
        """Raises EntityAlreadyExists, MessagingEntityNotFound, QuotaExceeded."""
        return await self.rules.add(self.subscription(topic_path, subscription), rule)

    async def update_rule(self, topic_path: str, subscription: str, rule: Rule) -> Rule:
        """Replace the rule of that name. Raises MessagingEntityNotFound,
        QuotaExceeded."""
        return await self.rules.update(
            self.subscription(topic_path, subscription), rule
        )

    async def remove_rule(self, topic_path: str, subscription: str, name: str) -> None:
        """Raises MessagingEntityNotFound."""
        await self.rules.remove(self.subscription(topic_path, subscription), name)

    # --- authorization rules --------------------------------------------------

    @tried_again
    async def change_own(self, change: Callable[[EntityRecord], EntityRecord]) -> None:
        """Change the record of the namespace. Raises ServerBusy, and what the change
        raises."""
        async with self.follower.latest():
            self._check_exists_itself()
            assert self.own is not None, "the namespace is not open"
            record = replace(change(self.own), updated_at=self.clock.now())
            await self.follower.put(record)
            self.own_followed(record)
            self.loose_ends.record(record)

    def own_followed(self, record: EntityRecord) -> None:
        """Another broker has changed the record of the namespace."""
        self.own = record
        if self.access.learn(record):
            self._access_changed()

    def _check_exists_itself(self) -> None:
        """Raises MessagingEntityNotFound."""
        if self.is_removed:
            raise MessagingEntityNotFound(
                f"The namespace '{self.name}' was removed. Make it again with "
                "'twinbus namespaces create', or use another one."
            )

    def removed(self) -> None:
        """The catalog does not have the namespace any more, nor its entities."""
        self.is_removed = True
        self.forget_generations({one.record.generation for one in self.entities()})
        # No key is accepted any more.
        self.policy = Policy(())

    def ruled_entity(self, path: str) -> Queue | Topic:
        """An entity that may have authorization rules. Raises ArgumentError,
        MessagingEntityNotFound."""
        found = self.entity(path)
        if not isinstance(found, Queue | Topic):
            raise ArgumentError(
                f"'{found.path}' is a subscription: the authorization rules of its "
                "topic apply to it.",
                entity_path=found.path,
            )
        return found

    @tried_again
    async def change_entity_access(self, path: str, change: Change) -> None:
        """Raises MessagingEntityNotFound, ArgumentError, ServerBusy, and what the
        change raises."""
        async with self.follower.latest():
            found = self.ruled_entity(path)
            rules = change(found.description.authorization_rules)
            description = replace(found.description, authorization_rules=rules)
            await self._update(found, description)

    # --- entities of any kind -------------------------------------------------

    async def _create_top(
        self, path: str, kind: str, description: Description
    ) -> Entity:
        busy = len(self._busy)
        count, limit = self._top_count + busy, self._max_entities
        check_count("entities", count, limit, "max_entities", self.name)
        assert not isinstance(description, SubscriptionDescription)
        if self._partitioning.is_forced:
            description = replace(description, enable_partitioning=True)
        if description.enable_partitioning:
            self._check_partitioned_count()
        return await self._create(path, kind, description, ())

    def _check_partitioned_count(self) -> None:
        """Raises QuotaExceeded. More may exist, from before the limit was lowered."""
        entities = self._entities.values()
        count = sum(partitioned(one.description) for one in entities)
        limit = self._partitioning.max_entities
        check_count(
            *("partitioned entities", count + self._busy_partitioned_count, limit),
            *("max_partitioned_entities", self.name),
        )

    async def _create(
        self, path: str, kind: str, description: Description, rules: Sequence[Rule]
    ) -> Entity:
        self.sizes.check(path, description, None)
        check_changed(own_access_rules(description), (), path)
        check_fragment_size(path, description)
        key = path.lower()
        if key in self._entities or key in self._busy:
            raise EntityAlreadyExists(entity_path=path)
        self._busy.add(key)
        self._busy_partitioned_count += partitioned(description)
        try:
            placement = self.stores.placement(
                self, self._partitioning.fragment_count, path, description
            )
            record = new_record(
                *(self.name, path, kind, description.to_json(), placement),
                *(self.clock.now(), self._entropy),
            )
            record = with_internals(record, rules)
            entity = self._admitted(record)
            await self._make_durable(entity, rules)
        finally:
            self._busy.discard(key)
            self._busy_partitioned_count -= partitioned(description)
        self._description_changed(None, description)
        self._renew_forwarders(entity)
        return entity

    async def _make_durable(self, entity: Entity, rules: Sequence[Rule]) -> None:
        record = entity.record
        self.stores.check_room(record)
        intents = unfinished(record, INTENT, self.clock.now())
        try:
            await self.follower.intend(intents)
            stored = await self.stores.create(record, rules)
            await self._put_in_catalog(entity, rules)
        except BaseException:
            # If it is not in the catalog it does not exist: drop its fragments.
            if not self.follower.may_have_put(record):
                self.loose_ends.drop(intents)
            raise
        if isinstance(entity, Subscription):
            if entity.is_partitioned:
                stored = rules_of_record(record)
            self._restore_rules_of(entity, stored)

    @tried_again
    async def _put_in_catalog(self, entity: Entity, rules: Sequence[Rule]) -> None:
        async with self.follower.latest():
            self._check_exists_itself()
            if entity.path.lower() in self._entities:
                raise EntityAlreadyExists(entity_path=entity.path)
            self._check_topic_of(entity, rules)
            if self._owners.sharing is Sharing.SHARED:
                # No successor dropped its fragments. One that takes a store now makes a
                # new version first.
                await self.stores.check_made(entity.record)
            await self.follower.put(entity.record)
            self._enter(entity)

    def _check_topic_of(self, entity: Entity, rules: Sequence[Rule]) -> None:
        """Check again, because others may have deleted or filled the topic meanwhile.
        A subscription without its topic could not be loaded at the next start.

        Raises MessagingEntityNotFound, QuotaExceeded."""
        if isinstance(entity, Subscription):
            topic = self.topic(entity.topic_path)
            if topic.router is not entity.router:
                raise MessagingEntityNotFound(entity_path=entity.topic_path)
            self._check_room_for_subscription(topic, rules)

    async def _update(self, entity: Entity, description: Description) -> None:
        self.stores.check_available(entity.record)
        self.sizes.check(entity.path, description, entity.description)
        before = own_access_rules(entity.description)
        check_changed(own_access_rules(description), before, entity.path)
        check_fragment_size(entity.path, description)
        record = replace(
            with_properties(entity.record, description.to_json()),
            updated_at=self.clock.now(),
        )
        await self.follower.put(record)
        self._updated(entity, record, description)

    def _updated(
        self, entity: Entity, record: EntityRecord, description: Description
    ) -> None:
        """The catalog has the new record."""
        self.loose_ends.record(record)
        before = entity.description
        entity.record = record
        entity.description = description
        for table in entity.tables():
            table.update(record.generation, entity.settings())
        if isinstance(entity, Subscription):
            self._subscribe(entity)
        self._description_changed(before, description)
        entity.detach_links_it_disables()
        self._renew_forwarders(entity)

    async def delete(self, entity: Entity) -> None:
        """Delete this entity, but not a new one with the same path. Raises
        MessagingEntityNotFound."""
        await self._delete(lambda: self._still(entity))

    def _still(self, entity: Entity) -> Entity:
        if self._entities.get(entity.path.lower()) is not entity:
            raise MessagingEntityNotFound(entity_path=entity.path)
        return entity

    @tried_again
    async def _delete(self, find: Callable[[], Entity]) -> None:
        async with self.follower.latest():
            entity = find()
            # Subscriptions are deleted in the same step as their topic: without it
            # they could not be loaded again. For this reason they also come first.
            entities = [*subscriptions_of(entity), entity]
            self.stores.check_available(entity.record)
            now = self.clock.now()
            tombstones = [unfinished(item.record, TOMBSTONE, now) for item in entities]
            await self.follower.remove(list(chain.from_iterable(tombstones)))
            for item, of_item in zip(entities, tombstones, strict=True):
                self._forget(item, of_item)
        keys = {item.path.lower() for item in entities}
        self._busy |= keys
        try:
            await self.stores.durable(entity.record)
        finally:
            self._busy -= keys

    def _forget(self, entity: Entity, tombstones: list[Unfinished]) -> None:
        self._remove(entity)
        self.forwarders.stop(entity)
        entity.detach_all(MessagingEntityNotFound(entity_path=entity.path))
        self.loose_ends.drop(tombstones)
        self._description_changed(entity.description, None)

    # --- what other brokers did -----------------------------------------------

    async def make_fragments(self, stored: StoredEntity, rules: Sequence[Rule]) -> None:
        """Another broker creates the entity. Raises as `create_queue` does."""
        record = entity_of(stored)
        await self.follower.follow()
        self._admitted(record)
        await self.stores.make_for_another(record, rules)

    async def check_fragments(self, stored: StoredEntity) -> None:
        """What another broker has had made here is still there. Raises
        FragmentUnavailable, ServiceBusError."""
        await self.stores.check_made_here(entity_of(stored))

    def admit_followed(self, record: EntityRecord) -> None:
        """Another broker has created the entity."""
        entity = self._admitted(record)
        self._enter(entity)
        if isinstance(entity, Subscription):
            made = self.stores.made_rules(record)
            rules = rules_of_record(record) if entity.is_partitioned else made
            if rules is not None:
                self._restore_rules_of(entity, rules)
        self._description_changed(None, entity.description)
        self._renew_forwarders(entity)

    def update_followed(self, entity: Entity, record: EntityRecord) -> None:
        """Another broker has updated the entity, or its rules."""
        self._updated(entity, record, description_of(record))
        if isinstance(entity, Subscription) and entity.is_partitioned:
            self._restore_rules_of(entity, rules_of_record(record))

    def forget_generations(self, generations: set[bytes]) -> None:
        """Those of its entities that have one of these are deleted."""
        gone = [one for one in self.entities() if one.record.generation in generations]
        # Subscriptions come first: they need their topic.
        for entity in sorted(gone, key=lambda one: -entity_order(one.record)):
            self.forget_followed(entity)

    def forget_followed(self, entity: Entity) -> None:
        """Another broker has deleted the entity."""
        self._forget(entity, unfinished(entity.record, TOMBSTONE, self.clock.now()))
