"""Another broker's share of a bulk request, asked for over HTTP."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol

from twinbus.doors.http.bulk import share_json
from twinbus.doors.http.bulk.append_body import encode_append
from twinbus.doors.http.bulk.http_caller import HttpCaller
from twinbus.doors.http.json_response import json_text
from twinbus.doors.http.response import HttpResponse
from twinbus.errors import ServerBusy, ServiceBusError, from_condition
from twinbus.operations.bulk.requests import (
    Appended,
    EntityRuntime,
    LeaseGrant,
    LeaseRequest,
    Settled,
    SettleRequest,
)
from twinbus.operations.bulk.shares import (
    FragmentsOf,
    HeldFragments,
    HoldRequest,
    LeaseCheck,
    OutlinesRequest,
    PlanNote,
    SomeOutlines,
)
from twinbus.operations.caller import Caller

QUICK_SECONDS: Final = 10.0
"""How long another broker may take for a request that does little."""

LONG_SECONDS: Final = 50.0
"""The same if it reads, sends or settles many messages. Less than Spark waits."""


class AskBroker(Protocol):
    """Posts to another broker. Raises ServerBusy if it does not answer."""

    async def __call__(
        self,
        address: str,
        name: str,
        body: bytes,
        caller: HttpCaller,
        timeout_seconds: float,
    ) -> HttpResponse: ...


class RemoteShare:
    """The share of the broker at one address (see `operations/bulk/shares.py`)."""

    def __init__(self, address: str, ask: AskBroker) -> None:
        self._address = address
        self._ask = ask

    async def _post(
        self,
        name: str,
        caller: Caller,
        content: object,
        timeout_seconds: float = QUICK_SECONDS,
    ) -> Any:
        body = json_text(content).encode()
        return await self._post_bytes(name, caller, body, timeout_seconds)

    async def _post_bytes(
        self, name: str, caller: Caller, body: bytes, timeout_seconds: float
    ) -> Any:
        """Raises the error of the other broker."""
        # Bulk requests come over HTTP alone.
        assert isinstance(caller, HttpCaller)
        answer = await self._ask(self._address, name, body, caller, timeout_seconds)
        try:
            content = json.loads(answer.body)
        except ValueError:
            # Too much is held there, which is said in plain text.
            raise ServerBusy(answer.body.decode(errors="replace").strip()) from None
        if answer.status != 200:
            raise _refusal(content["error"])
        return content

    # --- bounds and leases ----------------------------------------------------

    async def runtime(
        self, caller: Caller, wanted: Sequence[FragmentsOf]
    ) -> list[EntityRuntime | None]:
        content = {"requests": [asdict(one) for one in wanted]}
        found = await self._post("runtime", caller, content)
        return [share_json.entity_runtime(one) for one in found]

    async def check_leases(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[LeaseCheck]:
        found = await self._post("check-leases", caller, _asked(reader, requests))
        return [LeaseCheck(**one) for one in found]

    async def lease(
        self,
        caller: Caller,
        reader: str,
        duration_ms: int,
        requests: Sequence[LeaseRequest],
    ) -> list[LeaseGrant]:
        content = {**_asked(reader, requests), "duration_ms": duration_ms}
        found = await self._post("lease", caller, content)
        return [LeaseGrant(**one) for one in found]

    async def release(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[bool]:
        found = await self._post("release", caller, _asked(reader, requests))
        return list(found)

    # --- plans ----------------------------------------------------------------

    async def hold(
        self, caller: Caller, reader: str, requests: Sequence[HoldRequest]
    ) -> HeldFragments:
        found = await self._post("hold", caller, _asked(reader, requests))
        return share_json.held_fragments(found)

    async def outlines(self, caller: Caller, request: OutlinesRequest) -> SomeOutlines:
        found = await self._post("outlines", caller, asdict(request))
        return share_json.some_outlines(found)

    async def note_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        await self._post("note-plans", caller, _asked(reader, notes))

    async def restore_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        await self._post("restore-plans", caller, _asked(reader, notes))

    # --- messages -------------------------------------------------------------

    async def check_settlements(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> None:
        await self._post("check-settlements", caller, _asked(reader, requests))

    async def settle(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        content = _asked(reader, requests)
        found = await self._post("settle", caller, content, LONG_SECONDS)
        return [Settled(**one) for one in found]

    async def append(
        self, caller: Caller, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        body = encode_append(entities, messages)
        found = await self._post_bytes("append", caller, body, LONG_SECONDS)
        return share_json.appended(found)


def _asked(reader: str, requests: Sequence[Any]) -> dict[str, Any]:
    return {"reader": reader, "requests": [asdict(one) for one in requests]}


def _refusal(error: dict[str, Any]) -> ServiceBusError:
    return from_condition(
        error["condition"], error["message"], entity_path=error["entity"]
    )
