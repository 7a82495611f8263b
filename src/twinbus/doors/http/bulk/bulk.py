"""The bulk requests: checks the token, reads the request, writes the answer.

    GET  /$bulk           supported requests and limits
    POST /$bulk/runtime   bounds and counts of entities
    POST /$bulk/lease     take, renew or release reader leases
    POST /$bulk/plan      plan which messages a reader reads next
    POST /$bulk/browse    read a range of messages, as Arrow
    POST /$bulk/settle    settle planned messages
    POST /$bulk/append    send messages, as Arrow

Tokens are those of the administration, with Listen on each entity that is read and Send
on each entity that is written. A strict bus does not have these requests.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.http.bulk import arrow
from twinbus.doors.http.bulk.append_body import decode_append
from twinbus.doors.http.bulk.fields import Fields, read_fields
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.bulk.remote_share import LONG_SECONDS, AskBroker
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.json_response import (
    json_refusal,
    json_response,
    json_text,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import (
    ArgumentError,
    AuthenticationFailed,
    MessagingEntityNotFound,
    NotSupported,
    ServiceBusError,
)
from twinbus.limits import (
    BULK_ANSWERS,
    BULK_APPEND_BYTES,
    BULK_APPEND_ROWS,
    BULK_BROWSE_BYTES,
    BULK_ENTITIES,
    BULK_NUMBERS,
    BULK_PLAN_BYTES,
    BULK_PLAN_MESSAGES,
    BULK_REQUEST_BYTES,
    BULK_SESSIONS,
    DEAD_LETTER_TEXT_CHARACTERS,
    ENTITY_PATH_CHARACTERS,
    ENTITY_REQUEST_BYTES,
    MESSAGE_ID_CHARACTERS,
    READER_CHARACTERS,
    READER_LEASE_MS_MAX,
    READER_LEASE_MS_MIN,
)
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.bulk.requests import (
    BrowseRequest,
    EntityRuntime,
    LeaseRequest,
    PlanLimits,
    PlannedFragment,
    PlanRequest,
    Poison,
    RefusedRow,
    SettleRequest,
)
from twinbus.operations.caller import Caller

T = TypeVar("T")

PREFIX: Final = "$bulk"
VERSION: Final = 1

_MAX_NUMBER: Final = (1 << 63) - 1
_PATH_CHARACTERS: Final = 2 * ENTITY_PATH_CHARACTERS
_WITHOUT_ARROW: Final = ("runtime", "lease", "plan", "settle")
_WITH_ARROW: Final = ("browse", "append")
_STATES: Final = ("active", "deferred", "scheduled")
_SPLIT_MESSAGES: Final = 5_000
_CHECKS: Final = 100
"""Entities or rows that are processed before other tasks run."""

_NEXT: Final = "x-twinbus-next"
_COUNT: Final = "x-twinbus-messages"


class Bulk:
    """Answers the bulk requests for one namespace."""

    def __init__(
        self,
        entities: BulkEntities,
        clock: Clock,
        held: HeldBytes,
        make_caller: Callable[[HttpRequest, Policy, int, Actors], HttpCaller] = (
            HttpCaller
        ),
    ) -> None:
        self.entities = entities
        self._clock = clock
        self._held = held
        self._make_caller = make_caller
        self._turns = asyncio.Semaphore(BULK_ANSWERS)
        # Answers of other brokers that are passed on.
        self._relayed_turns = asyncio.Semaphore(BULK_ANSWERS)
        # Asks another broker; set when this process joins a cluster.
        self.relay: AskBroker = _no_broker
        self._actors = Actors()
        self._requests: dict[
            str, Callable[[HttpRequest, HttpCaller], Awaitable[HttpResponse]]
        ] = {
            "runtime": self._runtime,
            "lease": self._lease,
            "plan": self._plan,
            "browse": self._browse,
            "settle": self._settle,
            "append": self._append,
        }

    def max_body_bytes(self, request: HttpRequest) -> int:
        """Without a valid token, the limit is that of other requests."""
        try:
            self._caller(request)
        except AuthenticationFailed:
            return ENTITY_REQUEST_BYTES
        is_append = request.path == f"{PREFIX}/append"
        return BULK_APPEND_BYTES if is_append else BULK_REQUEST_BYTES

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        """The response to a request with a larger body. Who has no valid token must not
        learn from the limit whether it is valid."""
        try:
            self._caller(request)
        except AuthenticationFailed as error:
            return json_refusal(error)
        return text_response(413, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._answer(request)
        except ServiceBusError as error:
            return json_refusal(error)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        # First: a client without a valid token must not learn which requests exist.
        caller = self._caller(request)
        name = request.path.removeprefix(PREFIX).strip("/")
        if not name:
            return _offer(request, self.entities)
        answer = self._requests.get(name)
        if answer is None:
            known = ", ".join(self._requests)
            raise MessagingEntityNotFound(
                f"There is no bulk request '{name[:60]}'; there are {known}."
            )
        if request.method != "POST":
            return json_refusal(ArgumentError("Use POST."), status=405)
        if name in _WITH_ARROW and not arrow.is_available():
            raise NotSupported(
                f"'{name}' needs pyarrow, which this server does not have: install "
                "'twinbus[spark]' there."
            )
        return await answer(request, caller)

    def _caller(self, request: HttpRequest) -> HttpCaller:
        """Raises AuthenticationFailed."""
        return self._make_caller(
            request, self.entities.policy, self._clock.now(), self._actors
        )

    # --- requests -------------------------------------------------------------

    async def _runtime(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        fields = read_fields(request.body)
        fields.only("entities", "pattern")
        paths = fields.texts("entities", BULK_ENTITIES, _PATH_CHARACTERS)
        pattern = fields.optional_text("pattern", _PATH_CHARACTERS)
        if pattern is not None:
            named = {path.strip("/").lower() for path in paths}
            paths += [
                path
                for path in await self._readable(caller, pattern)
                if path.lower() not in named
            ]
        found = await self.entities.runtime(caller, paths)
        missing = [p for p, runtime in zip(paths, found, strict=True) if not runtime]
        there = [runtime for runtime in found if runtime is not None]
        return _joined_response(
            entities=await _json_list(there, _shown_runtime), missing=json_text(missing)
        )

    async def _readable(self, caller: HttpCaller, pattern: str) -> list[str]:
        """Paths that match the pattern and that the token may listen to."""
        fitting = self.entities.matching(pattern)
        found: list[str] = []
        for first in range(0, len(fitting), _CHECKS):
            found += [
                path
                for path in fitting[first : first + _CHECKS]
                if caller.holds(Claim.LISTEN, path)
            ]
            await asyncio.sleep(0)
        return found

    async def _lease(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        fields = read_fields(request.body)
        fields.only("reader", "duration_ms", "entities", "release")
        reader = fields.text("reader", READER_CHARACTERS)
        wanted = []
        for entity in fields.objects("entities", BULK_ENTITIES):
            entity.only("path", "epoch")
            path = entity.text("path", _PATH_CHARACTERS)
            epoch = entity.optional_text("epoch", READER_CHARACTERS)
            wanted.append(LeaseRequest(path=path, epoch=epoch))
        if fields.flag("release"):
            released = await self.entities.release(caller, reader, wanted)
            return json_response({"released": released})
        duration_ms = fields.number(
            "duration_ms", READER_LEASE_MS_MIN, READER_LEASE_MS_MAX
        )
        grants = await self.entities.lease(caller, reader, duration_ms, wanted)
        return json_response({"leases": [asdict(grant) for grant in grants]})

    async def _plan(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        fields = read_fields(request.body)
        fields.only(
            *("reader", "entities", "max_messages", "max_bytes", "split_messages"),
            "aligned",
        )
        reader = fields.optional_text("reader", READER_CHARACTERS) or ""
        limits = PlanLimits(
            max_messages=fields.number(
                "max_messages", 1, BULK_PLAN_MESSAGES, BULK_PLAN_MESSAGES
            ),
            max_bytes=fields.number("max_bytes", 1, BULK_PLAN_BYTES, BULK_PLAN_BYTES),
            split_messages=fields.number(
                "split_messages", 1, BULK_PLAN_MESSAGES, _SPLIT_MESSAGES
            ),
            is_aligned=fields.flag("aligned"),
        )
        wanted = [
            _plan_request(entity)
            for entity in fields.objects("entities", BULK_ENTITIES)
        ]
        planned = await self.entities.plan(caller, reader, wanted, limits)
        return json_response({"fragments": [_shown_plan(part) for part in planned]})

    async def _browse(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        wanted, _ = _browse_request(request.body)
        address = self.entities.elsewhere(caller, wanted.path, wanted.index)
        if address is None:
            return await self.browse_here(request, caller)
        # Not among the turns: two brokers would wait for each other's.
        async with self._relayed_turns:
            self._held.check(wanted.path)
            return await self.relay(
                address, "browse", request.body, caller, LONG_SECONDS
            )

    async def browse_here(self, request: HttpRequest, caller: Caller) -> HttpResponse:
        """Browse a fragment that this broker has. Raises ServiceBusError."""
        wanted, columns = _browse_request(request.body)
        stream = arrow.MessageStream(columns, _constants(wanted.path, wanted.index))
        count, following = 0, wanted.first
        async with self._turns:
            self._held.check(wanted.path)
            async for portion in self.entities.browse(caller, wanted):
                stream.add(portion.columns, portion.count)
                count, following = count + portion.count, portion.next
        return HttpResponse(
            status=200,
            body=stream.finish(),
            headers={
                "content-type": arrow.CONTENT_TYPE,
                _NEXT: str(following),
                _COUNT: str(count),
            },
        )

    async def _settle(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        fields = read_fields(request.body)
        fields.only("reader", "entities")
        reader = fields.text("reader", READER_CHARACTERS)
        caller.name = f"bulk {reader}"
        wanted = [
            _settle_request(entity)
            for entity in fields.objects("entities", BULK_ENTITIES)
        ]
        settled = await self.entities.settle(caller, reader, wanted)
        return json_response({"entities": [asdict(part) for part in settled]})

    async def _append(self, request: HttpRequest, caller: HttpCaller) -> HttpResponse:
        entities, messages = await decode_append(request.body)
        paths = set(entities)
        if len(paths) > BULK_ENTITIES:
            raise ArgumentError(
                f"The append is for {len(paths)} entities; at most {BULK_ENTITIES} "
                "are allowed. Send it in several requests."
            )
        caller.name = "bulk append"
        appended = await self.entities.append(
            caller, [path.strip("/") for path in entities], messages
        )
        return _joined_response(
            applied=json_text(appended.applied_count),
            known=json_text(appended.known),
            refused=await _json_list(appended.refused, _shown_refusal),
        )


async def _no_broker(
    address: str, name: str, body: bytes, caller: HttpCaller, timeout_seconds: float
) -> HttpResponse:
    raise AssertionError("there is no other broker")


def _offer(request: HttpRequest, entities: BulkEntities) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return json_refusal(ArgumentError("Use GET."), status=405)
    names = _WITHOUT_ARROW + (_WITH_ARROW if arrow.is_available() else ())
    return json_response(
        {
            "server": "twinbus",
            "version": VERSION,
            "namespace": {
                "name": entities.namespace_name,
                "created_at": entities.namespace_created_at,
            },
            "requests": sorted(names),
            "limits": {
                "browse_bytes": BULK_BROWSE_BYTES,
                "append_bytes": BULK_APPEND_BYTES,
                "append_rows": BULK_APPEND_ROWS,
                "entities": BULK_ENTITIES,
                "lease_ms": [READER_LEASE_MS_MIN, READER_LEASE_MS_MAX],
                "numbers": BULK_NUMBERS,
                "plan_messages": BULK_PLAN_MESSAGES,
                "plan_bytes": BULK_PLAN_BYTES,
                "request_bytes": BULK_REQUEST_BYTES,
            },
        }
    )


def _browse_request(body: bytes) -> tuple[BrowseRequest, list[str]]:
    """The request, and the columns of the answer."""
    fields = read_fields(body)
    fields.only(
        *("path", "generation", "fragment", "from", "to", "columns", "states"),
        *("max_bytes", "sessions"),
    )
    columns = _columns(fields.texts("columns", len(arrow.TYPES), 40))
    states = fields.texts("states", len(_STATES), 20) or ["active"]
    wanted = BrowseRequest(
        path=fields.text("path", _PATH_CHARACTERS),
        generation=fields.text("generation", READER_CHARACTERS),
        index=fields.number("fragment", 0, 65_535, 0),
        first=fields.number("from", 0, _MAX_NUMBER),
        end=fields.number("to", 0, _MAX_NUMBER),
        columns=[name for name in columns if name not in arrow.CONSTANT],
        states=frozenset(_state(name) for name in states),
        max_bytes=fields.number("max_bytes", 1, BULK_BROWSE_BYTES, BULK_BROWSE_BYTES),
        sessions=frozenset(
            fields.texts("sessions", BULK_SESSIONS, MESSAGE_ID_CHARACTERS)
        ),
    )
    return wanted, columns


def _plan_request(fields: Fields) -> PlanRequest:
    fields.only(*("path", "generation", "epoch", "from", "to", "from_time", "to_time"))
    path = fields.text("path", _PATH_CHARACTERS)
    return PlanRequest(
        path=path,
        generation=fields.text("generation", READER_CHARACTERS),
        epoch=fields.optional_text("epoch", READER_CHARACTERS),
        firsts=fields.positions("from", _MAX_NUMBER),
        ends=fields.positions("to", _MAX_NUMBER),
        first_time=fields.optional_number("from_time", 0, _MAX_NUMBER),
        end_time=fields.optional_number("to_time", 0, _MAX_NUMBER),
    )


def _settle_request(fields: Fields) -> SettleRequest:
    fields.only("path", "epoch", "to", "dead_letter", "defer", "complete")
    path = fields.text("path", _PATH_CHARACTERS)
    return SettleRequest(
        path=path,
        epoch=fields.text("epoch", READER_CHARACTERS),
        dead_letter=[
            _poison(item) for item in fields.objects("dead_letter", BULK_NUMBERS)
        ],
        defer=fields.numbers("defer", BULK_NUMBERS, _MAX_NUMBER),
        complete=fields.numbers("complete", BULK_NUMBERS, _MAX_NUMBER),
        ends=fields.positions("to", _MAX_NUMBER),
    )


def _columns(names: list[str]) -> list[str]:
    """The wanted columns; if none is named, all but `raw`."""
    if not names:
        return [name for name in arrow.TYPES if name != "raw"]
    for name in names:
        if name not in arrow.TYPES:
            known = ", ".join(arrow.TYPES)
            raise ArgumentError(f"'columns' has {name!r}; there are {known}.")
    return list(dict.fromkeys(names))


def _state(name: str) -> int:
    if name not in _STATES:
        raise ArgumentError(f"'states' has {name!r}; there are {', '.join(_STATES)}.")
    return _STATES.index(name)


def _constants(path: str, index: int) -> dict[str, object]:
    lower, path = path.strip("/").lower(), path.strip("/")
    for suffix, sub_queue in (
        ("/$transfer/$deadletterqueue", "transferdeadletter"),
        ("/$deadletterqueue", "deadletter"),
    ):
        if lower.endswith(suffix):
            entity = path[: -len(suffix)]
            return {"entity": entity, "subqueue": sub_queue, "partition": index}
    return {"entity": path, "subqueue": None, "partition": index}


def _poison(fields: Fields) -> Poison:
    fields.only("sequence_number", "reason", "description")
    texts = DEAD_LETTER_TEXT_CHARACTERS
    return Poison(
        sequence_number=fields.number("sequence_number", 0, _MAX_NUMBER),
        reason=fields.prose("reason", texts),
        description=fields.prose("description", texts),
    )


def _shown_runtime(runtime: EntityRuntime) -> dict[str, Any]:
    shown = asdict(runtime)
    for fragment in shown["fragments"]:
        # The fragment of a conventional entity needs no name for its store.
        if fragment["store"] is None:
            del fragment["store"]
    return shown


def _shown_plan(part: PlannedFragment) -> dict[str, Any]:
    return {
        "path": part.path,
        "fragment": part.index,
        "from": part.first,
        "to": part.end,
        "messages": sum(split.message_count for split in part.splits),
        "bytes": sum(split.size_bytes for split in part.splits),
        "splits": [
            [split.first, split.end, split.message_count, split.size_bytes]
            for split in part.splits
        ],
    }


def _shown_refusal(refused: RefusedRow) -> dict[str, Any]:
    return {
        "row": refused.row,
        "condition": refused.condition,
        "message": refused.text,
        "retryable": refused.is_retryable,
    }


async def _json_list(items: Sequence[T], show: Callable[[T], dict[str, Any]]) -> str:
    """Encode a list that may be long; other tasks run in between."""
    texts: list[str] = []
    for first in range(0, len(items), _CHECKS):
        texts += [json_text(show(item)) for item in items[first : first + _CHECKS]]
        await asyncio.sleep(0)
    return f"[{','.join(texts)}]"


def _joined_response(**members: str) -> HttpResponse:
    """A JSON object whose members are already encoded."""
    texts = [f"{json_text(name)}:{text}" for name, text in members.items()]
    return HttpResponse(
        status=200,
        body=f"{{{','.join(texts)}}}".encode(),
        headers={"content-type": "application/json"},
    )
