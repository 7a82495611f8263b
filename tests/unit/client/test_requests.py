"""Requests and responses, and tokens."""

import asyncio

import pytest

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.amqp.outcomes import Accepted
from twinbus.amqp.state import SessionState
from twinbus.client import (
    ClientConnection,
    ConnectionLost,
    LinkClosed,
    RequestFailed,
)


async def test_a_request_gets_its_own_response(connection: ClientConnection) -> None:
    responses = await asyncio.gather(
        *(
            connection.request("q/$management", Message(body=AmqpValue(number)))
            for number in range(60)
        )
    )
    assert [response.body for response in responses] == [
        AmqpValue(number) for number in range(60)
    ]


async def test_a_request_without_answer_times_out(
    connection: ClientConnection,
) -> None:
    message = Message(body=AmqpValue("ignore"))
    with pytest.raises(TimeoutError):
        await connection.request("q/$management", message, timeout_seconds=0.01)
    again = await connection.request("q/$management", Message(body=AmqpValue("x")))
    assert again.body == AmqpValue("x")


async def test_an_unsettled_response_is_accepted(
    bus, connection: ClientConnection
) -> None:
    message = Message(application_properties={"settled": False}, body=AmqpValue("x"))
    await connection.request("$cbs", message)
    await bus.until(lambda: bus.settled)
    assert bus.settled == [(0, 0, Accepted())]


async def test_a_response_that_is_no_message_ends_the_links(
    connection: ClientConnection,
) -> None:
    with pytest.raises(LinkClosed, match="decode-error"):
        await connection.request("$cbs", Message(body=AmqpValue("garbage")))
    again = await connection.request("$cbs", Message(body=AmqpValue("x")))
    assert again.body == AmqpValue("x")


async def test_a_token_is_put(bus, connection: ClientConnection) -> None:
    await connection.put_token("amqp://h/q", "token")
    assert bus.tokens == {"amqp://h/q": AmqpValue("token")}


async def test_a_wrong_token_is_refused(connection: ClientConnection) -> None:
    with pytest.raises(RequestFailed) as caught:
        await connection.put_token("amqp://h/q", "wrong")
    assert (caught.value.status, caught.value.description) == (401, "no")


async def test_a_requester_whose_links_are_gone_is_replaced(
    bus, connection: ClientConnection
) -> None:
    await connection.put_token("a", "token")
    session = bus.links[0].session
    session.end()
    bus.flush()
    await bus.until(lambda: session.state is SessionState.ENDED)
    await connection.request("$cbs", Message(body=AmqpValue("x")))


async def test_a_lost_connection_ends_waiting_requests(
    bus, connection: ClientConnection
) -> None:
    asking = asyncio.create_task(
        connection.request("$cbs", Message(body=AmqpValue("ignore")))
    )
    await bus.until(lambda: bus.tokens)
    bus.transport.close()
    with pytest.raises(ConnectionLost):
        await asking
