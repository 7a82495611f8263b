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
from twinbus.doors.amqp.key_operations import KeyOperations
from twinbus.doors.amqp.management import management_status
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import text_argument
from twinbus.doors.audit import audited
from twinbus.encoding.json_reading import as_object, read_json, read_texts
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.partitioning import shown_description
from twinbus.entities.queue import Queue
from twinbus.entities.resource import Kind, Resource, parse_resource
from twinbus.entities.subscription import Subscription
from twinbus.entities.topic import Topic
from twinbus.errors import (
    ArgumentError,
    FragmentUnavailable,
    MessagingEntityNotFound,
    NotSupported,
)
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
        peer: str,
        *,
        is_for_peers: bool = False,
    ) -> None:
        """`peer`: its address, for the audit log. `is_for_peers`: the client is another
        broker."""
        self._peer = peer
        self._is_for_peers = is_for_peers
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
            **KeyOperations(namespace).by_name(),
        }
        if is_for_peers:
            self._operations["make-fragments"] = self._make_fragments
            self._operations["check-fragments"] = self._check_fragments
            self._operations["follow"] = self._follow
            self._operations["about-entities"] = self._about_entities
            self._operations["add-rule"] = self._add_rule
            self._operations["update-rule"] = self._update_rule
            self._operations["remove-rule"] = self._remove_rule

    def allowed_request_bytes(self) -> int:
        return self.max_request_bytes

    async def answer(self, request: Request) -> Response:
        if self._is_for_peers:
            return await self._answer(request)
        key_name = self._grants.key_name_for(Claim.MANAGE, "", self._clock.now())
        call, looks = _call(request), _only_looks(request)
        with audited(self._peer, key_name, call, looks=looks):
            return await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        self._grants.require(Claim.MANAGE, "", self._clock.now())
        operation = self._operations.get(request.operation.removeprefix(_PREFIX))
        if operation is None:
            raise NotSupported(f"A namespace has no operation '{request.operation}'.")
        self._namespace.check_not_busy("")
        return Response(value={"result": json.dumps(await operation(request))})

    async def _create_queue(self, request: Request) -> object:
        path, properties = (
            text_argument(request, "path"),
            _object(request, "properties"),
        )
        return self._describe(await self._namespace.create_queue(path, properties))

    async def _create_topic(self, request: Request) -> object:
        path, properties = (
            text_argument(request, "path"),
            _object(request, "properties"),
        )
        return self._describe(await self._namespace.create_topic(path, properties))

    async def _create_subscription(self, request: Request) -> object:
        resource = _subscription(request)
        return self._describe(
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
        return _describe_rule(text_argument(request, "path"), kept)

    async def _update(self, request: Request) -> object:
        path, properties = (
            text_argument(request, "path"),
            _object(request, "properties"),
        )
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
        return self._describe(entity)

    async def _delete(self, request: Request) -> object:
        resource = parse_resource(text_argument(request, "path"))
        if resource.kind is Kind.RULES:
            await self._namespace.remove_rule(
                resource.entity, resource.subscription, resource.rule
            )
            return None
        await self._namespace.delete(
            self._namespace.entity(text_argument(request, "path"))
        )
        return None

    async def _get(self, request: Request) -> object:
        path = text_argument(request, "path")
        resource = parse_resource(path)
        if resource.kind is not Kind.RULES:
            entity = self._namespace.entity(path)
            await self._namespace.stores.others.tell([entity])
            return await self._describe_whole(entity)
        found = self._namespace.subscription(resource.entity, resource.subscription)
        await self._namespace.stores.others.tell([found])
        for rule in found.rules():
            if rule.name.lower() == resource.rule.lower():
                return _describe_rule(found.path, rule)
        raise MessagingEntityNotFound(entity_path=path)

    async def _list(self, request: Request) -> object:
        entities = sorted(
            self._namespace.entities(), key=lambda item: item.path.lower()
        )
        await self._namespace.stores.others.tell(entities)
        return [self._describe(entity) for entity in entities]

    def _describe(self, entity: Entity) -> dict[str, Any]:
        described = describe(entity, self._clock.now())
        if self._namespace.log_name:
            # Only where the server has several.
            described["namespace"] = self._namespace.log_name
        return described

    async def _describe_whole(self, entity: Entity) -> dict[str, Any]:
        """Also with the fragments of a partitioned entity."""
        described = self._describe(entity)
        if entity.is_partitioned:
            found = await fragment_states(entity)
            described["is_available"] = entity.is_available()
            described["fragments"] = [asdict(fragment) for fragment in found]
        return described

    async def _make_fragments(self, request: Request) -> object:
        rules = [rule_of_json(one) for one in _json(request, "rules")]
        await self._namespace.make_fragments(_stored(request), rules)
        return None

    async def _check_fragments(self, request: Request) -> object:
        await self._namespace.check_fragments(_stored(request))
        return None

    async def _about_entities(self, request: Request) -> object:
        paths = read_texts(text_argument(request, "paths"), "'paths'")
        found = [self._namespace.find(path) for path in paths]
        if not paths:
            found = [*self._namespace.entities()]
        now = self._clock.now()
        return [_about(entity, now) for entity in found if entity is not None]

    async def _add_rule(self, request: Request) -> object:
        rules, found = self._namespace.rules, self._subscription_here(request)
        kept = await rules.add(found, rule_of_json(_object(request, "rule")))
        return kept.to_json()

    async def _update_rule(self, request: Request) -> object:
        rules, found = self._namespace.rules, self._subscription_here(request)
        kept = await rules.update(found, rule_of_json(_object(request, "rule")))
        return kept.to_json()

    async def _remove_rule(self, request: Request) -> object:
        rules, found = self._namespace.rules, self._subscription_here(request)
        await rules.remove(found, _object(request, "rule")["name"])
        return {}

    def _subscription_here(self, request: Request) -> Subscription:
        """Raises MessagingEntityNotFound, and FragmentUnavailable if its store has
        moved on: it is not asked for a second time."""
        found = self._namespace.entity(text_argument(request, "path"))
        assert isinstance(found, Subscription)
        if not found.home(0).is_serving:
            raise FragmentUnavailable.numbered(0, found.path)
        return found

    async def _follow(self, _: Request) -> object:
        await self._namespace.follower.follow()
        return None

    def status_properties(self, response: Response) -> AmqpMap:
        return management_status(response)


def _call(request: Request) -> str:
    """What is asked for, for the audit log."""
    named = [request.optional(name) for name in ("path", "key_name")]
    words = [repr(name[:300]) for name in named if isinstance(name, str)]
    return " ".join((request.operation.removeprefix(_PREFIX)[:60], *words))


def _only_looks(request: Request) -> bool:
    """Nothing is changed, and no key is read."""
    name = request.operation.removeprefix(_PREFIX)
    return name.startswith(("get-", "list-")) and not request.optional("with_keys")


def _about(entity: Entity, now: int) -> dict[str, Any]:
    """What other brokers do not find in the catalog."""
    rules = None
    if isinstance(entity, Subscription) and entity.home(0).is_serving:
        rules = [rule.to_json() for rule in entity.rules()]
    records = entity.records_here()
    entity.notice_use(now)
    return {
        "generation": entity.record.generation.hex(),
        "records": [{**asdict(record), "generation": ""} for record in records],
        "rules": None if entity.is_partitioned else rules,
        "leases": [asdict(lease) for lease in entity.leases_here(now)],
        "used_at": entity.used_at,
    }


def describe(entity: Entity, now: int) -> dict[str, Any]:
    """An entity for people and scripts: properties, counts and who reads it alone,
    without keys."""
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
        # Ever; a rate is the difference of two looks.
        "enqueued_count": sum(one.next_sequence - 1 for one in main),
        "reader_leases": [asdict(lease) for lease in entity.reader_leases(now)],
    }
    if isinstance(entity, Subscription):
        described["rules"] = [rule.to_json() for rule in entity.rules()]
    return described


def _describe_rule(path: str, rule: Rule) -> dict[str, Any]:
    return {
        "path": f"{path}/Rules/{rule.name}",
        "kind": "rule",
        "rule": rule.to_json(),
    }


def _subscription(request: Request) -> Resource:
    resource = parse_resource(text_argument(request, "path"))
    if resource.kind is not Kind.SUBSCRIPTIONS or resource.is_collection:
        raise ArgumentError("'path' must be TOPIC/Subscriptions/NAME.")
    return resource


def _object(request: Request, name: str) -> dict[str, Any]:
    return as_object(_json(request, name), f"'{name}'")


def _stored(request: Request) -> StoredEntity:
    return StoredEntity(
        generation=request.argument("generation"),
        definition=text_argument(request, "definition"),
    )


def _json(request: Request, name: str) -> Any:
    """Raises ArgumentError."""
    value = read_json(text_argument(request, name), f"'{name}'")
    try:
        # JSON can contain half of a surrogate pair, which a store cannot encode.
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise ArgumentError(f"'{name}' is not valid JSON: {error}.") from None
    return value
