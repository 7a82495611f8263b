"""Bulk requests of other brokers, for fragments of this one.

    POST /$peers/bulk/NAME    NAME is that of a method of `BrokerShare`, or `browse`

They come on the listener for brokers, with a token of the cluster's key. They are done
here and not passed on, so that the asker looks up the owner again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import shows_key, widest_grant
from twinbus.doors.http.bulk import share_json
from twinbus.doors.http.bulk.append_body import decode_append
from twinbus.doors.http.bulk.bulk import Bulk
from twinbus.doors.http.bulk.forwarded_caller import ForwardedCaller
from twinbus.doors.http.bulk.http_caller import Actors
from twinbus.doors.http.bulk.share_json import Json
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.encoding.json_reading import read_object
from twinbus.errors import NotSupported, ServiceBusError
from twinbus.limits import BULK_PEER_BYTES, ENTITY_REQUEST_BYTES
from twinbus.operations.bulk.requests import LeaseRequest
from twinbus.operations.bulk.shares import (
    BrokerShare,
    FragmentsOf,
    HoldRequest,
    OutlinesRequest,
)

PREFIX: Final = "$peers/bulk/"

NAMESPACE: Final = "x-twinbus-namespace"
"""Header of these requests: the namespace that is meant, if it is not the default."""

_Answer = Callable[[Json, ForwardedCaller], Awaitable[Any]]


class PeerBulk:
    """Answers other brokers."""

    def __init__(
        self, share: BrokerShare, bulk: Bulk, clock: Clock, policy: Policy
    ) -> None:
        """`policy` accepts the key of the cluster."""
        self._share = share
        self._bulk = bulk
        self._clock = clock
        self._policy = policy
        self._actors = Actors()
        self._requests: dict[str, _Answer] = {
            "runtime": self._runtime,
            "check-leases": self._check_leases,
            "lease": self._lease,
            "release": self._release,
            "hold": self._hold,
            "outlines": self._outlines,
            "note-plans": self._note_plans,
            "restore-plans": self._restore_plans,
            "check-settlements": self._check_settlements,
            "settle": self._settle,
        }

    def shows_key(self, request: HttpRequest) -> bool:
        """The request has a token of the cluster."""
        return shows_key(request, self._policy, self._clock.now())

    def max_body_bytes(self, request: HttpRequest) -> int:
        return BULK_PEER_BYTES if self.shows_key(request) else ENTITY_REQUEST_BYTES

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        return text_response(413, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            now = self._clock.now()
            widest_grant(request, self._policy, now)
            caller = ForwardedCaller(request, now, self._actors)
            return await self._answer(request, caller)
        except ServiceBusError as error:
            return json_refusal(error)

    async def _answer(
        self, request: HttpRequest, caller: ForwardedCaller
    ) -> HttpResponse:
        name = request.path.removeprefix(PREFIX)
        if name == "browse":
            return await self._bulk.browse_here(request, caller)
        if name == "append":
            entities, messages = await decode_append(request.body)
            found = await self._share.append(caller, entities, messages)
            return json_response(share_json.shown_append(found))
        answer = self._requests.get(name)
        if answer is None:
            # The other broker may be of a later version.
            raise NotSupported(f"This broker has no request '{name[:60]}'.")
        return json_response(
            await answer(read_object(request.body, "The body"), caller)
        )

    async def _runtime(self, asked: Json, caller: ForwardedCaller) -> Any:
        wanted = [FragmentsOf(**one) for one in asked["requests"]]
        found = await self._share.runtime(caller, wanted)
        return [one and asdict(one) for one in found]

    async def _check_leases(self, asked: Json, caller: ForwardedCaller) -> Any:
        checks = await self._share.check_leases(
            caller, asked["reader"], _lease_requests(asked)
        )
        return [asdict(check) for check in checks]

    async def _lease(self, asked: Json, caller: ForwardedCaller) -> Any:
        reader, duration_ms = asked["reader"], asked["duration_ms"]
        wanted = _lease_requests(asked)
        grants = await self._share.lease(caller, reader, duration_ms, wanted)
        return [asdict(grant) for grant in grants]

    async def _release(self, asked: Json, caller: ForwardedCaller) -> Any:
        held = _lease_requests(asked)
        return await self._share.release(caller, asked["reader"], held)

    async def _hold(self, asked: Json, caller: ForwardedCaller) -> Any:
        wanted = [HoldRequest(**one) for one in asked["requests"]]
        return asdict(await self._share.hold(caller, asked["reader"], wanted))

    async def _outlines(self, asked: Json, caller: ForwardedCaller) -> Any:
        found = await self._share.outlines(caller, OutlinesRequest(**asked))
        return share_json.shown_outlines(found)

    async def _note_plans(self, asked: Json, caller: ForwardedCaller) -> Any:
        notes = [share_json.plan_note(one) for one in asked["requests"]]
        await self._share.note_plans(caller, asked["reader"], notes)

    async def _restore_plans(self, asked: Json, caller: ForwardedCaller) -> Any:
        notes = [share_json.plan_note(one) for one in asked["requests"]]
        await self._share.restore_plans(caller, asked["reader"], notes)

    async def _check_settlements(self, asked: Json, caller: ForwardedCaller) -> Any:
        wanted = [share_json.settle_request(one) for one in asked["requests"]]
        await self._share.check_settlements(caller, asked["reader"], wanted)

    async def _settle(self, asked: Json, caller: ForwardedCaller) -> Any:
        wanted = [share_json.settle_request(one) for one in asked["requests"]]
        settled = await self._share.settle(caller, asked["reader"], wanted)
        return [asdict(one) for one in settled]


def _lease_requests(asked: Json) -> list[LeaseRequest]:
    return [LeaseRequest(**one) for one in asked["requests"]]
