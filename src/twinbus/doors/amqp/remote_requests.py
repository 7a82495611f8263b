"""Management requests about fragments that other brokers have.

A request goes on to the broker that has all it names. One that names fragments of
several brokers is split: what is here is done here, the rest is asked from the others,
and the answers are joined. What changes something is checked by all of them before any
of them does it.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from twinbus.amqp.messaging import AmqpValue, Message, decode_message
from twinbus.amqp.types import AmqpArray, Int
from twinbus.broker.message_lock import token_fragment
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.doors.amqp.remote_enlistment import IndexOfMessage
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import (
    MAX_INT,
    MAX_LONG,
    array_items,
    integer,
    session_of,
)
from twinbus.entities.entity import Entity
from twinbus.errors import (
    FragmentUnavailable,
    ServerBusy,
    SessionNotFound,
    from_condition,
)
from twinbus.limits import (
    BATCH_DELETE_COUNT,
    PEEK_BYTES,
    PEEK_COUNT,
    SESSION_IDS_PER_REQUEST,
)
from twinbus.peers.peer_properties import FRAGMENT, IS_CHECK
from twinbus.peers.peers import Peers

_PREFIX: Final = "com.microsoft:"
_NO_MESSAGES: Final = 204

_UUID: Final = 0x98
_LONG: Final = 0x81
_TIMESTAMP: Final = 0x83
_STRING: Final = 0xB1

HERE: Final = ""
"""Stands for the address of this broker."""


ServeOrCheck = Callable[[Request, int | None, bool], Awaitable[Response]]
"""Does a request here, or checks it: with all fragments, or with one of them only."""

_Part = tuple[str, Request, int | None]
"""Where a part of a request goes, the part, and the fragment if it is for one only."""


class RemoteRequests:
    """Requests about one entity, some of whose fragments are at other brokers."""

    def __init__(
        self,
        peers: Peers,
        entity: Entity,
        address: str,
        serve: ServeOrCheck,
        index_of_message: IndexOfMessage,
    ) -> None:
        """`address` is that of the node."""
        self._peers = peers
        self._entity = entity
        self._address = address
        self._serve = serve
        self._index_of_message = index_of_message

    async def answer(self, request: Request) -> Response:
        """Raises ServiceBusError, also those of other brokers."""
        sole = self._peers.sole_owner(self._entity.homes())
        if sole is not None:
            return await self._ask(sole, request)
        name = request.operation.removeprefix(_PREFIX)
        session_id = session_of(request)
        if session_id is not None and name != "get-message-sessions":
            index = self._entity.routing().index_of(session_id)
            return await self._at(self._where(index), request)
        split = _SPLIT.get(name)
        if split is not None:
            return await split(self, request)
        # Rules of a partitioned subscription are in the catalog: any broker has them.
        return await self._at(self._any_broker(), request)

    # --- places ---------------------------------------------------------------

    def _where(self, index: int) -> str:
        """The address of the broker that has a fragment. Raises FragmentUnavailable."""
        if not 0 <= index < self._entity.fragment_count:
            # Nobody issued this number: any broker says so.
            return self._any_broker()
        home = self._entity.home(index)
        address = HERE if home.is_serving else self._peers.address_of(home)
        if address is None:
            raise FragmentUnavailable.numbered(index, self._entity.path)
        return address

    def _any_broker(self) -> str:
        homes = self._entity.homes()
        if any(home.is_serving for home in homes):
            return HERE
        for home in homes:
            address = self._peers.address_of(home)
            if address is not None:
                return address
        raise FragmentUnavailable.none_left(self._entity.path)

    async def _at(
        self,
        address: str,
        request: Request,
        index: int | None = None,
        is_check: bool = False,
    ) -> Response:
        if address == HERE:
            return await self._serve(request, index, is_check)
        return await self._ask(address, request, index, is_check)

    async def _at_all(self, parts: Sequence[_Part]) -> list[Response]:
        """Have all parts checked, then done. Raises the first refusal; then nothing was
        done, unless a broker was lost in between."""
        if len(parts) > 1:
            for part in parts:
                await self._at(*part, is_check=True)
        return [await self._at(*part) for part in parts]

    async def _ask(
        self,
        address: str,
        request: Request,
        index: int | None = None,
        is_check: bool = False,
    ) -> Response:
        """Ask another broker. Raises its error."""
        properties = {**request.properties, "operation": request.operation}
        properties.pop(FRAGMENT, None)
        properties.pop(IS_CHECK, None)
        if index is not None:
            properties[FRAGMENT] = Int(index)
        if is_check:
            properties[IS_CHECK] = True
        message = Message(
            application_properties=properties, body=AmqpValue(request.value)
        )
        answer = await self._peers.request(address, self._address, message)
        return _response(answer)

    # --- by what they name ----------------------------------------------------

    async def by_token(self, request: Request) -> Response:
        tokens = array_items(request.argument("lock-tokens"), "lock-tokens")
        places = self._places(tokens, _index_of_token)
        responses = await self._at_all(
            [
                (address, _with_tokens(request, found), None)
                for address, found in places.items()
            ]
        )
        if request.operation.removeprefix(_PREFIX) != "renew-lock":
            return Response()
        ends: dict[object, object] = {}
        for found, response in zip(places.values(), responses, strict=True):
            ends.update(zip(found, _items(response, "expirations"), strict=False))
        values = [ends[token] for token in dict.fromkeys(tokens)]
        return Response(value={"expirations": AmqpArray(_TIMESTAMP, values)})

    async def by_number(self, request: Request) -> Response:
        name = "sequence-numbers"
        numbers = array_items(request.argument(name), name)
        places = self._places(numbers, lambda number: int(number) >> SEQUENCE_BITS)
        parts: list[_Part] = []
        for address, some in places.items():
            value = {**_values(request), name: AmqpArray(_LONG, some)}
            parts.append((address, replace(request, value=value), None))
        responses = await self._at_all(parts)
        found = [entry for one in responses for entry in _items(one, "messages")]
        if not found:
            return Response()
        # In the order in which they were asked for.
        order = {number: at for at, number in enumerate(dict.fromkeys(numbers))}
        found.sort(key=lambda entry: order[_number(entry)])
        return Response(value={"messages": found})

    def _places(
        self, items: Iterable[Any], index_of: Callable[[Any], int]
    ) -> dict[str, list[Any]]:
        places: dict[str, list[Any]] = {}
        for item in dict.fromkeys(items):
            places.setdefault(self._where(index_of(item)), []).append(item)
        return places

    async def schedule(self, request: Request) -> Response:
        entries = request.argument("messages")
        if not isinstance(entries, list):
            return await self._at(self._any_broker(), request)
        places: dict[tuple[str, int | None], list[int]] = {}
        for at, entry in enumerate(entries):
            raw = entry.get("message") if isinstance(entry, dict) else None
            index = self._index_of_message(raw) if isinstance(raw, bytes) else None
            where = self._any_broker() if index is None else self._where(index)
            places.setdefault((where, index), []).append(at)
        responses = await self._at_all(
            [
                (
                    address,
                    replace(request, value={"messages": [entries[at] for at in some]}),
                    index,
                )
                for (address, index), some in places.items()
            ]
        )
        numbers: list[object] = [None] * len(entries)
        for some, response in zip(places.values(), responses, strict=True):
            given = _items(response, "sequence-numbers")
            for at, number in zip(some, given, strict=False):
                numbers[at] = number
        return Response(value={"sequence-numbers": AmqpArray(_LONG, numbers)})

    # --- all fragments, one after the other -----------------------------------

    async def peek(self, request: Request) -> Response:
        name = "from-sequence-number"
        start = integer(request.argument(name), name, -MAX_LONG - 1, MAX_LONG)
        count = integer(request.argument("message-count"), "message-count", 1, MAX_INT)
        found: list[Any] = []
        first = max(start, 0)
        while first >> SEQUENCE_BITS < self._entity.fragment_count:
            index = first >> SEQUENCE_BITS
            value = {name: first, "message-count": Int(count - len(found))}
            part = replace(request, value=value)
            try:
                response = await self._at(self._where(index), part, index)
            except ServerBusy:
                if found:
                    break
                raise
            page = _items(response, "messages")
            found += page
            if _is_full(found, count):
                break
            # A page may end before the fragment does.
            first = _number(page[-1]) + 1 if page else index + 1 << SEQUENCE_BITS
        if not found:
            return Response(status=_NO_MESSAGES, description="No messages.")
        return Response(value={"messages": found})

    async def delete(self, request: Request) -> Response:
        name = "message-count"
        count = integer(request.argument(name), name, 1, BATCH_DELETE_COUNT)
        places = self._of_each_fragment(request)
        for place in places:
            await self._at(*place, is_check=True)
        removed = 0
        for address, _, index in places:
            if removed < count:
                value = {**_values(request), name: Int(count - removed)}
                part = replace(request, value=value)
                response = await self._at(address, part, index)
                removed += int(_values(response).get(name, 0))
        status = 200 if removed else _NO_MESSAGES
        return Response(status=status, value={name: Int(removed)})

    async def cancel_sent(self, request: Request) -> Response:
        """A message may be in any fragment."""
        responses = await self._at_all(self._of_each_fragment(request))
        cancelled = [_items(response, "cancelled") for response in responses]
        return Response(
            value={"cancelled": [any(one) for one in zip(*cancelled, strict=True)]}
        )

    def _of_each_fragment(self, request: Request) -> list[_Part]:
        """Raises FragmentUnavailable."""
        indexes = range(self._entity.fragment_count)
        return [(self._where(index), request, index) for index in indexes]

    async def sessions(self, request: Request) -> Response:
        skip = integer(request.argument("skip"), "skip", 0, MAX_INT)
        top = integer(request.argument("top"), "top", 1, MAX_INT)
        top = min(top, SESSION_IDS_PER_REQUEST)
        found: list[object] = []
        for index in range(self._entity.fragment_count):
            found += await self._sessions_in(index, request, skip + top - len(found))
            if len(found) >= skip + top:
                break
        page = found[skip : skip + top]
        if not page:
            raise SessionNotFound(entity_path=self._entity.path)
        ids = AmqpArray(_STRING, page)
        return Response(value={"skip": Int(skip + len(page)), "sessions-ids": ids})

    async def _sessions_in(
        self, index: int, request: Request, limit: int
    ) -> list[object]:
        """The first ids of one fragment, page after page."""
        found: list[object] = []
        while len(found) < limit:
            value = {**_values(request), "skip": Int(len(found)), "top": Int(limit)}
            part = replace(request, value=value)
            try:
                response = await self._at(self._where(index), part, index)
            except SessionNotFound:
                break
            page = _items(response, "sessions-ids")
            if not page:
                break
            found += page
        return found[:limit]


_SPLIT: Final[dict[str, Callable[[RemoteRequests, Request], Awaitable[Response]]]] = {
    "renew-lock": RemoteRequests.by_token,
    "update-disposition": RemoteRequests.by_token,
    "receive-by-sequence-number": RemoteRequests.by_number,
    "cancel-scheduled-message": RemoteRequests.by_number,
    "schedule-message": RemoteRequests.schedule,
    "peek-message": RemoteRequests.peek,
    "batch-delete-messages": RemoteRequests.delete,
    "get-message-sessions": RemoteRequests.sessions,
    "twinbus:cancel-sent": RemoteRequests.cancel_sent,
    # Asked and answered as a batch delete is.
    "twinbus:resubmit": RemoteRequests.delete,
}


def _is_full(entries: list[Any], count: int) -> bool:
    """No more messages fit into an answer."""
    size_bytes = sum(len(entry["message"]) for entry in entries)
    return len(entries) >= min(count, PEEK_COUNT) or size_bytes >= PEEK_BYTES


def _number(entry: Any) -> int:
    annotations: dict[Any, Any] = (
        decode_message(entry["message"]).message_annotations or {}
    )
    return int(annotations["x-opt-sequence-number"])


def _index_of_token(token: object) -> int:
    return token_fragment(token.bytes_le) if isinstance(token, UUID) else 0


def _with_tokens(request: Request, tokens: Sequence[object]) -> Request:
    value = {**_values(request), "lock-tokens": AmqpArray(_UUID, list(tokens))}
    return replace(request, value=value)


def _values(of: Request | Response) -> dict[Any, Any]:
    return of.value if isinstance(of.value, dict) else {}


def _items(response: Response, name: str) -> list[Any]:
    found = _values(response).get(name, [])
    return list(found.items if isinstance(found, AmqpArray) else found)


def _response(answer: Message) -> Response:
    """Raises the error of the other broker."""
    properties: dict[Any, Any] = answer.application_properties or {}
    status = int(properties.get("statusCode", 500))
    description = str(properties.get("statusDescription", ""))
    condition = properties.get("errorCondition")
    # One error, that there is no session, has the status "no content".
    if condition is not None or not 200 <= status < 300:
        raise from_condition(str(condition or "amqp:internal-error"), description)
    body = answer.body
    value = body.value if isinstance(body, AmqpValue) else {}
    return Response(status=status, description=description, value=value)
