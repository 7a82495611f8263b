"""Topics over HTTP."""

from collections.abc import Callable, Sequence

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change
from twinbus.doors.http.administration.description_fields import TOPIC_FIELDS
from twinbus.doors.http.administration.entity_descriptions import EntityDescriptions
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.resource import Resource
from twinbus.entities.topic import Topic


class Topics:
    """The topics of a namespace."""

    element = "TopicDescription"
    title = "Topics"

    def __init__(
        self, namespace: Namespace, clock: Clock, new_key: Callable[[], str]
    ) -> None:
        self._namespace = namespace
        self._descriptions = EntityDescriptions(
            self.element, TOPIC_FIELDS, namespace, clock, new_key
        )

    def all(self, resource: Resource, prefix: str) -> Sequence[Topic]:
        topics = self._namespace.topics()
        if not prefix:
            return topics
        return [topic for topic in topics if topic.path.lower().startswith(prefix)]

    def find(self, resource: Resource) -> Topic:
        return self._namespace.topic(resource.entity)

    def entry(self, item: Topic, address: Address) -> AtomEntry:
        more = {
            "SizeInBytes": str(item.size_bytes()),
            "SubscriptionCount": str(item.subscription_count()),
            "SqlFilterCount": str(item.sql_filter_count()),
            "CorrelationFilterCount": str(item.correlation_filter_count()),
        }
        url = address.to(item.path)
        return self._descriptions.entry(item, item.path, url, address, more)

    async def put(self, change: Change) -> Topic:
        path = change.resource.entity
        properties = self._descriptions.properties(change, path)
        if change.is_update:
            return await self._namespace.update_topic(path, properties)
        return await self._namespace.create_topic(path, properties)

    async def delete(self, resource: Resource) -> None:
        await self._namespace.delete_topic(resource.entity)
