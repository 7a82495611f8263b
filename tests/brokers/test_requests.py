"""Requests that name messages of several brokers: checked by all before any of them
changes something."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest
from crash import messages

from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    encode_message,
)
from twinbus.amqp.types import AmqpArray, Int, Symbol, Timestamp, UInt
from twinbus.client import ClientConnection, RequestFailed
from twinbus.client.receiver import ClientReceiver

from . import queues_at
from .conftest import WIDE
from .processes import Brokers, until

_LONG, _UUID = 0x81, 0x98
NOBODY = (5 << 48) + 1_000_000
"""A number of a fragment that no message has."""


@asynccontextmanager
async def connected(trio: Brokers, queue: str) -> AsyncIterator[ClientConnection]:
    """A connection to one of three brokers, which share the fragments of a queue."""
    await until(lambda: queues_at.finds_all(trio, "2", queue))
    async with await trio.connect("2") as connection:
        yield connection


async def _filled(
    connection: ClientConnection, queue: str, count: int
) -> ClientReceiver:
    sender = await connection.sender(queue)
    for number in range(count):
        await sender.send(_keyed(f"m{number}"))
    return await connection.receiver(queue, credit=count)


def _keyed(name: str, due_at: int = 0, send_id: bytes = b"") -> bytes:
    annotations: dict[object, object] = {Symbol("x-opt-partition-key"): name}
    if due_at:
        annotations[Symbol("x-opt-scheduled-enqueue-time")] = Timestamp(due_at)
    if send_id:
        annotations[Symbol("x-opt-twinbus-send-id")] = send_id
    return encode_message(
        Message(
            message_annotations=annotations,
            properties=Properties(message_id=name),
            body=Data((b"x",)),
        )
    )


def _in_an_hour() -> int:
    return int(time.time() * 1000) + 3_600_000


async def test_settlement_with_one_lost_token_settles_nothing(trio: Brokers) -> None:
    queue = WIDE[0]
    async with connected(trio, queue) as connection:
        receiver = await _filled(connection, queue, 24)
        received = await queues_at.received(receiver, 24)
        tokens = [UUID(bytes_le=one.delivery_tag) for one in received]
        lost = [UUID(bytes_le=tokens[3].bytes_le[:8] + uuid4().bytes_le[8:])]
        value = {
            "lock-tokens": AmqpArray(_UUID, [*tokens, *lost]),
            "disposition-status": "completed",
        }
        with pytest.raises(RequestFailed):
            await messages.manage(connection, queue, "update-disposition", value)
        assert len(await messages.peek_all(connection, queue)) == 24
        value["lock-tokens"] = AmqpArray(_UUID, list(tokens))
        await messages.manage(connection, queue, "update-disposition", value)
        assert await messages.peek_all(connection, queue) == []


async def test_deferred_messages_are_received_all_or_none(trio: Brokers) -> None:
    queue = WIDE[1]
    async with connected(trio, queue) as connection:
        receiver = await _filled(connection, queue, 24)
        received = await queues_at.received(receiver, 24)
        tokens = [UUID(bytes_le=one.delivery_tag) for one in received]
        value = {
            "lock-tokens": AmqpArray(_UUID, list(tokens)),
            "disposition-status": "defered",
        }
        await messages.manage(connection, queue, "update-disposition", value)
        numbers = [messages.found(one.payload).number for one in received]
        # With receive-and-delete, what the first broker gave would be gone.
        asked = {"receiver-settle-mode": UInt(0)}
        for wrong in ([*numbers, NOBODY], [NOBODY, *numbers]):
            asked["sequence-numbers"] = AmqpArray(_LONG, list(wrong))
            with pytest.raises(RequestFailed):
                await messages.manage(
                    connection, queue, "receive-by-sequence-number", asked
                )
            assert len(await messages.peek_all(connection, queue)) == 24
        asked["sequence-numbers"] = AmqpArray(_LONG, list(numbers))
        got = await messages.manage(
            connection, queue, "receive-by-sequence-number", asked
        )
        found = [messages.found(one["message"]).number for one in got["messages"]]
        assert found == numbers
        assert await messages.peek_all(connection, queue) == []


async def test_scheduled_messages_are_cancelled_all_or_none(trio: Brokers) -> None:
    queue = WIDE[2]
    async with connected(trio, queue) as connection:
        due = _in_an_hour()
        later = [_keyed(f"l{number}", due) for number in range(24)]
        entries = [{"message": raw, "message-id": "x"} for raw in later]
        scheduled = await messages.manage(
            connection, queue, "schedule-message", {"messages": entries}
        )
        numbers = list(scheduled["sequence-numbers"].items)
        assert len({number >> 48 for number in numbers}) > 3
        wrong = {"sequence-numbers": AmqpArray(_LONG, [*numbers, NOBODY])}
        with pytest.raises(RequestFailed):
            await messages.manage(connection, queue, "cancel-scheduled-message", wrong)
        assert len(await messages.peek_all(connection, queue)) == 24
        right = {"sequence-numbers": AmqpArray(_LONG, numbers)}
        await messages.manage(connection, queue, "cancel-scheduled-message", right)
        assert await messages.peek_all(connection, queue) == []


async def test_one_bad_message_keeps_all_from_being_scheduled(trio: Brokers) -> None:
    queue = WIDE[3]
    async with connected(trio, queue) as connection:
        due = _in_an_hour()
        later = [_keyed(f"l{number}", due) for number in range(24)]
        entries = [{"message": raw, "message-id": "x"} for raw in later]
        entries.append({"message": b"not a message", "message-id": "x"})
        with pytest.raises(RequestFailed):
            await messages.manage(
                connection, queue, "schedule-message", {"messages": entries}
            )
        assert await messages.peek_all(connection, queue) == []


async def test_messages_are_cancelled_by_send_ids_and_deleted_everywhere(
    trio: Brokers,
) -> None:
    queue = WIDE[4]
    async with connected(trio, queue) as connection:
        due, sender = _in_an_hour(), await connection.sender(queue)
        ids = [f"id{number}".encode() for number in range(12)]
        for number, send_id in enumerate(ids):
            await sender.send(_keyed(f"s{number}", due, send_id))
        asked = Message(
            application_properties={"operation": "twinbus:cancel-sent"},
            body=AmqpValue({"send-ids": [*ids[:6], b"unknown"]}),
        )
        answer = await connection.request(f"{queue}/$management", asked)
        assert isinstance(answer.body, AmqpValue), answer
        assert answer.body.value == {"cancelled": [True] * 6 + [False]}
        assert len(await messages.peek_all(connection, queue)) == 6
        for number in range(24):
            await sender.send(_keyed(f"m{number}"))
        deleted = await messages.manage(
            connection,
            queue,
            "batch-delete-messages",
            {
                "message-count": Int(100),
                "enqueued-time-utc": Timestamp(int(time.time() * 1000) + 60_000),
            },
        )
        assert deleted["message-count"] == 24
