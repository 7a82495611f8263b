"""`$management` of the namespace: entities, for `twinbus entities` and tests.

An operation of our own, not of Service Bus, where administration is HTTP. Bodies
carry JSON texts, so that the command line prints what the server said. All
operations need the Manage claim.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from twinbus.amqp.messaging import AmqpMap
from twinbus.auth.claims import Claim, require
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.clock import Clock
from twinbus.errors import ArgumentError, NotSupported
from twinbus.limits import ENTITY_REQUEST_BYTES
from twinbus.server.cbs import Grants
from twinbus.server.management import management_status
from twinbus.server.namespace import Namespace
from twinbus.server.queue import Queue
from twinbus.server.request_links import Request, Response

ADDRESS: Final = "$management"
_PREFIX: Final = "twinbus:"

_SECRETS: Final = ("primary_key", "secondary_key")


class NamespaceNode:
    """Answers the entity requests of one connection."""

    address = ADDRESS
    max_request_bytes = ENTITY_REQUEST_BYTES

    def __init__(self, namespace: Namespace, clock: Clock, grants: Grants) -> None:
        self._namespace = namespace
        self._clock = clock
        self._grants = grants
        self._operations: dict[str, Callable[[Request], Awaitable[object]]] = {
            "create-queue": self._create,
            "update-queue": self._update,
            "delete-entity": self._delete,
            "get-entity": self._get,
            "list-entities": self._list,
        }

    async def answer(self, request: Request) -> Response:
        require(self._grants.all(), Claim.MANAGE, "", self._clock.now())
        operation = self._operations.get(request.operation.removeprefix(_PREFIX))
        if operation is None:
            raise NotSupported(f"'{request.operation}' is no operation of a namespace.")
        return Response(value={"result": json.dumps(await operation(request))})

    async def _create(self, request: Request) -> object:
        path = _text(request, "path")
        return describe(await self._namespace.create_queue(path, _properties(request)))

    async def _update(self, request: Request) -> object:
        path = _text(request, "path")
        return describe(await self._namespace.update_queue(path, _properties(request)))

    async def _delete(self, request: Request) -> object:
        await self._namespace.delete_queue(_text(request, "path"))
        return None

    async def _get(self, request: Request) -> object:
        return describe(self._namespace.queue(_text(request, "path")))

    async def _list(self, request: Request) -> object:
        return [describe(queue) for queue in self._namespace.queues()]

    def status_properties(self, response: Response) -> AmqpMap:
        return management_status(response)


def describe(queue: Queue) -> dict[str, Any]:
    """A queue for people and scripts: properties, counts, never a key."""
    main = queue.counters(MAIN)
    assert main is not None
    dead = queue.counters(DEAD_LETTER)
    properties = asdict(queue.description)
    for rule in properties["authorization_rules"]:
        for secret in _SECRETS:
            rule.pop(secret)
    return {
        "path": queue.path,
        "kind": queue.record.kind,
        "properties": properties,
        "created_at": queue.record.created_at,
        "updated_at": queue.record.updated_at,
        "counts": {
            "active": main.active_count,
            "deferred": main.deferred_count,
            "scheduled": main.scheduled_count,
            "dead_letter": dead.active_count + dead.deferred_count if dead else 0,
        },
        "size_bytes": main.size_bytes + (dead.size_bytes if dead else 0),
    }


def _text(request: Request, name: str) -> str:
    value = request.argument(name)
    if not isinstance(value, str):
        raise ArgumentError(f"'{name}' must be a string.")
    return value


def _properties(request: Request) -> dict[str, Any]:
    try:
        properties = json.loads(_text(request, "properties"))
    except ValueError as error:
        raise ArgumentError(f"'properties' is no JSON: {error}.") from None
    if not isinstance(properties, dict):
        raise ArgumentError("'properties' must be a JSON object.")
    return properties
