"""`$management` of the namespace: manages entities, for `twinbus entities` and tests.

Service Bus does not have these operations; it is administered over HTTP. Bodies carry
JSON texts, so that the command line prints the server's answer as it is. Paths are
those of HTTP: `T/Subscriptions/S` is a subscription, `T/Subscriptions/S/Rules/R` one of
its rules. All operations need the Manage claim.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from twinbus.amqp.messaging import AmqpMap
from twinbus.auth.claims import Claim
from twinbus.auth.grants import Grants
from twinbus.broker.changes import StoredEntity
from twinbus.broker.fragment import MAIN
from twinbus.clock import Clock
from twinbus.doors.amqp.management import management_status
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.partitioning import shown_description
from twinbus.entities.queue import Queue
from twinbus.entities.resource import Kind, Resource, parse_resource
from twinbus.entities.subscription import Subscription
from twinbus.entities.topic import Topic
from twinbus.errors import ArgumentError, MessagingEntityNotFound, NotSupported
from twinbus.limits import ENTITY_REQUEST_BYTES
from twinbus.operations.fragment_states import fragment_states
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import rule_of_json

ADDRESS: Final = "$management"
_PREFIX: Final = "twinbus:"

_SECRETS: Final = ("primary_key", "secondary_key")


class NamespaceNode:
    """Answers the entity requests of one connection."""

    address = ADDRESS
    max_request_bytes = ENTITY_REQUEST_BYTES

    def __init__(
        self,
        namespace: Namespace,
        clock: Clock,
        grants: Grants,
        *,
        is_for_peers: bool = False,
    ) -> None:
        """`is_for_peers`: the client is another broker."""
        self._namespace = namespace
        self._clock = clock
        self._grants = grants
        self._operations: dict[str, Callable[[Request], Awaitable[object]]] = {
            "create-queue": self._create_queue,
            "create-topic": self._create_topic,
            "create-subscription": self._create_subscription,
            "create-rule": self._create_rule,
            "update-entity": self._update,
            "delete-entity": self._delete,
            "get-entity": self._get,
            "list-entities": self._list,
        }
        if is_for_peers:
            self._operations["make-fragments"] = self._make_fragments
            self._operations["follow"] = self._follow
            self._operations["fragment-counts"] = self._counts

    def allowed_request_bytes(self) -> int:
        return self.max_request_bytes

    async def answer(self, request: Request) -> Response:
        self._grants.require(Claim.MANAGE, "", self._clock.now())
        operation = self._operations.get(request.operation.removeprefix(_PREFIX))
        if operation is None:
            raise NotSupported(f"A namespace has no operation '{request.operation}'.")
        self._namespace.check_not_busy("")
        return Response(value={"result": json.dumps(await operation(request))})

    async def _create_queue(self, request: Request) -> object:
        path, properties = _text(request, "path"), _object(request, "properties")
        return describe(await self._namespace.create_queue(path, properties))

    async def _create_topic(self, request: Request) -> object:
        path, properties = _text(request, "path"), _object(request, "properties")
        return describe(await self._namespace.create_topic(path, properties))

    async def _create_subscription(self, request: Request) -> object:
        resource = _subscription(request)
        return describe(
            await self._namespace.create_subscription(
                resource.entity, resource.subscription, _object(request, "properties")
            )
        )

    async def _create_rule(self, request: Request) -> object:
        resource = _subscription(request)
        document = {**_object(request, "rule"), "created_at": self._clock.now()}
        try:
            rule = rule_of_json(document)
        except (AssertionError, LookupError, TypeError, AttributeError) as error:
            raise ArgumentError(f"'rule' is not a valid rule: {error!r}.") from None
        kept = await self._namespace.add_rule(
            resource.entity, resource.subscription, rule
        )
        return _describe_rule(_text(request, "path"), kept)

    async def _update(self, request: Request) -> object:
        path, properties = _text(request, "path"), _object(request, "properties")
        if parse_resource(path).kind is Kind.RULES:
            raise ArgumentError(
                f"'{path}' is a rule, which has no properties to change. Delete it and "
                "create it anew.",
                entity_path=path,
            )
        entity = self._namespace.entity(path)
        if isinstance(entity, Queue):
            await self._namespace.update_queue(entity.path, properties)
        elif isinstance(entity, Topic):
            await self._namespace.update_topic(entity.path, properties)
        elif isinstance(entity, Subscription):
            await self._namespace.update_subscription(
                entity.topic_path, entity.name, properties
            )
        return describe(entity)

    async def _delete(self, request: Request) -> object:
        resource = parse_resource(_text(request, "path"))
        if resource.kind is Kind.RULES:
            await self._namespace.remove_rule(
                resource.entity, resource.subscription, resource.rule
            )
            return None
        await self._namespace.delete(self._namespace.entity(_text(request, "path")))
        return None

    async def _get(self, request: Request) -> object:
        path = _text(request, "path")
        resource = parse_resource(path)
        if resource.kind is not Kind.RULES:
            entity = self._namespace.entity(path)
            await self._namespace.stores.others.ask_for_counts(entity)
            return await _describe_whole(entity)
        found = self._namespace.subscription(resource.entity, resource.subscription)
        for rule in found.rules():
            if rule.name.lower() == resource.rule.lower():
                return _describe_rule(found.path, rule)
        raise MessagingEntityNotFound(entity_path=path)

    async def _list(self, request: Request) -> object:
        entities = self._namespace.entities()
        return [
            describe(entity)
            for entity in sorted(entities, key=lambda item: item.path.lower())
        ]

    async def _make_fragments(self, request: Request) -> object:
        stored = StoredEntity(
            generation=request.argument("generation"),
            definition=_text(request, "definition"),
        )
        rules = [rule_of_json(one) for one in json.loads(_text(request, "rules"))]
        await self._namespace.make_fragments(stored, rules)
        return None

    async def _counts(self, request: Request) -> object:
        found = self._namespace.entity(_text(request, "path")).records_here()
        return [{**asdict(record), "generation": ""} for record in found]

    async def _follow(self, _: Request) -> object:
        await self._namespace.follower.follow()
        return None

    def status_properties(self, response: Response) -> AmqpMap:
        return management_status(response)


def describe(entity: Entity) -> dict[str, Any]:
    """An entity for people and scripts: properties and counts, without keys."""
    main, counts = entity.all_counters(MAIN), entity.counts()
    properties = asdict(shown_description(entity))
    for rule in properties.get("authorization_rules", ()):
        for secret in _SECRETS:
            rule.pop(secret)
    described = {
        "path": entity.path,
        "kind": entity.record.kind,
        "properties": properties,
        "created_at": entity.record.created_at,
        "updated_at": entity.record.updated_at,
        "counts": {
            "active": sum(one.active_count for one in main),
            "deferred": sum(one.deferred_count for one in main),
            "scheduled": counts.scheduled,
            "dead_letter": counts.dead_letter,
        },
        "size_bytes": entity.size_bytes(),
    }
    if isinstance(entity, Subscription):
        described["rules"] = [rule.to_json() for rule in entity.rules()]
    return described


async def _describe_whole(entity: Entity) -> dict[str, Any]:
    """Also with the fragments of a partitioned entity."""
    described = describe(entity)
    if entity.is_partitioned:
        found = await fragment_states(entity)
        described["is_available"] = entity.is_available()
        described["fragments"] = [asdict(fragment) for fragment in found]
    return described


def _describe_rule(path: str, rule: Rule) -> dict[str, Any]:
    return {
        "path": f"{path}/Rules/{rule.name}",
        "kind": "rule",
        "rule": rule.to_json(),
    }


def _subscription(request: Request) -> Resource:
    resource = parse_resource(_text(request, "path"))
    if resource.kind is not Kind.SUBSCRIPTIONS or resource.is_collection:
        raise ArgumentError("'path' must be TOPIC/Subscriptions/NAME.")
    return resource


def _text(request: Request, name: str) -> str:
    value = request.argument(name)
    if not isinstance(value, str):
        raise ArgumentError(f"'{name}' must be a string.")
    return value


def _object(request: Request, name: str) -> dict[str, Any]:
    try:
        value = json.loads(_text(request, name))
        # JSON can contain half of a surrogate pair, which a store cannot encode.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"'{name}' is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"'{name}' must be a JSON object.")
    return value
