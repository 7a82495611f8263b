"""Requests of administration clients: authorization, operation, response.

    GET      one entity, or a page of a collection
    PUT      create; with `If-Match` update: any version (`*`), or only the one
             that the client has seen (an ETag)
    DELETE   the same conditions

Changes are made one after the other, so that nothing can happen between the comparison
of an ETag and the change.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from twinbus.auth.claims import Claim, require
from twinbus.auth.policy import Policy
from twinbus.broker.entity_path import subscription_path
from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.authorization import path_grant, shows_key
from twinbus.doors.http.administration.collection import Change, Collection
from twinbus.doors.http.administration.namespace_info import namespace_entry
from twinbus.doors.http.administration.paging import Page, prefix_of
from twinbus.doors.http.administration.queues import Queues
from twinbus.doors.http.administration.refusal import Refusal, refusal_response
from twinbus.doors.http.administration.rules import Rules
from twinbus.doors.http.administration.subscriptions import Subscriptions
from twinbus.doors.http.administration.topics import Topics
from twinbus.doors.http.administration.xml_reading import XmlElement, read_xml
from twinbus.doors.http.administration.xml_writing import (
    AtomEntry,
    entry_document,
    feed_document,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.resource import Kind, Resource, parse_resource
from twinbus.errors import (
    ArgumentError,
    FragmentUnavailable,
    MessagingEntityNotFound,
    ServiceBusError,
)

_ENTRY: Final = "application/atom+xml;type=entry;charset=utf-8"
_FEED: Final = "application/atom+xml;type=feed;charset=utf-8"
_KEY_BYTES: Final = 32


class Administration:
    """Answers the administration requests for one namespace."""

    def __init__(
        self,
        namespace: Namespace,
        clock: Clock,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._entropy = entropy
        self._queues = Queues(namespace, clock, self._new_key)
        self._topics = Topics(namespace, clock, self._new_key)
        self._collections: dict[Kind, Collection[Any]] = {
            Kind.QUEUES: self._queues,
            Kind.TOPICS: self._topics,
            Kind.SUBSCRIPTIONS: Subscriptions(namespace, clock, self._new_key),
            Kind.RULES: Rules(namespace, clock),
        }
        # Held during a change.
        self._mutex = asyncio.Lock()

    def _new_key(self) -> str:
        return b64encode(self._entropy(_KEY_BYTES)).decode()

    @property
    def policy(self) -> Policy:
        """The rules whose keys are accepted."""
        return self._namespace.policy

    def shows_key(self, request: HttpRequest) -> bool:
        """Whether the client has a key of the namespace, or of an entity."""
        return shows_key(request, self._namespace.policy, self._clock.now())

    async def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            resource = parse_resource(request.path)
            now = self._clock.now()
            grant = path_grant(request, self._namespace.policy, request.path, now)
            await self._learn_rules(resource)
            if not grant.allows(Claim.MANAGE, request.path, now):
                self._check_is_there(request, resource)
            require((grant,), Claim.MANAGE, request.path, now)
            self._namespace.check_not_busy(request.path)
            return await self._operate(request, resource)
        except (ServiceBusError, Refusal) as error:
            return refusal_response(error)

    async def _learn_rules(self, resource: Resource) -> None:
        """Rules of a subscription may be at another broker. Raises
        FragmentUnavailable."""
        path = subscription_path(resource.entity, resource.subscription)
        found = self._namespace.find(path) if resource.kind is Kind.RULES else None
        if found is None:
            return
        if not await self._namespace.stores.others.tell([found]):
            raise FragmentUnavailable.none_left(found.path)

    def _check_is_there(self, request: HttpRequest, resource: Resource) -> None:
        """Clients without the right to administer may check whether an entity exists:
        401 would look as if it did. Raises MessagingEntityNotFound."""
        is_one = not resource.is_collection and resource.kind is not Kind.NAMESPACE
        if is_one and request.method in ("GET", "HEAD"):
            self._existing(resource).find(resource)

    async def _operate(self, request: HttpRequest, resource: Resource) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return await self._get(request, resource)
        if resource.is_collection:
            raise Refusal(
                405, f"{request.method} is not possible for a list.", allow="GET"
            )
        if request.method == "PUT":
            async with self._mutex:
                return await self._put(request, resource)
        if request.method == "DELETE":
            async with self._mutex:
                return await self._delete(request, resource)
        raise Refusal(
            405,
            f"{request.method} is not possible for entities.",
            allow="GET, PUT, DELETE",
        )

    # --- operations -----------------------------------------------------------

    async def _get(self, request: HttpRequest, resource: Resource) -> HttpResponse:
        address = Address.of(request)
        if resource.kind is Kind.NAMESPACE:
            return _entry_response(200, namespace_entry(self._namespace, address))
        if resource.is_collection:
            return await self._list(request, resource, address)
        collection = self._existing(resource)
        item = collection.find(resource)
        if isinstance(item, Entity):
            await self._namespace.stores.others.tell([item])
        return _entry_response(200, collection.entry(item, address))

    async def _list(
        self, request: HttpRequest, resource: Resource, address: Address
    ) -> HttpResponse:
        collection = self._collections[resource.kind]
        query = request.query
        page = Page(collection.all(resource, prefix_of(query)), query)
        following = page.next_query
        listed = [item for item in page.items if isinstance(item, Entity)]
        await self._namespace.stores.others.tell(listed)
        return HttpResponse(
            status=200,
            body=feed_document(
                id=address.to(request.path),
                title=collection.title,
                updated_at=self._clock.now(),
                next_page=following and address.to(request.path, following),
                entries=[collection.entry(item, address) for item in page.items],
            ),
            headers={"content-type": _FEED},
        )

    async def _put(self, request: HttpRequest, resource: Resource) -> HttpResponse:
        content = _content(request.body)
        collection = self._described(resource, content)
        address = Address.of(request)
        is_update = self._is_conditional(request, resource, collection, address)
        change = Change(
            request=request, resource=resource, content=content, is_update=is_update
        )
        item = await collection.put(change)
        entry = collection.entry(item, address)
        return _entry_response(200 if is_update else 201, entry)

    async def _delete(self, request: HttpRequest, resource: Resource) -> HttpResponse:
        collection = self._existing(resource)
        self._is_conditional(request, resource, collection, Address.of(request))
        await collection.delete(resource)
        return HttpResponse(status=200)

    # --- which entities are meant ---------------------------------------------

    def _existing(self, resource: Resource) -> Collection[Any]:
        """The collection that has the resource. Raises MessagingEntityNotFound."""
        if resource.kind is not Kind.ENTITY:
            return self._collections[resource.kind]
        try:
            self._queues.find(resource)
        except MessagingEntityNotFound:
            return self._topics
        return self._queues

    def _described(self, resource: Resource, content: XmlElement) -> Collection[Any]:
        """The collection that a description belongs to. Raises ArgumentError."""
        if resource.kind is Kind.ENTITY:
            expected: tuple[Collection[Any], ...] = (self._queues, self._topics)
        else:
            expected = (self._collections[resource.kind],)
        for collection in expected:
            if collection.element == content.name:
                return collection
        names = " or ".join(collection.element for collection in expected)
        raise ArgumentError(f"The body has a {content.name}; expected {names}.")

    def _is_conditional(
        self,
        request: HttpRequest,
        resource: Resource,
        collection: Collection[Any],
        address: Address,
    ) -> bool:
        """Whether the request has a condition, which must be met: the entity exists,
        and has the given ETag.

        Raises MessagingEntityNotFound, Refusal.
        """
        wanted = request.headers.get("if-match")
        if wanted is None:
            return False
        found = collection.entry(collection.find(resource), address).etag
        if wanted.strip() != "*" and found not in wanted:
            raise Refusal(
                412,
                f"'{request.path}' has the ETag {found}, not {wanted}: it was changed "
                "meanwhile. Read it again.",
            )
        return True


def _content(body: bytes) -> XmlElement:
    """The description in an Atom entry. Raises ArgumentError."""
    content = read_xml(body).child("content")
    if content is None or not content.children:
        raise ArgumentError(
            "The body must be an Atom entry whose content is a description."
        )
    return content.children[0]


def _entry_response(status: int, entry: AtomEntry) -> HttpResponse:
    headers = {"content-type": _ENTRY, "etag": entry.etag}
    return HttpResponse(status=status, body=entry_document(entry), headers=headers)
