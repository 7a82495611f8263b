"""Messages of the crash tests: identified by their message id, read as the auditor
needs.

`$management` shows every message of a queue without changing it; the auditor counts
with it.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from crash.ledger import Found, Place
from twinbus.amqp.messaging import (
    AmqpMap,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import AmqpArray, Int, Symbol, Timestamp, UInt
from twinbus.client import ClientConnection, RequestFailed

DEAD_LETTERS = "/$DeadLetterQueue"

_PLACES = (Place.ACTIVE, Place.DEFERRED, Place.SCHEDULED)
_LONG, _UUID = 0x81, 0x98
_PAGE = 250


def named(name: str, size: int = 20, *, due_at: int = 0) -> bytes:
    """An encoded message of that name; `due_at` schedules it."""
    due: AmqpMap = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(due_at)}
    return encode_message(
        Message(
            message_annotations=due if due_at else None,
            properties=Properties(message_id=name),
            body=Data((bytes(size),)),
        )
    )


def batch_of(messages: Iterable[bytes]) -> bytes:
    """The envelope of a batch."""
    return encode_message(Message(body=Data(tuple(messages))))


def found(payload: bytes, *, is_dead_letter: bool = False) -> Found:
    """What a delivered or peeked message says of itself."""
    message = decode_message(payload)
    properties = message.properties or Properties()
    annotations: dict[Any, Any] = message.message_annotations or {}
    header = message.header or Header()
    place = _PLACES[annotations.get("x-opt-message-state", 0)]
    return Found(
        name=str(properties.message_id),
        place=Place.DEAD_LETTERED if is_dead_letter else place,
        number=annotations["x-opt-sequence-number"],
        delivery_count=header.delivery_count or 0,
    )


async def manage(
    connection: ClientConnection, entity: str, operation: str, body: dict[str, Any]
) -> dict[str, Any]:
    """One management operation; raises RequestFailed."""
    response = await connection.request(
        f"{entity}/$management",
        Message(
            application_properties={"operation": f"com.microsoft:{operation}"},
            body=AmqpValue(body),
        ),
    )
    answer: dict[Any, Any] = response.application_properties or {}
    status = answer["statusCode"]
    if not 200 <= status < 300:
        raise RequestFailed(status, str(answer.get("errorCondition")))
    assert isinstance(response.body, AmqpValue)
    value: Any = response.body.value
    return value if isinstance(value, dict) else {}


async def peek_all(connection: ClientConnection, entity: str) -> list[Found]:
    """Every message of a queue, in the order of its numbers."""
    everything: list[Found] = []
    start = 0
    while True:
        body = {"from-sequence-number": start, "message-count": Int(_PAGE)}
        answer = await manage(connection, entity, "peek-message", body)
        page = [
            found(entry["message"], is_dead_letter=entity.endswith(DEAD_LETTERS))
            for entry in answer.get("messages", [])
        ]
        if not page:
            return everything
        everything += page
        start = page[-1].number + 1


async def schedule(
    connection: ClientConnection, entity: str, messages: Iterable[bytes]
) -> list[int]:
    """Schedule messages; returns their numbers."""
    entries = [{"message": message} for message in messages]
    answer = await manage(connection, entity, "schedule-message", {"messages": entries})
    return list(answer["sequence-numbers"].items)


async def cancel(connection: ClientConnection, entity: str, numbers: list[int]) -> None:
    body = {"sequence-numbers": AmqpArray(_LONG, list(numbers))}
    await manage(connection, entity, "cancel-scheduled-message", body)


async def receive_deferred(
    connection: ClientConnection, entity: str, number: int
) -> UUID:
    """Lock a deferred message; returns its lock token."""
    body = {
        "sequence-numbers": AmqpArray(_LONG, [number]),
        "receiver-settle-mode": UInt(1),
    }
    answer = await manage(connection, entity, "receive-by-sequence-number", body)
    token: UUID = answer["messages"][0]["lock-token"]
    return token


async def complete_by_token(
    connection: ClientConnection, entity: str, token: UUID
) -> None:
    """Settle by lock token; raises RequestFailed, 410 for a lost lock."""
    body = {
        "disposition-status": "completed",
        "lock-tokens": AmqpArray(_UUID, [token]),
    }
    await manage(connection, entity, "update-disposition", body)
