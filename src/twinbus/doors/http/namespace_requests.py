"""`/$namespaces`: lists, makes and removes namespaces of this server.

    GET     /$namespaces                 all of them
    POST    /$namespaces                 make one: {"name": "shop", "ports": []}
    GET     /$namespaces/NAME            one of them
    GET     /$namespaces/NAME?keys=yes   with the keys of its root rule
    DELETE  /$namespaces/NAME            remove it, with all that is in it

All need the Manage claim of the default namespace.
"""

from typing import Any

from twinbus.auth.claims import Claim
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_claim
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.own_paths import NAMESPACES
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.encoding.json_reading import read_object
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_making import NamespaceMaking, ShownNamespace
from twinbus.errors import ArgumentError, ServiceBusError


class NamespaceRequests:
    """Answers these requests."""

    def __init__(
        self, making: NamespaceMaking, default: Namespace, clock: Clock
    ) -> None:
        self._making = making
        self._default = default
        self._clock = clock

    async def answer(self, request: HttpRequest) -> HttpResponse:
        policy, now = self._default.policy, self._clock.now()
        try:
            require_claim(request, Claim.MANAGE, policy, "", now)
            self._default.check_not_busy("")
            return await self._answer(request)
        except ServiceBusError as error:
            return json_refusal(error)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        making, name = self._making, request.path.removeprefix(NAMESPACES).strip("/")
        if request.method == "GET" and not name:
            return json_response({"namespaces": [_json(one) for one in making.shown()]})
        if request.method == "GET":
            found = making.found(name)
            return json_response(self._shown(found, "keys" in request.query))
        if request.method == "POST" and not name:
            name, ports = _wanted(request.body)
            made = await making.create(name, ports)
            return json_response(self._shown(made, with_keys=True), 201)
        if request.method == "DELETE" and name:
            name = making.found(name).name
            await making.remove(name)
            return json_response({"deleted": name})
        return json_refusal(ArgumentError("Use GET, POST or DELETE."), status=405)

    def _shown(self, namespace: Namespace, with_keys: bool) -> dict[str, Any]:
        shown = _json(self._making.shown_one(namespace))
        shown["default"] = self._default.name
        root = self._making.root_rule(namespace) if with_keys else None
        if root is not None:
            shown["root_rule"] = root.to_json()
        return shown


def _json(shown: ShownNamespace) -> dict[str, Any]:
    return {
        "name": shown.name,
        "is_default": shown.is_default,
        "is_declared": shown.is_declared,
        "created_at": shown.created_at,
        "entities": shown.counts,
        "ports": list(shown.ports),
    }


def _wanted(body: bytes) -> tuple[str, list[int]]:
    """Name and ports. Raises ArgumentError."""
    content = read_object(body, "The body")
    if not isinstance(content.get("name"), str):
        raise ArgumentError('The body must be in JSON: {"name": "shop"}.')
    unknown = content.keys() - {"name", "ports"}
    if unknown:
        raise ArgumentError(f"'{min(unknown)[:80]}' is not known: give name and ports.")
    ports = content.get("ports", [])
    if not isinstance(ports, list) or any(type(port) is not int for port in ports):
        raise ArgumentError("'ports' must be a list of numbers.")
    return content["name"], ports
