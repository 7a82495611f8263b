"""An HTTP connection that faults can hit. Without `allow_faults` there is none.

Requests about faults and for diagnoses are never hit: otherwise nobody could end a
fault that refuses connections. Bulk requests name many entities, so their faults are
found where each entity is checked (`FaultyCaller`), and so are those of messaging.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.doors.http.administration.refusal import refusal_response
from twinbus.doors.http.bulk.bulk import PREFIX as BULK
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.http_connection import HttpConnection, HttpHome, Upgrades
from twinbus.doors.http.messaging.messaging_path import messaging_path
from twinbus.doors.http.own_paths import DIAGNOSIS, FAULTS
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.errors import InternalError
from twinbus.faults.fault import Operation
from twinbus.faults.faults import Faults

_NEVER_HIT: Final = (FAULTS, DIAGNOSIS)
_READ_ONLY: Final = ("health", "metrics")

_OPERATIONS: Final = {
    Claim.SEND: Operation.SEND,
    Claim.LISTEN: Operation.RECEIVE,
    Claim.MANAGE: Operation.MANAGE,
}

_silence: ContextVar[Callable[[], None]] = ContextVar("silence")
"""Ends the connection of the request that is being answered, instead of an answer."""


class FaultyHttpConnection(HttpConnection):
    """The asyncio protocol of one client's connection."""

    def __init__(
        self,
        home: HttpHome,
        faults: Faults,
        upgrades: Upgrades | None = None,
        namespace_of: Callable[[HttpRequest], str] | None = None,
    ) -> None:
        """`namespace_of` names the namespace that a request means; without it there is
        only one."""
        super().__init__(home, upgrades=upgrades)
        self._faults = faults
        self._namespace_of = namespace_of
        # It is as if there were no connection.
        self._is_refused = False
        # The connection is cut instead of a response.
        self._is_mute = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._is_refused = self._faults.refuses_connection()

    def _upgrade(self, upgrades: Upgrades) -> None:
        if self._is_refused:
            self.abort()
        else:
            super()._upgrade(upgrades)

    async def _answer(self, request: HttpRequest) -> None:
        first = request.path.partition("/")[0]
        if first in _NEVER_HIT:
            await super()._answer(request)
            return
        _silence.set(self._mute)
        is_managing = first not in (BULK, *_READ_ONLY) and not messaging_path(request)
        if self._is_refused:
            self._mute()
            self._respond(HttpResponse(status=503))
        elif is_managing and (hit := self._hit(request)) is not None:
            self.requests.clear()
            self._respond(hit)
            self._advance()
        else:
            await super()._answer(request)

    def _hit(self, request: HttpRequest) -> HttpResponse | None:
        """The response to a request that a fault hits before it is done."""
        faults, entity = self._faults, request.path
        if self._namespace_of is not None:
            faults = faults.within(self._namespace_of(request))
        if faults.drops(Operation.MANAGE, entity):
            self._mute()
            return HttpResponse(status=503)
        if faults.leaves_unanswered(Operation.MANAGE, entity):
            self._mute()
        error = faults.refusal(Operation.MANAGE, entity)
        return None if error is None else refusal_response(error)

    def _mute(self) -> None:
        self._is_mute = True

    def _respond(self, response: HttpResponse) -> None:
        if self._is_mute:
            self._is_ending = True
            self.abort()
        else:
            super()._respond(response)


class FaultyCaller(HttpCaller):
    """The caller of bulk and messaging requests, each of whose entities may be hit."""

    def __init__(
        self,
        faults: Faults,
        request: HttpRequest,
        policy: Policy,
        now: int,
        actors: Actors,
    ) -> None:
        super().__init__(request, policy, now, actors)
        self._faults = faults

    def require(self, claim: Claim, path: str) -> None:
        super().require(claim, path)
        operation = _OPERATIONS[claim]
        error = self._faults.refusal(operation, path)
        if self._faults.drops(operation, path):
            _silence.get()()
            error = InternalError("The connection is cut by a fault.", entity_path=path)
        elif self._faults.leaves_unanswered(operation, path):
            _silence.get()()
        if error is not None:
            raise error
