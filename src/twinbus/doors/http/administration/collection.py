"""The common interface of all kinds of entities, for HTTP."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeVar

from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.xml_reading import XmlElement
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.doors.http.request import HttpRequest
from twinbus.entities.resource import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request to create or update the resource."""

    request: HttpRequest
    resource: Resource
    # The description in the request's body.
    content: XmlElement
    is_update: bool


class Collection(Protocol[T]):
    """All entities of one kind."""

    # Name of the XML element that describes one entity.
    element: str
    title: str

    def all(self, resource: Resource, prefix: str) -> Sequence[T]:
        """Entities whose lower-case path has this prefix, sorted."""
        ...

    def find(self, resource: Resource) -> T:
        """Raises MessagingEntityNotFound."""
        ...

    def entry(self, item: T, address: Address) -> AtomEntry: ...

    async def put(self, change: Change) -> T: ...

    async def delete(self, resource: Resource) -> None: ...


def etag(document: dict[str, Any], created_at: int, updated_at: int) -> str:
    """It differs for every description, also if an entity is created again."""
    text = json.dumps([document, created_at, updated_at], sort_keys=True)
    return f'"{sha256(text.encode()).hexdigest()[:16]}"'
