"""Queues over HTTP."""

from collections.abc import Callable, Sequence

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change
from twinbus.doors.http.administration.description_fields import QUEUE_FIELDS
from twinbus.doors.http.administration.entity_descriptions import EntityDescriptions
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.queue import Queue
from twinbus.entities.resource import Resource


class Queues:
    """The queues of a namespace."""

    element = "QueueDescription"
    title = "Queues"

    def __init__(
        self, namespace: Namespace, clock: Clock, new_key: Callable[[], str]
    ) -> None:
        self._namespace = namespace
        self._descriptions = EntityDescriptions(
            self.element, QUEUE_FIELDS, namespace, clock, new_key
        )

    def all(self, resource: Resource, prefix: str) -> Sequence[Queue]:
        queues = self._namespace.queues()
        if not prefix:
            return queues
        return [queue for queue in queues if queue.path.lower().startswith(prefix)]

    def find(self, resource: Resource) -> Queue:
        return self._namespace.queue(resource.entity)

    def entry(self, item: Queue, address: Address) -> AtomEntry:
        more = {"SizeInBytes": str(item.size_bytes())}
        url = address.to(item.path)
        return self._descriptions.entry(item, item.path, url, address, more)

    async def put(self, change: Change) -> Queue:
        path = change.resource.entity
        properties = self._descriptions.properties(change, path)
        if change.is_update:
            return await self._namespace.update_queue(path, properties)
        return await self._namespace.create_queue(path, properties)

    async def delete(self, resource: Resource) -> None:
        await self._namespace.delete_queue(resource.entity)
