"""Transactions that never end, are invalid, or are far too large."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import DISPOSITION, Stranger
from hostile.witness import Witness
from twinbus.amqp.composite import to_described
from twinbus.amqp.messaging import AmqpValue, Message, encode_message
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME
from twinbus.amqp.transactions import Coordinator, TransactionalState
from twinbus.amqp.types import UInt
from twinbus.client import ClientConnection, ClientTransaction, NotAccepted

OPEN_LIMIT = 1_000
MEGABYTE = 1024 * 1024
LARGE = 250 * 1024


async def condition_of(work: Awaitable[object]) -> str:
    """The condition with which the bus refuses something."""
    with pytest.raises(NotAccepted) as refusal:
        await work
    assert refusal.value.error is not None
    return refusal.value.error.condition


async def test_thousands_of_open_transactions(server: ServerProcess) -> None:
    async with Witness(server), await server.connect() as connection:
        controller = await connection.controller()
        before = server.memory_bytes()
        opened = [await controller.declare() for _ in range(OPEN_LIMIT)]
        refused = await condition_of(controller.declare())
        assert refused == "amqp:resource-limit-exceeded"
        assert server.memory_bytes() - before < 8 * MEGABYTE
        await opened[0].roll_back()
        await (await controller.declare()).commit()
        async with await server.connect() as another:
            await (await (await another.controller()).declare()).commit()


async def fill(connection: ClientConnection) -> tuple[ClientTransaction, str]:
    """Send large messages in one transaction until that is refused; gives why."""
    transaction = await (await connection.controller()).declare()
    sender = await connection.sender("target")
    state = transaction.state()
    try:
        while True:
            await sender.send(messages.named("large", LARGE), state=state)
    except NotAccepted as refusal:
        assert refusal.error is not None
        return transaction, refusal.error.condition


async def test_huge_transactions_of_several_clients_share_a_bound(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    before = server.memory_bytes()
    async with Witness(server):
        connections = [await server.connect() for _ in range(4)]
        filled = [await fill(connection) for connection in connections]
        conditions = [condition for _, condition in filled]
        assert conditions[0] == "amqp:resource-limit-exceeded"
        assert conditions[-1] == "com.microsoft:server-busy"
        assert server.memory_bytes() - before < 160 * MEGABYTE
        for transaction, _ in filled:
            assert await condition_of(transaction.commit()) == (
                "amqp:transaction:rollback"
            )
        _, condition = await fill(connections[-1])
        assert condition == "amqp:resource-limit-exceeded"
        assert await messages.peek_all(connections[0], "target") == []
        for connection in connections:
            await connection.close()


async def test_transaction_is_discharged_once_however_often_it_is_asked_for(
    server: ServerProcess,
) -> None:
    async with Witness(server), await server.connect() as connection:
        transaction = await (await connection.controller()).declare()
        sender = await connection.sender("target")
        await sender.send(messages.named("once"), state=transaction.state())
        answers = await asyncio.gather(
            *(transaction.commit() for _ in range(50)), return_exceptions=True
        )
        assert answers.count(None) == 1
        found = await messages.peek_all(connection, "target")
        assert [item.name for item in found].count("once") == 1


@pytest.mark.parametrize("txn_id", [b"", b"\0", bytes(16), b"\xff" * 60_000])
async def test_ids_from_nowhere(server: ServerProcess, txn_id: bytes) -> None:
    async with Witness(server), await server.connect() as connection:
        made_up = ClientTransaction(await connection.controller(), txn_id)
        sender = await connection.sender("target")
        send = sender.send(messages.named("never"), state=made_up.state())
        assert await condition_of(send) == "amqp:transaction:unknown-id"
        assert await condition_of(made_up.commit()) in (
            "amqp:transaction:unknown-id",
            "amqp:link:message-size-exceeded",
        )
        await (await (await connection.controller()).declare()).commit()


async def test_large_and_senseless_requests_to_the_coordinator(
    server: ServerProcess,
) -> None:
    async with Witness(server), await server.connect() as connection:
        control = await connection.sender(Coordinator())
        nested: object = []
        for _ in range(50):
            nested = [nested]
        for payload, condition in (
            (bytes(100_000), "amqp:link:message-size-exceeded"),
            (b"", "com.microsoft:argument-error"),
            (b"\x00" * 100, "com.microsoft:argument-error"),
            (
                encode_message(Message(body=AmqpValue(nested))),
                "com.microsoft:argument-error",
            ),
        ):
            assert await condition_of(control.send(payload)) == condition


async def test_settlement_of_all_deliveries_there_can_be(
    server: ServerProcess,
) -> None:
    """A range of two thousand million ids is answered without counting them."""
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target", is_receiver=True)
        state = TransactionalState(txn_id=b"made up", outcome=ACCEPTED_OUTCOME)
        fields = [True, UInt(0), UInt(0x7FFFFFFE), False]
        for _ in range(100):
            stranger.perform_raw(DISPOSITION, [*fields, to_described(state)])
        for _ in range(100):
            assert await stranger.expect_outcome() == (
                0x25,
                "amqp:transaction:unknown-id",
            )
