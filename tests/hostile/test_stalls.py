"""Small frames that used to cause much work: other clients and a stop are not delayed.

Each attack is one write of a few hundred kilobytes at most. A healthy client must not
wait for seconds meanwhile; the amount of work is counted in unit tests.
"""

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import (
    ATTACH,
    CLOSE,
    DETACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
    Stranger,
)
from hostile.witness import Witness
from twinbus.amqp.codec import encode
from twinbus.amqp.framing import frame
from twinbus.amqp.messaging import AmqpValue, Data, Message, encode_message
from twinbus.amqp.types import AmqpArray, Described, UInt, ULong
from twinbus.client import ClientConnection

_LONG, _UUID = 0x81, 0x98
LINKS = 990
STOP_SECONDS = 5.0


def raw(code: int, fields: list[object]) -> bytes:
    return frame(0, encode(Described(ULong(code), fields)))


def window(size: int) -> bytes:
    return raw(FLOW, [UInt(0), UInt(size), UInt(0), UInt(0xFFFFFFFF)])


def credit(handle: int) -> bytes:
    window_fields = [UInt(0), UInt(0), UInt(0), UInt(0xFFFFFFFF)]
    return raw(FLOW, [*window_fields, UInt(handle), UInt(0), UInt(10)])


async def with_links(server: ServerProcess, stranger: Stranger, count: int) -> None:
    """Receivers with credit, in a session with a closed window."""
    await stranger.open(server)
    for handle in range(count):
        stranger.attach("target", handle=handle, is_receiver=True)
        stranger.write(credit(handle))
    for _ in range(count):
        await stranger.expect(ATTACH)


async def test_a_window_that_closes_and_opens_over_many_links(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    async with await Stranger.dial(server) as stranger:
        await with_links(server, stranger, LINKS)
        async with Witness(server) as witness:
            stranger.write((window(1) + window(0)) * 2_000)
            await witness.rounds(10)
        # It is still at it when the bus is told to stop.
        stranger.write((window(1) + window(0)) * 20_000)
        started_at = time.monotonic()
        assert await server.stop() == 0
        assert time.monotonic() - started_at < STOP_SECONDS


async def test_dispositions_of_other_deliveries(server: ServerProcess) -> None:
    count = 5_000
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        await sender.send_many([messages.named("x", 0)] * count)
    async with await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target", is_receiver=True)
        stranger.credit(count)
        for _ in range(count):
            await stranger.expect(TRANSFER)
        outcome = Described(ULong(0x24), [])
        ranges = [(count + step, 2 * count + 2 * step) for step in range(4_000)]
        async with Witness(server) as witness:
            for first, last in ranges:
                fields = [True, UInt(first), UInt(last), True, outcome]
                stranger.perform_raw(DISPOSITION, fields)
            await witness.rounds(10)
            # Those that there are were not touched by it.
            stranger.dispose(0, count - 1)
            fields = await stranger.expect(DISPOSITION)
            assert fields[4].descriptor == 0x24


async def test_attaching_and_detaching_beside_many_links(server: ServerProcess) -> None:
    async with await Stranger.dial(server) as stranger:
        await with_links(server, stranger, LINKS)
        async with Witness(server) as witness:
            for _ in range(2_000):
                stranger.attach("target", handle=LINKS, is_receiver=True)
                stranger.perform_raw(DETACH, [UInt(LINKS), True])
            drained = asyncio.create_task(stranger.drain())
            await witness.rounds(10)
            for _ in range(2_000):
                await stranger.expect(DETACH)
            await drained


async def ask(
    connection: ClientConnection, operation: str, body: dict[object, object]
) -> tuple[int, str, list[object]]:
    """Status, text and messages of the answer."""
    name = {"operation": f"com.microsoft:{operation}"}
    request = Message(application_properties=dict(name), body=AmqpValue(body))
    answer = await connection.request("target/$management", request)
    told = answer.application_properties or {}
    value: object = answer.body.value if isinstance(answer.body, AmqpValue) else None
    found = value.get("messages", []) if isinstance(value, dict) else []
    return int(told["statusCode"]), str(told["statusDescription"]), list(found)


async def test_more_deferred_messages_than_fit_into_an_answer(
    make_server: Callable[..., ServerProcess],
) -> None:
    server, count = make_server(), 90
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        for number in range(count):
            await sender.send(messages.named(f"{number}", 200_000))
        receiver = await connection.receiver("target", credit=count)
        tags: list[bytes] = []
        while len(tags) < count:
            tags += [one.delivery_tag for one in await receiver.receive_batch(count)]
        tokens = AmqpArray(_UUID, [UUID(bytes_le=tag) for tag in tags])
        body: dict[object, object] = {"lock-tokens": tokens}
        body["disposition-status"] = "defered"
        assert (await ask(connection, "update-disposition", body))[0] == 200
        before = server.memory_bytes()
        async with Witness(server):
            body = {"receiver-settle-mode": UInt(1)}
            body["sequence-numbers"] = AmqpArray(_LONG, list(range(1, count + 1)))
            status, text, _ = await ask(connection, "receive-by-sequence-number", body)
            assert status == 400
            assert "one request may ask for 16777216" in text
            # All or none: whoever asks for fewer gets them.
            body["sequence-numbers"] = AmqpArray(_LONG, list(range(1, 31)))
            status, _, found = await ask(connection, "receive-by-sequence-number", body)
            assert (status, len(found)) == (200, 30)
        assert server.memory_bytes() - before < 100 * 1024 * 1024


async def add_rule(connection: ClientConnection, number: int) -> None:
    filter = {"expression": f"text LIKE '%a_b_{number}%'"}
    body = {"rule-name": f"rule-{number}", "rule-description": {"sql-filter": filter}}
    name = {"operation": "com.microsoft:add-rule"}
    request = Message(application_properties=dict(name), body=AmqpValue(body))
    node = "news/Subscriptions/all/$management"
    answer = await connection.request(node, request)
    assert (answer.application_properties or {})["statusCode"] == 200, answer


async def test_a_text_that_meets_every_pattern_everywhere(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    text = {"text": "ab" * 30_000}
    long = encode_message(Message(application_properties=dict(text), body=Data((b"",))))
    async with await server.connect() as connection:
        for number in range(150):
            await add_rule(connection, number)
        sender = await connection.sender("news")
        async with Witness(server):
            await sender.send(long)
        # It is taken: that a filter fails is not its sender's trouble.
        await sender.send(messages.named("another"))


async def test_what_was_said_before_leaving_is_done_though_it_is_much(
    make_server: Callable[..., ServerProcess],
) -> None:
    server, count = make_server(), 900
    async with await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(ATTACH)
        for number in range(count):
            stranger.transfer(messages.named(f"{number}", 0), settled=True)
        stranger.perform_raw(CLOSE, [])
        await stranger.expect_end()
    async with await server.connect() as connection:
        receiver = await connection.receiver("target", credit=count)
        found: list[str] = []
        while len(found) < count:
            batch = await receiver.receive_batch(count)
            found += [messages.found(one.payload).name for one in batch]
        assert found == [str(number) for number in range(count)]
