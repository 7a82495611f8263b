"""Sending: one, many, settled, rejected, and when the bus goes away."""

import asyncio

import pytest

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import Accepted, Rejected
from twinbus.client import ClientConnection, ConnectionLost, LinkClosed, NotAccepted


async def test_one_message_is_accepted(bus, connection: ClientConnection) -> None:
    sender = await connection.sender("q")
    assert await sender.send(b"m") == Accepted()
    assert list(bus.queue) == [b"m"]


async def test_many_messages_go_beyond_the_credit(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("q")
    payloads = [b"%d" % number for number in range(1234)]
    await sender.send_many(payloads)
    assert list(bus.queue) == payloads


async def test_a_narrow_window_only_slows_down(bus, join) -> None:
    bus.engine = Connection(Role.SERVER, "bus", incoming_window=2)
    async with await join(bus) as connection:
        sender = await connection.sender("q")
        await sender.send_many([b"%d" % number for number in range(50)])
    assert len(bus.queue) == 50


async def test_an_outcome_that_waits_for_us_is_settled(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("second")
    assert await sender.send(b"m") == Accepted()
    await bus.until(lambda: bus.settled)
    assert bus.settled == [(0, 0, None)]


async def test_a_full_transport_makes_senders_wait(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("silent", settled=True)
    connection.pause_writing()
    sending = asyncio.create_task(sender.send_many([b"m"]))
    await bus.until(lambda: bus.queue)
    assert not sending.done()
    connection.resume_writing()
    await sending


async def test_nothing_to_send_is_done_at_once(connection: ClientConnection) -> None:
    sender = await connection.sender("q")
    assert await sender.send_many([]) is None


async def test_settled_sends_wait_for_no_answer(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("silent", settled=True)
    assert await sender.send_many([b"a", b"b"]) is None
    await sender.close()
    assert list(bus.queue) == [b"a", b"b"]


async def test_a_rejected_message_raises_the_peers_error(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("rejects")
    with pytest.raises(NotAccepted) as caught:
        await sender.send_many([b"good", b"bad", b"good too"])
    assert caught.value.error == AmqpError("test:bad", "bad message")
    assert isinstance(caught.value.outcome, Rejected)
    assert list(bus.queue) == [b"good", b"good too"]
    await sender.send(b"good again")


async def test_calls_at_the_same_time_do_not_disturb_each_other(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("rejects")
    results = await asyncio.gather(
        sender.send_many([b"a"] * 50),
        sender.send_many([b"bad"]),
        sender.send_many([b"b"] * 50),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [Accepted, NotAccepted, Accepted]
    assert len(bus.queue) == 100


async def test_a_refused_link_raises_the_peers_error(
    connection: ClientConnection,
) -> None:
    with pytest.raises(LinkClosed) as caught:
        await connection.sender("refused")
    assert caught.value.error == AmqpError("amqp:not-found", "no such entity")
    await connection.sender("q")


async def test_a_detach_ends_waiting_sends(bus, connection: ClientConnection) -> None:
    sender = await connection.sender("silent")
    sending = asyncio.create_task(sender.send(b"m"))
    await bus.until(lambda: bus.queue)
    bus.links[0].detach(AmqpError("amqp:link:detach-forced", "bye"))
    bus.flush()
    with pytest.raises(LinkClosed, match="bye"):
        await sending
    with pytest.raises(LinkClosed):
        await sender.send(b"m")


async def test_an_ended_session_ends_waiting_sends(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("silent")
    sending = asyncio.create_task(sender.send(b"m"))
    await bus.until(lambda: bus.queue)
    bus.links[0].session.end(AmqpError("test:end", "over"))
    bus.flush()
    with pytest.raises(LinkClosed, match="over"):
        await sending


async def test_a_broken_connection_ends_waiting_sends(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("silent")
    sending = asyncio.create_task(sender.send(b"m"))
    await bus.until(lambda: bus.queue)
    bus.transport.close()
    with pytest.raises(ConnectionLost):
        await sending
    with pytest.raises(ConnectionLost):
        await connection.sender("q")


async def test_a_closed_sender_sends_no_more(connection: ClientConnection) -> None:
    sender = await connection.sender("q")
    await sender.close()
    await sender.close()
    with pytest.raises(LinkClosed, match="by us"):
        await sender.send(b"m")
