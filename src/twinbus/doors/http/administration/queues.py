"""Queues over HTTP."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change, etag
from twinbus.doors.http.administration.description_fields import QUEUE_FIELDS
from twinbus.doors.http.administration.description_xml import (
    read_properties,
    write_description,
)
from twinbus.doors.http.administration.forwarding import check_forwarding
from twinbus.doors.http.administration.message_size import (
    read_message_size,
    written_message_size,
)
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
        self._clock = clock
        self._new_key = new_key

    def all(self, resource: Resource, prefix: str) -> Sequence[Queue]:
        queues = self._namespace.queues()
        if not prefix:
            return queues
        return [queue for queue in queues if queue.path.lower().startswith(prefix)]

    def find(self, resource: Resource) -> Queue:
        return self._namespace.queue(resource.entity)

    def entry(self, item: Queue, address: Address) -> AtomEntry:
        own = item.description
        shown = replace(
            own,
            forward_to=address.forward_target(own.forward_to),
            forward_dead_lettered_messages_to=address.forward_target(
                own.forward_dead_lettered_messages_to
            ),
            max_message_size_in_kilobytes=written_message_size(own, self._namespace),
        )
        more = {"SizeInBytes": str(item.size_bytes())}
        return AtomEntry(
            id=address.to(item.path),
            title=item.path,
            author=self._namespace.name,
            published_at=item.created_at,
            updated_at=item.updated_at,
            content=write_description(self.element, QUEUE_FIELDS, item, shown, more),
            etag=etag(own.to_json(), item.created_at, item.updated_at),
        )

    async def put(self, change: Change) -> Queue:
        path = change.resource.entity
        properties = self._properties(change)
        now = self._clock.now()
        check_forwarding(change.request, properties, self._namespace, path, now)
        if change.is_update:
            return await self._namespace.update_queue(path, properties)
        return await self._namespace.create_queue(path, properties)

    def _properties(self, change: Change) -> dict[str, Any]:
        properties = read_properties(
            change.content,
            QUEUE_FIELDS,
            change.resource.entity,
            is_update=change.is_update,
            new_key=self._new_key,
        )
        read_message_size(properties, self._namespace)
        return properties

    async def delete(self, resource: Resource) -> None:
        await self._namespace.delete_queue(resource.entity)
