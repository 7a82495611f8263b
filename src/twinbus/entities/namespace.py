"""The namespace: its entities, and their creation, update and removal.

An entity exists if the catalog has it. So creation first makes its fragments durable,
and enters it into the catalog last; removal works in the opposite order. The catalog
notes both before any fragment changes. After a crash the next start drops the fragments
that are noted, and no others: see `loose_ends.py` and `strangers.py`.

Rules are not entities. They are in the store, because one transaction may change rules
and messages (`subscription_rules.py`). `forwarders.py` moves messages between entities.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from twinbus.auth.claims import AuthorizationRule
from twinbus.auth.policy import Policy
from twinbus.broker.changes import StoredEntity, StoredRule
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
from twinbus.clock import Clock
from twinbus.entities.catalog_follower import CatalogFollower
from twinbus.entities.directory import Directory
from twinbus.entities.entity import Description, Entity
from twinbus.entities.entity_access import own_access_rules, policy_of
from twinbus.entities.entity_count import check_count
from twinbus.entities.entity_detour import EntityDetour
from twinbus.entities.entity_sizes import EntitySizes, own_message_bytes
from twinbus.entities.entity_stores import EntityStores
from twinbus.entities.forwarders import Forwarders
from twinbus.entities.idle_entities import IdleEntities
from twinbus.entities.loose_ends import LooseEnds
from twinbus.entities.partitioning import (
    DOCUMENTED_PARTITIONING,
    Partitioning,
    check_fragment_size,
    partitioned,
    without_total,
)
from twinbus.entities.queue import Queue
from twinbus.entities.record_description import description_of, entities_of
from twinbus.entities.store_entries import (
    NAMESPACE,
    StoreEntries,
    check_served,
    remembered_stores,
)
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import (
    SubscriptionRules,
    read_rule,
    rules_of_record,
    with_internals,
)
from twinbus.entities.topic import Topic, subscriptions_of
from twinbus.entities.topic_quotas import DOCUMENTED_QUOTAS, TopicQuotas
from twinbus.entities.unread_rules import UnreadRules
from twinbus.errors import (
    EntityAlreadyExists,
    FragmentUnavailable,
    MessagingEntityNotFound,
)
from twinbus.limits import ENTITY_MEGABYTES
from twinbus.links.detour import StoreDetour
from twinbus.links.extensions import Extensions
from twinbus.outbox.transfer_log import (
    DOCUMENTED_TRANSFER,
    TransferLog,
    TransferSettings,
)
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.rules.rule import Rule, default_rule
from twinbus.store.catalog import (
    INTENT,
    TOMBSTONE,
    Catalog,
    EntityRecord,
    Unfinished,
    entity_of,
    unfinished,
    with_properties,
)
from twinbus.topics.topic import Subscribed, TopicRouter

_log = logging.getLogger(__name__)

_GENERATION_BYTES: Final = 16


def _never_busy(entity_path: str) -> None:
    """Refuses nothing."""


class Namespace(Directory):
    """The entities of one namespace on this server."""

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        owners: Owners,
        clock: Clock,
        entropy: Callable[[int], bytes],
        turns: Turns,
        *,
        rules: tuple[AuthorizationRule, ...],
        max_entities: int,
        max_message_bytes: int,
        max_entity_message_bytes: int,
        max_entity_megabytes: int = ENTITY_MEGABYTES,
        topic_quotas: TopicQuotas = DOCUMENTED_QUOTAS,
        partitioning: Partitioning = DOCUMENTED_PARTITIONING,
        transfer: TransferSettings = DOCUMENTED_TRANSFER,
        extensions: Extensions | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        # Names are compared without regard to case.
        self._key = name.lower()
        self._catalog = catalog
        self._owners = owners
        self.stores = EntityStores(owners)
        self.clock = clock
        # Refuses requests while the server has too much to do. Raises ServerBusy.
        self.check_not_busy: Callable[[str], None] = _never_busy
        self._entropy = entropy
        self._access_rules = rules
        self._max_entities = max_entities
        self.max_message_bytes = max_message_bytes
        # Features beyond Service Bus.
        self.extensions = extensions or Extensions()
        self.sizes = EntitySizes(
            max_message_bytes,
            max_entity_message_bytes,
            max_entity_megabytes,
            self.extensions.headroom_bytes,
        )
        self._topic_quotas = topic_quotas
        self._partitioning = partitioning
        # The largest message that any of the entities accepts.
        self.largest_message_bytes = max_message_bytes
        self.created_at = 0
        self.updated_at = 0
        # Number of queues and topics, which `max_entities` limits.
        self._top_count = 0
        # Paths whose creation or removal is under way.
        self._busy: set[str] = set()
        # How many of them will be partitioned.
        self._busy_partitioned_count = 0
        self.follower = CatalogFollower(
            self, catalog, is_shared=owners.sharing is Sharing.SHARED
        )
        # Replaced when authorization rules of entities change.
        self.policy = Policy(rules)
        self.forwarders = Forwarders(self)
        self._unread_rules = UnreadRules(turns)
        self.rules = SubscriptionRules(clock, topic_quotas, self._save_rules)
        self.idle = IdleEntities(self)
        self.loose_ends = LooseEnds(catalog, owners)
        self._entries = StoreEntries(self, catalog, owners)
        # What was read of the catalog before the stores were opened.
        self._records: list[EntityRecord] | None = None
        # Keeps messages for stores that are away.
        self._transfer_log = TransferLog(owners, clock, transfer)

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
        self._transfer_log.open()
        self._access_changed()

    async def _take_in(
        self, owner: StoreOwner, stored: list[StoredEntity]
    ) -> Callable[[], None]:
        """A store is opened that was away, or with another broker. Raises StoreError;
        returns what is to be done when it serves."""
        await self.follower.follow()
        return await self._entries.check_late(owner, stored)

    async def _read_catalog(self) -> list[EntityRecord]:
        records, self._records = self._records, None
        return await self._catalog.open() if records is None else records

    def _admit_all(self, records: list[EntityRecord]) -> None:
        known = entities_of(self.name, records)
        check_served(known, records, self._owners)
        for record in known:
            self._enter(self._admitted(record))

    async def _learn_age(self, records: list[EntityRecord]) -> EntityRecord:
        for record in records:
            if record.kind == NAMESPACE and record.namespace.lower() == self._key:
                break
        else:
            uuids = tuple(owner.store_uuid for owner in self._owners)
            record = self._record("", NAMESPACE, {}, uuids)
        own = self._entries.noted_in(record)
        if own not in records:
            await self._catalog.put(own)
        self.created_at, self.updated_at = own.created_at, own.updated_at
        return own

    def start(self) -> None:
        """Start forwarding. The owners must be ready to commit."""
        for entity in self._entities.values():
            self._renew_forwarders(entity)

    def _renew_forwarders(self, entity: Entity) -> None:
        # What is away is renewed when it is back.
        with contextlib.suppress(FragmentUnavailable, MessagingEntityNotFound):
            self.forwarders.renew(entity)

    def restore_rules(self, owner: StoreOwner, rules: list[StoredRule]) -> None:
        """Take the rules of a store: at the start, and after a failed commit."""
        by_fragment: dict[int, list[StoredRule]] = {}
        for rule in rules:
            by_fragment.setdefault(rule.fragment_number, []).append(rule)
        for entity in self._entities.values():
            if not isinstance(entity, Subscription) or not entity.is_in(owner.table):
                continue
            if entity.is_partitioned:
                self._restore_rules_of(entity, rules_of_record(entity.record))
            else:
                main = entity.counters(MAIN)
                found = [] if main is None else by_fragment.get(main.number, [])
                self._restore_rules_of(entity, found)

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
        if not self._transfer_log.has_stores():
            return None
        return EntityDetour(entity, self._transfer_log)

    def tick(self, now: int) -> None:
        self.forwarders.tick(now)
        self._transfer_log.tick(now)
        self.idle.tick(now)
        self.loose_ends.tick()

    async def close(self) -> None:
        await self.idle.finished()
        await self.loose_ends.stop()
        await self._catalog.close()

    # --- admission ------------------------------------------------------------

    def _enter(self, entity: Entity) -> None:
        """Make an entity that is in the catalog visible."""
        self._entities[entity.path.lower()] = entity
        if isinstance(entity, Subscription):
            topic = self.topic(entity.topic_path)
            topic.subscriptions[entity.key] = entity
            self._subscribe(entity)
        else:
            self._top_count += 1

    def _admitted(self, record: EntityRecord) -> Entity:
        """Create the entity of a record, and give its fragments their settings."""
        now, path, generation = self.clock.now(), record.path, record.generation
        tables = self.stores.tables_of(record)
        if record.kind == "queue":
            queue = Queue(
                record, queue_description(record.properties, path), tables, now
            )
            for table in queue.tables():
                table.admit(generation, queue.settings())
            return queue
        if record.kind == "topic":
            router = TopicRouter(self._entropy, read_rule)
            described = topic_description(record.properties, path)
            topic = Topic(record, described, router, tables, now)
            for table in topic.tables():
                table.admit(generation, topic.settings(), router=router)
            return topic
        description = subscription_description(record.properties, path)
        topic_path = path.rsplit("/", 2)[0]
        parent = self.topic(topic_path)
        subscription = Subscription(record, description, parent.router, tables, now)
        for table in subscription.tables():
            table.admit(
                generation, subscription.settings(), within=parent.record.generation
            )
        return subscription

    def _subscribe(self, subscription: Subscription) -> None:
        """Enter it at its topic, with its current description."""
        description = subscription.description
        subscription.router.subscribe(
            subscription.key,
            Subscribed(
                subscription.record.generation,
                self.stores.tables_of(subscription.record),
                description.dead_lettering_on_filter_evaluation_exceptions,
            ),
        )

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
            record = self._record(path, kind, description.to_json(), placement)
            record = with_internals(record, rules)
            entity = self._admitted(record)
            await self._make_durable(entity, rules)
        finally:
            self._busy.discard(key)
            self._busy_partitioned_count -= partitioned(description)
        self._description_changed(None, description)
        self.forwarders.renew(entity)
        return entity

    def _record(
        self,
        path: str,
        kind: str,
        description: Mapping[str, Any],
        placement: tuple[bytes, ...],
    ) -> EntityRecord:
        now = self.clock.now()
        return EntityRecord(
            namespace=self.name,
            path=path,
            kind=kind,
            generation=self._entropy(_GENERATION_BYTES),
            description=description,
            created_at=now,
            updated_at=now,
            placement=placement,
        )

    async def _make_durable(self, entity: Entity, rules: Sequence[Rule]) -> None:
        record = entity.record
        self.stores.check_room(record)
        intents = unfinished(record, INTENT, self.clock.now())
        try:
            await self._catalog.intend(intents)
            stored = await self.stores.create(record, rules)
            async with self.follower.latest():
                if entity.path.lower() in self._entities:
                    raise EntityAlreadyExists(entity_path=entity.path)
                self._check_topic_of(entity, rules)
                if self._owners.sharing is Sharing.SHARED:
                    # Its stores are still owned here, after the catalog was read: so
                    # a successor has not dropped its fragments, nor can it now.
                    await self.stores.durable(record)
                await self.follower.put(record)
                self._enter(entity)
        except BaseException:
            # It is not in the catalog, so it does not exist. Drop its fragments.
            self.loose_ends.drop(intents)
            raise
        if isinstance(entity, Subscription):
            if entity.is_partitioned:
                stored = rules_of_record(record)
            self._restore_rules_of(entity, stored)

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
        del self._entities[entity.path.lower()]
        if isinstance(entity, Subscription):
            entity.router.unsubscribe(entity.key)
            self.topic(entity.topic_path).subscriptions.pop(entity.key, None)
        else:
            self._top_count -= 1
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

    def forget_followed(self, entity: Entity) -> None:
        """Another broker has deleted the entity."""
        self._forget(entity, unfinished(entity.record, TOMBSTONE, self.clock.now()))

    def _description_changed(
        self, before: Description | None, after: Description | None
    ) -> None:
        """Update policy and sizes only if the entity affects them: this visits all
        entities, which is too slow for each creation."""
        for description in (before, after):
            if description is not None and (
                own_access_rules(description) or own_message_bytes(description)
            ):
                self._access_changed()
                return

    def _access_changed(self) -> None:
        self.largest_message_bytes = self.max_message_bytes
        for entity in self._entities.values():
            size = self.sizes.max_message_bytes_of(entity)
            self.largest_message_bytes = max(self.largest_message_bytes, size)
        self.policy = policy_of(self._access_rules, self._entities.values())
