"""What queues, topics and subscriptions share over HTTP: how they are described."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.authorization import FORWARDING_HEADERS
from twinbus.doors.http.administration.collection import Change, etag
from twinbus.doors.http.administration.description_fields import Field
from twinbus.doors.http.administration.description_xml import (
    read_properties,
    write_description,
)
from twinbus.doors.http.administration.forwarding import check_forwarding
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.partitioning import shown_description
from twinbus.entities.queue import Queue
from twinbus.entities.subscription import Subscription
from twinbus.entities.topic import Topic
from twinbus.errors import ArgumentError

_MESSAGE_SIZE: Final = "max_message_size_in_kilobytes"
_PARTITIONING_SINCE: Final = "2013-10"


class EntityDescriptions:
    """Reads and writes the descriptions of one kind of entity."""

    def __init__(
        self,
        element: str,
        fields: Sequence[Field],
        namespace: Namespace,
        clock: Clock,
        new_key: Callable[[], str],
    ) -> None:
        self._element = element
        self._fields = fields
        self._namespace = namespace
        self._clock = clock
        self._new_key = new_key

    def properties(self, change: Change, path: str) -> dict[str, Any]:
        """What a change sets. Raises ArgumentError, and for forward targets Refusal,
        AuthenticationFailed and UnauthorizedAccess."""
        properties = read_properties(
            change.content,
            self._fields,
            path,
            is_update=change.is_update,
            new_key=self._new_key,
        )
        if not change.is_update:
            _check_version(change, properties, path)
        # Clients send back what they were told: see `_shown`.
        if properties.get(_MESSAGE_SIZE) == self._namespace_kilobytes():
            properties[_MESSAGE_SIZE] = 0
        now = self._clock.now()
        check_forwarding(change.request, properties, self._namespace, path, now)
        return properties

    def entry(
        self,
        item: Queue | Topic | Subscription,
        title: str,
        url: str,
        address: Address,
        more: Mapping[str, str],
    ) -> AtomEntry:
        """The entry of an entity; `more` has texts of read-only elements."""
        own = item.description
        shown = replace(shown_description(item), **self._shown(own, address))
        return AtomEntry(
            id=url,
            title=title,
            author=self._namespace.name,
            published_at=item.created_at,
            updated_at=item.updated_at,
            content=write_description(self._element, self._fields, item, shown, more),
            etag=etag(own.to_json(), item.created_at, item.updated_at),
        )

    def _shown(self, own: Any, address: Address) -> dict[str, Any]:
        """Properties that clients are told in another form than they are kept in.

        They always want to know the largest message. An entity without a limit of its
        own has the limit of the namespace.
        """
        names = {field.property for field in self._fields}
        shown: dict[str, Any] = {
            name: address.forward_target(getattr(own, name))
            for name in names & FORWARDING_HEADERS.keys()
        }
        if _MESSAGE_SIZE in names:
            size = getattr(own, _MESSAGE_SIZE)
            shown[_MESSAGE_SIZE] = size or self._namespace_kilobytes()
        return shown

    def _namespace_kilobytes(self) -> int:
        return self._namespace.max_message_bytes // 1024


def _check_version(change: Change, properties: Mapping[str, Any], path: str) -> None:
    """Older clients do not know partitioned entities. Raises ArgumentError."""
    version = Address.of(change.request).api_version
    if properties.get("enable_partitioning") and version < _PARTITIONING_SINCE:
        raise ArgumentError(
            f"'{path}' is to be partitioned, which needs 'api-version' "
            f"{_PARTITIONING_SINCE} or later; the request has {version!r}.",
            entity_path=path,
        )
