"""Receiving in batches, settling with and without confirmation, draining."""

import asyncio

import pytest

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import RELEASED, Accepted, Released, encode_rejected
from twinbus.client import ClientConnection, ClientReceiver, ConnectionLost, NotAccepted


async def receive_all(receiver: ClientReceiver, count: int) -> list[bytes]:
    payloads: list[bytes] = []
    while len(payloads) < count:
        batch = await receiver.receive_batch(7, timeout_seconds=10)
        payloads += [message.payload for message in batch]
    return payloads


async def test_more_messages_than_credit_arrive_in_order(
    bus, connection: ClientConnection
) -> None:
    bus.queue.extend(b"%d" % number for number in range(100))
    receiver = await connection.receiver("q", credit=10)
    assert await receive_all(receiver, 100) == [b"%d" % n for n in range(100)]


async def test_a_batch_is_no_larger_than_asked(
    bus, connection: ClientConnection
) -> None:
    bus.queue.extend([b"a", b"b", b"c"])
    receiver = await connection.receiver("q")
    batch = await receiver.receive_batch(2, timeout_seconds=10)
    assert [message.payload for message in batch] == [b"a", b"b"]
    assert not batch[0].settled


async def test_an_empty_queue_gives_an_empty_batch(
    connection: ClientConnection,
) -> None:
    receiver = await connection.receiver("q")
    assert await receiver.receive_batch(5, timeout_seconds=0.01) == []


async def test_receive_and_delete_gives_settled_messages(
    bus, connection: ClientConnection
) -> None:
    bus.queue.append(b"m")
    receiver = await connection.receiver("q", settled=True)
    [message] = await receiver.receive_batch(5, timeout_seconds=10)
    assert message.settled


async def test_a_settlement_is_confirmed(bus, connection: ClientConnection) -> None:
    bus.queue.extend([b"a", b"b", b"c"])
    receiver = await connection.receiver("q")
    batch = await receiver.receive_batch(3, timeout_seconds=10)
    await receiver.settle_confirmed(batch[0].delivery_id, batch[-1].delivery_id)
    assert bus.settled == [(0, 2, Accepted())]


async def test_a_refused_settlement_raises_the_peers_error(
    bus, connection: ClientConnection
) -> None:
    bus.queue.append(b"m")
    error = AmqpError("com.microsoft:message-lock-lost", "too late")
    bus.refusal = encode_rejected(error)
    receiver = await connection.receiver("q")
    [message] = await receiver.receive_batch(1, timeout_seconds=10)
    with pytest.raises(NotAccepted) as caught:
        await receiver.settle_confirmed(message.delivery_id, message.delivery_id)
    assert caught.value.error == error


async def test_an_unconfirmed_settlement_just_goes_out(
    bus, connection: ClientConnection
) -> None:
    bus.queue.append(b"m")
    receiver = await connection.receiver("q")
    [message] = await receiver.receive_batch(1, timeout_seconds=10)
    receiver.settle(message.delivery_id, message.delivery_id, RELEASED)
    await receiver.close()
    assert bus.settled == [(0, 0, Released())]


async def test_a_lost_connection_ends_waiting_settlements(
    bus, connection: ClientConnection
) -> None:
    bus.queue.append(b"m")
    receiver = await connection.receiver("q")
    [message] = await receiver.receive_batch(1, timeout_seconds=10)
    settling = asyncio.create_task(
        receiver.settle_confirmed(message.delivery_id, message.delivery_id)
    )
    bus.transport.close()
    with pytest.raises(ConnectionLost):
        await settling
    with pytest.raises(ConnectionLost):
        await receiver.receive_batch(1, timeout_seconds=10)


async def test_credit_by_hand_and_drain(bus, connection: ClientConnection) -> None:
    bus.queue.extend([b"a", b"b", b"c"])
    receiver = await connection.receiver("q", credit=0)
    receiver.issue_credit(2)
    assert await receive_all(receiver, 2) == [b"a", b"b"]
    receiver.issue_credit(5)
    drained = await receiver.drain()
    assert [message.payload for message in drained] == [b"c"]
    bus.queue.append(b"d")
    assert await receiver.receive_batch(1, timeout_seconds=0.01) == []


async def test_filter_and_properties_reach_the_bus(
    bus, connection: ClientConnection
) -> None:
    session_filter: dict[object, object] = {"com.microsoft:session-filter": "s1"}
    receiver = await connection.receiver(
        "q", source_filter=session_filter, properties={"com.microsoft:timeout": 5}
    )
    [(source, properties)] = bus.asked
    assert source.filter == session_filter
    assert properties == {"com.microsoft:timeout": 5}
    assert receiver.source == source
    assert receiver.properties == {}
