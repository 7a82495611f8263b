"""The namespace: which entities exist, and their creation, update and removal.

An entity exists when the catalog says so. Creation therefore makes its fragments
durable first and enters it into the catalog last; removal goes the other way. What
a crash leaves in between are fragments of no entity, which the next start drops.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.descriptions.queue import QueueDescription, queue_description
from twinbus.broker.entity_path import check_entity_name
from twinbus.clock import Clock
from twinbus.errors import (
    EntityAlreadyExists,
    MessagingEntityNotFound,
    QuotaExceeded,
)
from twinbus.server.owner import StoreOwner
from twinbus.server.queue import Queue
from twinbus.store.catalog import Catalog, EntityRecord

_log = logging.getLogger(__name__)

_GENERATION_BYTES = 16


class Namespace:
    """The entities of one namespace on this server."""

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        owner: StoreOwner,
        clock: Clock,
        entropy: Callable[[int], bytes],
        *,
        rules: tuple[AuthorizationRule, ...],
        max_entities: int,
        max_message_bytes: int,
    ) -> None:
        self.name = name
        self._catalog = catalog
        self._owner = owner
        self._clock = clock
        self._entropy = entropy
        self._rules = rules
        self._max_entities = max_entities
        self.max_message_bytes = max_message_bytes
        # The largest message that any of the entities takes.
        self.largest_message_bytes = max_message_bytes
        # By lower-case path.
        self._queues: dict[str, Queue] = {}
        # Paths whose creation or removal is under way.
        self._busy: set[str] = set()
        # Made anew when entities change, for their own rules.
        self.policy = Policy(rules)

    # --- start ----------------------------------------------------------------

    async def open(self) -> None:
        """Learn which entities there are. Raises StoreError."""
        for record in await self._catalog.open():
            if record.namespace == self.name:
                queue = self._admit(record)
                queue.check_placement()
        self._entities_changed()
        for generation in self._owner.table.orphans():
            _log.warning("dropping fragments of an entity that was never finished")
            self._owner.table.drop(generation, self._owner.changes)

    def _admit(self, record: EntityRecord) -> Queue:
        description = queue_description(record.description, record.path)
        self._owner.table.admit(record.generation, description.settings(record.path))
        queue = Queue(record, description, self._owner)
        self._queues[record.path.lower()] = queue
        return queue

    async def close(self) -> None:
        await self._catalog.close()

    # --- look-up --------------------------------------------------------------

    def queue(self, path: str) -> Queue:
        """The queue of that path. Raises MessagingEntityNotFound."""
        queue = self._queues.get(path.lower())
        if queue is None:
            raise MessagingEntityNotFound(entity_path=path)
        return queue

    def queues(self) -> list[Queue]:
        """All queues, by path."""
        return [self._queues[key] for key in sorted(self._queues)]

    def max_message_bytes_of(self, queue: Queue) -> int:
        """The largest message that the queue takes."""
        own = queue.description.max_message_size_in_kilobytes * 1024
        return own or self.max_message_bytes

    # --- change ---------------------------------------------------------------

    async def create_queue(self, path: str, properties: Mapping[str, Any]) -> Queue:
        """Make a queue; it is durable when this returns.

        Raises ArgumentError, EntityAlreadyExists, QuotaExceeded.
        """
        check_entity_name(path)
        description = queue_description(properties, path)
        key = path.lower()
        if key in self._queues or key in self._busy:
            raise EntityAlreadyExists(entity_path=path)
        if len(self._queues) + len(self._busy) >= self._max_entities:
            raise QuotaExceeded.measured(
                "number of entities",
                limit=self._max_entities,
                actual=len(self._queues) + 1,
                entity_path=self.name,
            )
        self._busy.add(key)
        try:
            return await self._create(path, description)
        finally:
            self._busy.discard(key)

    async def _create(self, path: str, description: QueueDescription) -> Queue:
        now = self._clock.now()
        owner = self._owner
        record = EntityRecord(
            namespace=self.name,
            path=path,
            kind="queue",
            generation=self._entropy(_GENERATION_BYTES),
            description=description.to_json(),
            created_at=now,
            updated_at=now,
            placement=(owner.store_uuid,),
        )
        owner.table.admit(record.generation, description.settings(path))
        owner.table.create(record.generation, 0, owner.changes)
        try:
            await owner.durable()
            await self._catalog.put(record)
        except BaseException:
            # Not in the catalog, so it never was; the next commit forgets the rest.
            owner.table.drop(record.generation, owner.changes)
            raise
        queue = self._admit(record)
        self._entities_changed()
        return queue

    async def update_queue(self, path: str, properties: Mapping[str, Any]) -> Queue:
        """Change properties; what is not named stays as it is.

        Raises ArgumentError, MessagingEntityNotFound.
        """
        queue = self.queue(path)
        description = queue_description(properties, path, queue.description)
        record = replace(
            queue.record,
            description=description.to_json(),
            updated_at=self._clock.now(),
        )
        await self._catalog.put(record)
        queue.record = record
        queue.description = description
        self._owner.table.update(record.generation, description.settings(queue.path))
        self._entities_changed()
        queue.detach_links_it_disables()
        return queue

    async def delete_queue(self, path: str) -> None:
        """Remove a queue with all it holds. Raises MessagingEntityNotFound."""
        queue = self.queue(path)
        key = path.lower()
        await self._catalog.remove(self.name, queue.path)
        del self._queues[key]
        self._busy.add(key)
        try:
            queue.detach_all(MessagingEntityNotFound(entity_path=queue.path))
            self._owner.table.drop(queue.record.generation, self._owner.changes)
            self._entities_changed()
            await self._owner.durable()
        finally:
            self._busy.discard(key)

    def _entities_changed(self) -> None:
        self.largest_message_bytes = max(
            (self.max_message_bytes_of(queue) for queue in self._queues.values()),
            default=self.max_message_bytes,
        )
        rules = list(self._rules)
        for queue in self._queues.values():
            for rule in queue.description.authorization_rules:
                rules.append(authorization_rule(rule, queue.path))
        self.policy = Policy(rules)


def authorization_rule(rule: AccessRule, scope: str) -> AuthorizationRule:
    """A configured rule as the policy checks it."""
    return AuthorizationRule(
        key_name=rule.key_name,
        primary_key=rule.primary_key,
        secondary_key=rule.secondary_key,
        claims=Claim.named(*rule.rights),
        scope=scope,
    )
