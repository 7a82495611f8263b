"""Management requests in a transaction, about fragments that other brokers have.

What such a request changes is kept as it was asked, until the discharge: the broker
that commits the transaction does it. It is checked there, too, so a mistake is told by
the discharge. A request about messages of several stores is refused, because a
transaction changes one store.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from twinbus.amqp.codec import encode
from twinbus.amqp.types import AmqpArray
from twinbus.broker.message_lock import token_fragment
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import array_items, session_of
from twinbus.entities.entity import Entity
from twinbus.errors import ArgumentError, NotAllowed
from twinbus.links.enlistment import Enlistment
from twinbus.links.remote_work import RemoteStep

REQUEST_STEP: Final = "request"
"""Of a transaction that another broker commits: address of the node, operation, body.
"""

_PREFIX: Final = "com.microsoft:"
_UUID: Final = 0x98
_LONG: Final = 0x81

Serve = Callable[[Request, int | None], Awaitable[Response]]
"""Does a request here: with all fragments, or with one of them only."""

IndexOfMessage = Callable[[bytes], int | None]
"""The fragment of an encoded message; None if any may have it."""

_Part = tuple[int, Request]
"""What is to be done in a fragment."""


class RemoteEnlistment:
    """Adds requests about one entity to transactions."""

    def __init__(
        self,
        entity: Entity,
        address: str,
        serve: Serve,
        index_of_message: IndexOfMessage,
        now: Callable[[], int],
    ) -> None:
        """`address` is that of the node."""
        self._entity = entity
        self._address = address
        self._serve = serve
        self._index_of_message = index_of_message
        self._now = now

    async def enlist(self, request: Request, transaction: Enlistment) -> Response:
        """Raises ServiceBusError."""
        response = Response()
        for index, part in self._parts(request):
            home = self._entity.home(index)
            if home.is_serving:
                response = await self._serve(part, None)
                continue
            step: list[object] = [
                *(REQUEST_STEP, self._address, part.operation, part.value)
            ]
            path, held_bytes = self._entity.path, len(encode(part.value))
            work = RemoteStep(home, path, step, held_bytes)
            transaction.enlist(work, self._now())
        return response

    def _parts(self, request: Request) -> list[_Part]:
        """Raises NotAllowed, ArgumentError."""
        name, entity = request.operation.removeprefix(_PREFIX), self._entity
        if name == "schedule-message":
            return [(self._index_to_schedule_in(request), request)]
        if not entity.is_partitioned:
            return [(0, request)]
        if name == "update-disposition":
            return self._by_fragment(request, "lock-tokens", _index_of_token, _UUID)
        if name == "cancel-scheduled-message":
            numbers = "sequence-numbers"
            return self._by_fragment(request, numbers, _index_of_number, _LONG)
        session_id = session_of(request)
        if session_id is not None:
            return [(entity.routing().index_of(session_id), request)]
        raise NotAllowed(
            f"'{entity.path}' is partitioned: its rules cannot be changed in a "
            "transaction. Change them outside of one.",
            entity_path=entity.path,
        )

    def _index_to_schedule_in(self, request: Request) -> int:
        """A fragment that is here, and tells the numbers at once. Raises NotAllowed."""
        entity, index = self._entity, 0
        entries = request.argument("messages")
        if entity.is_partitioned and isinstance(entries, list):
            for entry in entries:
                raw = entry.get("message") if isinstance(entry, dict) else None
                found = self._index_of_message(raw) if isinstance(raw, bytes) else None
                index = index if found is None else found
        if not entity.home(index).is_serving:
            raise NotAllowed(
                f"'{entity.path}' is served by another broker of this bus, and a "
                "transaction cannot schedule messages there: their numbers are told "
                "before it commits. Send messages with a scheduled enqueue time, or "
                "schedule them outside of the transaction.",
                entity_path=entity.path,
            )
        return index

    def _by_fragment(
        self,
        request: Request,
        name: str,
        index_of: Callable[[Any], int],
        array_type: int,
    ) -> list[_Part]:
        found: dict[int, list[object]] = {}
        for item in dict.fromkeys(array_items(request.argument(name), name)):
            index = index_of(item)
            if not 0 <= index < self._entity.fragment_count:
                raise ArgumentError(
                    f"'{name}' has {item}, which '{self._entity.path}' never issued.",
                    entity_path=self._entity.path,
                )
            found.setdefault(index, []).append(item)
        assert isinstance(request.value, dict)
        return [
            (index, _with(request, {name: AmqpArray(array_type, items)}))
            for index, items in found.items()
        ]


def _with(request: Request, values: dict[str, object]) -> Request:
    assert isinstance(request.value, dict)
    return replace(request, value={**request.value, **values})


def _index_of_token(token: object) -> int:
    return token_fragment(token.bytes_le) if isinstance(token, UUID) else -1


def _index_of_number(number: object) -> int:
    return number >> SEQUENCE_BITS if isinstance(number, int) else -1
