"""AutoDeleteOnIdle: deletes entities that were not used for the time they set.

An entity is in use while it has a link, a range reader or a scheduled message. Each
send, receive, other request or update counts as use, too. Messages from its topic do
not count as use of a subscription. A topic is in use while one of its subscriptions is.
An entity that forwards is not deleted, because its use is not visible here. The idle
time starts again with each start of the process. Of an entity with fragments at several
brokers, each knows the use that it has seen.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from twinbus.broker.home import Home
from twinbus.entities.entity import Entity
from twinbus.entities.message_source import MessageSource
from twinbus.errors import ServerBusy, ServiceBusError

if TYPE_CHECKING:
    from twinbus.entities.namespace import Namespace

_log = logging.getLogger(__name__)

_LOOK_MS: Final = 10_000

_PAUSES: Final = (0.01, 0.05, 0.1, 0.2, 0.4)
"""After a try that failed because another broker changed the catalog, in seconds; then
the next look comes."""


class IdleEntities:
    """Deletes the idle entities of one namespace."""

    def __init__(self, namespace: "Namespace") -> None:
        self._namespace = namespace
        self._looked_at = 0
        self._deleting: asyncio.Task[None] | None = None

    def tick(self, now: int) -> None:
        """Look for idle entities if the last look was long enough ago."""
        # `0 <=`: a clock that is set back must not stop this for long.
        if 0 <= now - self._looked_at < _LOOK_MS or self.is_deleting():
            return
        self._looked_at = now
        entities = self._namespace.entities()
        # Record the use now: after a link has gone, nothing shows that it was there.
        for entity in entities:
            entity.notice_use(now)
            # Nobody could use it while its store is away.
            if not all(map(self._is_served, entity.homes())):
                entity.used_at = now
        idle = [
            entity
            for entity in entities
            # One of several brokers decides: that of the first fragment.
            if entity.home(0).is_serving and _is_idle(entity, now)
        ]
        if idle:
            self._deleting = asyncio.create_task(self._delete(idle))

    def is_deleting(self) -> bool:
        return self._deleting is not None and not self._deleting.done()

    async def finished(self) -> None:
        """Wait until the idle entities that were found are deleted."""
        if self._deleting is not None:
            await asyncio.wait([self._deleting])

    async def _delete(self, entities: list[Entity]) -> None:
        for entity in entities:
            await self._delete_one(entity)

    def _is_served(self, home: Home) -> bool:
        """Here, or by another broker."""
        others = self._namespace.stores.others
        return home.is_serving or others.serves(home.store_uuid)

    async def _learn_use(self, entity: Entity) -> bool:
        """Other brokers know whether it is used there. Without one of them it is looked
        at later. The same holds while nobody tells of one of its fragments: its store
        moves, and the broker that was asked does not have it any more."""
        others = self._namespace.stores.others
        return await others.tell([entity], with_links=True) and entity.is_available()

    async def _delete_one(self, entity: Entity) -> None:
        if not await self._learn_use(entity):
            return
        for pause_seconds in _PAUSES:
            # It may have been used while earlier ones were deleted.
            if not _is_idle(entity, self._namespace.clock.now()):
                return
            _log.info("deleting '%s', which is idle", entity.path)
            try:
                await self._namespace.delete(entity)
                return
            except ServerBusy as busy:
                # Brokers find their idle entities at the same time, and change the
                # catalog one after the other.
                error: ServiceBusError = busy
            except ServiceBusError as final:
                error = final
                break
            await asyncio.sleep(pause_seconds)
        _log.warning("'%s' was not deleted: %s", entity.path, error)


def _is_idle(entity: Entity, now: int) -> bool:
    idle_ms = entity.description.auto_delete_on_idle_ms
    if idle_ms == 0 or not entity.is_idle_since(now - idle_ms):
        return False
    if isinstance(entity, MessageSource):
        return not entity.description.forward_to
    return True
