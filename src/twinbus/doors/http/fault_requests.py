"""`/$faults`: sets, lists and clears faults.

    GET     /$faults      those that are set
    POST    /$faults      set one; the body is the fault in JSON
    DELETE  /$faults      clear all
    DELETE  /$faults/N    clear the one with this number

All need the Manage claim of the namespace, and the setting `allow_faults`. With several
brokers each of them does it; `missing` in the answer names those that have not.
"""

from typing import Any, Final

from twinbus.auth.claims import Claim
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_claim
from twinbus.doors.http.fellow_brokers import (
    CLEAR_FAULTS,
    COPY_FAULT,
    LIST_FAULTS,
    FellowBrokers,
    missing,
)
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.own_paths import FAULTS
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.encoding.json_reading import read_object
from twinbus.entities.namespace import Namespace
from twinbus.errors import ArgumentError, MessagingEntityNotFound, ServiceBusError
from twinbus.faults.broker_faults import BrokerFaults, Shown, merged

_OFF: Final = (
    "This server sets no faults. Start it with --allow-faults (TWINBUS_ALLOW_FAULTS, "
    "or allow_faults = true in [server]), on a bus that is only for tests."
)


class FaultRequests:
    """Answers these requests for one namespace."""

    def __init__(
        self, namespace: Namespace, clock: Clock, faults: BrokerFaults | None
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        # None: faults are not allowed.
        self._faults = faults
        # None: this is the only broker.
        self.others: FellowBrokers | None = None

    async def answer(self, request: HttpRequest) -> HttpResponse:
        now = self._clock.now()
        try:
            require_claim(request, Claim.MANAGE, self._namespace.policy, "", now)
            return await self._answer(request, self.allowed())
        except ServiceBusError as error:
            return json_refusal(error)

    def allowed(self) -> BrokerFaults:
        """Raises MessagingEntityNotFound."""
        if self._faults is None:
            raise MessagingEntityNotFound(_OFF)
        return self._faults

    async def _answer(self, request: HttpRequest, faults: BrokerFaults) -> HttpResponse:
        number = _number(request)
        if request.method == "GET" and number is None:
            return json_response(await self._together(LIST_FAULTS, {}, faults.all()))
        if request.method == "POST" and number is None:
            return await self._set(read_object(request.body, "The fault"), faults)
        if request.method == "DELETE":
            cleared = faults.clear(number)
            found = await self._together(CLEAR_FAULTS, {"number": number}, cleared)
            if number is not None and not found["faults"]:
                raise _not_found(number, found.get("missing", []))
            return json_response(found)
        return json_refusal(ArgumentError("Use GET, POST or DELETE."), status=405)

    async def _set(self, written: dict[str, Any], faults: BrokerFaults) -> HttpResponse:
        fault = faults.set(written)
        if self.others is not None:
            answers = await self.others.ask_all(COPY_FAULT, fault)
            fault["missing"] = missing(answers)
        return json_response(fault, 201)

    async def _together(
        self, name: str, content: object, own: list[Shown]
    ) -> dict[str, Any]:
        """The faults of this broker and of those that are asked."""
        if self.others is None:
            return {"faults": own}
        answers = await self.others.ask_all(name, content)
        shares = [
            (one.broker, one.content["faults"])
            for one in answers
            if one.content is not None
        ]
        everywhere = merged([(self.others.own_name, own), *shares])
        return {"faults": everywhere, "missing": missing(answers)}


def _not_found(number: int, not_asked: list[dict[str, str]]) -> MessagingEntityNotFound:
    text = f"No fault has the number {number}. It may have ended."
    for one in not_asked:
        text += f" Broker {one['broker']} has not answered: {one['why']}"
    return MessagingEntityNotFound(text)


def _number(request: HttpRequest) -> int | None:
    """Raises ArgumentError."""
    text = request.path.removeprefix(FAULTS).strip("/")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise ArgumentError.about("fault", value=text[:60], expected="its number")
    return int(text[:18])
