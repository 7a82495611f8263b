"""The entities of a namespace in memory: how they come in, and what follows from that.

It says what a record of the catalog is as an entity, gives its fragments their
settings, and knows what all entities together decide: who may do what, and the largest
message. It writes nothing; `namespace.py` makes changes durable first.
"""

from collections.abc import Callable

from twinbus.auth.policy import Policy
from twinbus.broker.descriptions.queue import queue_description
from twinbus.broker.descriptions.subscription import subscription_description
from twinbus.broker.descriptions.topic import topic_description
from twinbus.clock import Clock
from twinbus.entities.directory import Directory
from twinbus.entities.entity import Description, Entity, check_hash_version
from twinbus.entities.entity_access import own_access_rules, policy_of
from twinbus.entities.entity_sizes import EntitySizes, own_message_bytes
from twinbus.entities.entity_stores import EntityStores
from twinbus.entities.namespace_access import NamespaceAccess
from twinbus.entities.queue import Queue
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import read_rule
from twinbus.entities.topic import Topic
from twinbus.store.catalog import EntityRecord
from twinbus.topics.topic import Subscribed, TopicRouter


class EntityRegister(Directory):
    """Entities by path, and what they decide together."""

    def __init__(
        self,
        stores: EntityStores,
        clock: Clock,
        entropy: Callable[[int], bytes],
        access: NamespaceAccess,
        sizes: EntitySizes,
        max_message_bytes: int,
    ) -> None:
        super().__init__()
        self.stores = stores
        self.clock = clock
        self._entropy = entropy
        # Rules of the namespace itself.
        self.access = access
        # Replaced when authorization rules change.
        self.policy = Policy(access.rules())
        self.sizes = sizes
        self.max_message_bytes = max_message_bytes
        # The largest message that any of the entities accepts.
        self.largest_message_bytes = max_message_bytes
        # What the operation log calls the namespace; empty: the default one.
        self.log_name = ""
        # Number of queues and topics.
        self._top_count = 0

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
        """Create the entity of a record, and give its fragments their settings. Raises
        StoreUnreadable."""
        check_hash_version(record)
        now, path, generation = self.clock.now(), record.path, record.generation
        tables = self.stores.tables_of(record)
        if record.kind == "queue":
            queue = Queue(
                record, queue_description(record.properties, path), tables, now
            )
            for table in queue.tables():
                table.admit(generation, queue.settings(), namespace=self.log_name)
            return queue
        if record.kind == "topic":
            router = TopicRouter(self._entropy, read_rule)
            described = topic_description(record.properties, path)
            topic = Topic(record, described, router, tables, now)
            for table in topic.tables():
                table.admit(
                    *(generation, topic.settings()),
                    router=router,
                    namespace=self.log_name,
                )
            return topic
        description = subscription_description(record.properties, path)
        topic_path = path.rsplit("/", 2)[0]
        parent = self.topic(topic_path)
        subscription = Subscription(record, description, parent.router, tables, now)
        for table in subscription.tables():
            table.admit(
                *(generation, subscription.settings()),
                within=parent.record.generation,
                namespace=self.log_name,
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

    def _remove(self, entity: Entity) -> None:
        """The catalog does not have it any more."""
        del self._entities[entity.path.lower()]
        if isinstance(entity, Subscription):
            entity.router.unsubscribe(entity.key)
            self.topic(entity.topic_path).subscriptions.pop(entity.key, None)
        else:
            self._top_count -= 1

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
        self.policy = policy_of(self.access.rules(), self._entities.values())
