"""Management requests about fragments that other brokers have.

A request goes on to the broker that has all it names. One that names fragments of
several brokers is split: what is here is done here, the rest is asked from the others,
and the answers are joined. Settlements of several brokers are checked by all before any
is applied.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from twinbus.amqp.messaging import AmqpValue, Message, decode_message
from twinbus.amqp.types import AmqpArray, Int
from twinbus.broker.message_lock import token_fragment
from twinbus.broker.row_id import SEQUENCE_BITS
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
    NotAllowed,
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
from twinbus.peers.peer_properties import FRAGMENT
from twinbus.peers.peers import Peers

_PREFIX: Final = "com.microsoft:"
_NO_MESSAGES: Final = 204

_UUID: Final = 0x98
_LONG: Final = 0x81
_TIMESTAMP: Final = 0x83
_STRING: Final = 0xB1

HERE: Final = ""
"""Stands for the address of this broker."""

Serve = Callable[[Request, int | None], Awaitable[Response]]
"""Does a request here: with all fragments, or with one of them only."""

IndexOfMessage = Callable[[bytes], int | None]
"""The fragment of an encoded message; None if any may have it."""


class RemoteRequests:
    """Requests about one entity, some of whose fragments are at other brokers."""

    def __init__(
        self,
        peers: Peers,
        entity: Entity,
        address: str,
        serve: Serve,
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
        if request.transaction is not None:
            raise NotAllowed(
                f"'{self._entity.path}' is served by another broker of this bus, where "
                "this transaction cannot reach it. Do it outside of the transaction.",
                entity_path=self._entity.path,
            )
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
        self, address: str, request: Request, index: int | None = None
    ) -> Response:
        if address == HERE:
            return await self._serve(request, index)
        return await self._ask(address, request, index)

    async def _ask(
        self, address: str, request: Request, index: int | None = None
    ) -> Response:
        """Ask another broker. Raises its error."""
        properties = {**request.properties, "operation": request.operation}
        properties.pop(FRAGMENT, None)
        if index is not None:
            properties[FRAGMENT] = Int(index)
        message = Message(
            application_properties=properties, body=AmqpValue(request.value)
        )
        answer = await self._peers.request(address, self._address, message)
        return _response(answer)

    # --- by what they name ----------------------------------------------------

    async def by_token(self, request: Request) -> Response:
        tokens = array_items(request.argument("lock-tokens"), "lock-tokens")
        places = self._places(tokens, _index_of_token)
        if len(places) == 1:
            return await self._at(next(iter(places)), request)
        renewal = replace(request, operation=_PREFIX + "renew-lock")
        ends: dict[object, object] = {}
        # To renew a lock is also the check that it is held.
        for address, found in places.items():
            response = await self._at(address, _with_tokens(renewal, found))
            ends.update(zip(found, _items(response, "expirations"), strict=False))
        if request.operation.removeprefix(_PREFIX) == "renew-lock":
            values = [ends[token] for token in dict.fromkeys(tokens)]
            return Response(value={"expirations": AmqpArray(_TIMESTAMP, values)})
        for address, found in places.items():
            await self._at(address, _with_tokens(request, found))
        return Response()

    async def by_number(self, request: Request) -> Response:
        name = "sequence-numbers"
        numbers = array_items(request.argument(name), name)
        places = self._places(numbers, lambda number: int(number) >> SEQUENCE_BITS)
        found: list[object] = []
        response = Response()
        for address, some in places.items():
            value = {**_values(request), name: AmqpArray(_LONG, some)}
            response = await self._at(address, replace(request, value=value))
            found += _items(response, "messages")
        return Response(value={"messages": found}) if found else response

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
        numbers: list[object] = [None] * len(entries)
        for (address, index), positions in places.items():
            value = {"messages": [entries[at] for at in positions]}
            part = replace(request, value=value)
            response = await self._at(address, part, index)
            given = _items(response, "sequence-numbers")
            for at, number in zip(positions, given, strict=False):
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
        places = [self._where(index) for index in range(self._entity.fragment_count)]
        removed = 0
        for index, address in enumerate(places):
            if removed < count:
                value = {**_values(request), name: Int(count - removed)}
                part = replace(request, value=value)
                response = await self._at(address, part, index)
                removed += int(_values(response).get(name, 0))
        status = 200 if removed else _NO_MESSAGES
        return Response(status=status, value={name: Int(removed)})

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
    if not 200 <= status < 300:
        condition = str(properties.get("errorCondition", "amqp:internal-error"))
        raise from_condition(condition, description)
    body = answer.body
    value = body.value if isinstance(body, AmqpValue) else {}
    return Response(status=status, description=description, value=value)
