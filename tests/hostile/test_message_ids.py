"""Ids that are too long or of unusual types, in messages and sessions.

The documented limit is 128 characters. A session may also be requested by a value that
cannot be an id.
"""

from typing import Any

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.witness import Witness
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    encode_message,
)
from twinbus.amqp.types import Described, Symbol, Timestamp, ULong
from twinbus.client import ClientConnection, LinkClosed, NotAccepted, RequestFailed
from twinbus.limits import MESSAGE_ID_CHARACTERS

ARGUMENT_ERROR = "com.microsoft:argument-error"
FILTER = "com.microsoft:session-filter"
LONG = "x" * (MESSAGE_ID_CHARACTERS + 1)
# As many characters, more bytes.
WIDE = "\U0001f600" * (MESSAGE_ID_CHARACTERS + 1)


def with_id(kind: str, value: str) -> bytes:
    """A message one of whose ids is this; it has a session id in any case."""
    ids: dict[str, Any] = {"message_id": "m", "group_id": "s"}
    if kind != "partition_key":
        ids[kind] = value
    annotations: dict[Any, Any] = {Symbol("x-opt-partition-key"): value}
    return encode_message(
        Message(
            message_annotations=annotations if kind == "partition_key" else None,
            properties=Properties(**ids),
            body=Data((b"",)),
        )
    )


KINDS = ("message_id", "group_id", "partition_key")


@pytest.mark.parametrize(
    "value", [LONG, WIDE, "x" * 40_000], ids=["long", "wide", "huge"]
)
@pytest.mark.parametrize("kind", KINDS)
async def test_ids_that_are_too_long(
    server: ServerProcess, kind: str, value: str
) -> None:
    """Sent, sent in a batch, sent to a topic, scheduled, and in a transaction."""
    payload = with_id(kind, value)
    async with Witness(server), await server.connect() as connection:
        for entity in ("target", "sessions", "news"):
            sender = await connection.sender(entity)
            await expect_refusal(sender.send(payload))
            batch = messages.batch_of([with_id(kind, "s"), payload])
            await expect_refusal(sender.send_many([batch], message_format=0x80013700))
            with pytest.raises(RequestFailed) as refusal:
                await messages.schedule(connection, entity, [payload])
            assert refusal.value.description == ARGUMENT_ERROR
            transaction = await (await connection.controller()).declare()
            await expect_refusal(sender.send(payload, state=transaction.state()))
            await transaction.roll_back()
        for entity in ("target", "sessions", "news/Subscriptions/all"):
            assert await messages.peek_all(connection, entity) == []


async def expect_refusal(sending: Any) -> None:
    with pytest.raises(NotAccepted) as refusal:
        await sending
    assert refusal.value.error is not None
    assert refusal.value.error.condition == ARGUMENT_ERROR
    assert f"at most {MESSAGE_ID_CHARACTERS}" in (refusal.value.error.description or "")


@pytest.mark.parametrize("value", ["x" * 128, "\U0001f600" * 128, "\0", "\u202e", "%"])
@pytest.mark.parametrize("kind", ["message_id", "group_id"])
async def test_odd_ids_that_are_ids(
    server: ServerProcess, kind: str, value: str
) -> None:
    async with Witness(server), await server.connect() as connection:
        await (await connection.sender("sessions")).send(with_id(kind, value))
        session_id = value if kind == "group_id" else "s"
        receiver = await connection.receiver(
            "sessions", source_filter={FILTER: session_id}, credit=1
        )
        [delivery] = await receiver.receive_batch(1)
        at = delivery.delivery_id
        await receiver.settle_confirmed(at, at)


WRONG_FILTERS: list[object] = [
    *(LONG, WIDE, 1, 1.5, True, b"bytes", [], ["s"], {}, {"a": "s"}, Timestamp(0)),
    *(Described("x", LONG), Described("x", 1), Described("x", Described("y", "s"))),
    *("x" * 50_000, ULong((1 << 64) - 1)),
]


@pytest.mark.parametrize("value", WRONG_FILTERS, ids=range(len(WRONG_FILTERS)))
async def test_filters_that_name_no_session(
    server: ServerProcess, value: object
) -> None:
    async with Witness(server), await server.connect() as connection:
        await expect_no_link(connection, "sessions", {FILTER: value}, ARGUMENT_ERROR)
        for entity in ("target", "news/Subscriptions/all"):
            await expect_no_link(
                connection, entity, {FILTER: value}, "amqp:not-allowed"
            )


async def expect_no_link(
    connection: ClientConnection,
    entity: str,
    source_filter: dict[object, object],
    condition: str,
) -> None:
    with pytest.raises(LinkClosed) as refusal:
        await connection.receiver(entity, source_filter=source_filter)
    assert refusal.value.error is not None
    assert refusal.value.error.condition == condition


@pytest.mark.parametrize("wait", [1.5, "soon", None, [], True, ULong(1 << 63)])
async def test_odd_patience_is_no_reason_to_fail(
    server: ServerProcess, wait: object
) -> None:
    """Of a named session, which is there at once."""
    async with Witness(server), await server.connect() as connection:
        await connection.receiver(
            "sessions",
            source_filter={FILTER: f"patient {wait!r}"},
            properties={Symbol("com.microsoft:timeout"): wait},
        )


@pytest.mark.parametrize(
    "section",
    [
        Message(properties=Properties(group_id="s"), body=AmqpValue(None)),
        Message(body=Data((b"",))),
        Message(properties=Properties(message_id=b"\xff" * 200), body=Data((b"",))),
    ],
    ids=["empty", "no-session", "binary-id"],
)
async def test_messages_without_what_they_need(
    server: ServerProcess, section: Message
) -> None:
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("sessions")
        payload = encode_message(section)
        if section.properties is not None and section.properties.group_id:
            await sender.send(payload)
            return
        with pytest.raises(NotAccepted) as refusal:
            await sender.send(payload)
        assert refusal.value.error is not None
        assert refusal.value.error.condition == "amqp:not-allowed"
