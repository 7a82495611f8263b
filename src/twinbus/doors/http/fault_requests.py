"""`/$faults`: sets, lists and clears faults.

    GET     /$faults      those that are set
    POST    /$faults      set one; the body is the fault in JSON
    DELETE  /$faults      clear all
    DELETE  /$faults/N    clear the one with this number

All need the Manage claim of the namespace, and the setting `allow_faults`.
"""

import json
from typing import Any, Final

from twinbus.auth.claims import Claim
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_claim
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.own_paths import FAULTS
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.entities.namespace import Namespace
from twinbus.errors import ArgumentError, MessagingEntityNotFound, ServiceBusError
from twinbus.faults.faults import Faults
from twinbus.faults.written_fault import read_fault, write_fault

_OFF: Final = (
    "This server sets no faults. Start it with --allow-faults (TWINBUS_ALLOW_FAULTS, "
    "or allow_faults = true in [server]), on a bus that is only for tests."
)


class FaultRequests:
    """Answers these requests for one namespace."""

    def __init__(
        self, namespace: Namespace, clock: Clock, faults: Faults | None
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        # None: faults are not allowed.
        self._faults = faults

    async def answer(self, request: HttpRequest) -> HttpResponse:
        now = self._clock.now()
        try:
            require_claim(request, Claim.MANAGE, self._namespace.policy, "", now)
            return self._answer(request, self._allowed(), now)
        except ServiceBusError as error:
            return json_refusal(error)

    def _allowed(self) -> Faults:
        """Raises MessagingEntityNotFound."""
        if self._faults is None:
            raise MessagingEntityNotFound(_OFF)
        return self._faults

    def _answer(self, request: HttpRequest, faults: Faults, now: int) -> HttpResponse:
        table, named = faults.table, _number(request)
        if request.method == "GET" and named is None:
            return _shown([write_fault(fault, now) for fault in table.active(now)])
        if request.method == "POST" and named is None:
            fault = table.set(read_fault(_content(request.body), now), now)
            return json_response(write_fault(fault, now), 201)
        if request.method == "DELETE":
            table.active(now)
            return _shown([write_fault(fault, now) for fault in table.clear(named)])
        return json_refusal(ArgumentError("Use GET, POST or DELETE."), status=405)


def _shown(faults: list[dict[str, Any]]) -> HttpResponse:
    return json_response({"faults": faults})


def _number(request: HttpRequest) -> int | None:
    """Raises ArgumentError."""
    text = request.path.removeprefix(FAULTS).strip("/")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise ArgumentError.about("fault", value=text[:60], expected="its number")
    return int(text[:18])


def _content(body: bytes) -> dict[str, Any]:
    """Raises ArgumentError."""
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ArgumentError("The body must be a fault: an object in JSON.")
    return content
