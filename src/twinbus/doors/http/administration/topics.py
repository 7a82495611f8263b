"""Topics over HTTP."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change, etag
from twinbus.doors.http.administration.description_fields import TOPIC_FIELDS
from twinbus.doors.http.administration.description_xml import (
    read_properties,
    write_description,
)
from twinbus.doors.http.administration.message_size import (
    read_message_size,
    written_message_size,
)
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.resource import Resource
from twinbus.entities.topic import Topic


class Topics:
    """The topics of a namespace."""

    element = "TopicDescription"
    title = "Topics"

    def __init__(self, namespace: Namespace, new_key: Callable[[], str]) -> None:
        self._namespace = namespace
        self._new_key = new_key

    def all(self, resource: Resource, prefix: str) -> Sequence[Topic]:
        topics = self._namespace.topics()
        if not prefix:
            return topics
        return [topic for topic in topics if topic.path.lower().startswith(prefix)]

    def find(self, resource: Resource) -> Topic:
        return self._namespace.topic(resource.entity)

    def entry(self, item: Topic, address: Address) -> AtomEntry:
        own = item.description
        size = written_message_size(own, self._namespace)
        shown = replace(own, max_message_size_in_kilobytes=size)
        more = {
            "SizeInBytes": str(item.size_bytes()),
            "SubscriptionCount": str(item.subscription_count()),
            "SqlFilterCount": str(item.sql_filter_count()),
            "CorrelationFilterCount": str(item.correlation_filter_count()),
        }
        return AtomEntry(
            id=address.to(item.path),
            title=item.path,
            author=self._namespace.name,
            published_at=item.created_at,
            updated_at=item.updated_at,
            content=write_description(self.element, TOPIC_FIELDS, item, shown, more),
            etag=etag(own.to_json(), item.created_at, item.updated_at),
        )

    async def put(self, change: Change) -> Topic:
        path = change.resource.entity
        properties = read_properties(
            change.content,
            TOPIC_FIELDS,
            path,
            is_update=change.is_update,
            new_key=self._new_key,
        )
        read_message_size(properties, self._namespace)
        if change.is_update:
            return await self._namespace.update_topic(path, properties)
        return await self._namespace.create_topic(path, properties)

    async def delete(self, resource: Resource) -> None:
        await self._namespace.delete_topic(resource.entity)
