"""Forwarding in circles, to missing targets, and through topics that multiply messages.

A circle is allowed, as in the service: after four hops a message is dead-lettered.
Other mistakes are refused when they are requested, over HTTP with 400 and a sub-code.
"""

import asyncio

import pytest
from crash import messages
from crash.ledger import Found
from crash.server_process import PATIENCE_SECONDS, ServerProcess

from hostile.caller import Caller, entry
from hostile.witness import Witness
from twinbus.client import ClientConnection, LinkClosed


def forwarding(kind: str, target: str, element: str = "ForwardTo") -> str:
    return entry(kind, f"<{element}>{target}</{element}>")


async def until_found(
    connection: ClientConnection, entity: str, count: int
) -> list[Found]:
    """Wait until so many messages are there."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await messages.peek_all(connection, entity)
            if len(found) >= count:
                return found


@pytest.mark.parametrize(
    "target",
    [
        *("nowhere", "sb://bus/nowhere", "sb://", "sb:///", "target\u00e9", "a b"),
        *("$management", "target/$DeadLetterQueue", "../target", "x" * 20_000),
        "target/$management",
    ],
)
@pytest.mark.parametrize("element", ["ForwardTo", "ForwardDeadLetteredMessagesTo"])
async def test_targets_that_there_are_not(
    server: ServerProcess, target: str, element: str
) -> None:
    call = Caller(server)
    async with Witness(server):
        for path, kind in (
            ("/forwards", "Queue"),
            ("/news/subscriptions/forwards", "Subscription"),
        ):
            answer = await call("PUT", path, forwarding(kind, target, element))
            if answer.status == 201:
                # What is empty, once it is taken apart, forwards nowhere.
                assert target in ("sb://", "sb:///")
                assert (await call("DELETE", path)).status == 200
                continue
            assert (answer.status, answer.detail[:14]) == (400, "SubCode=40400.")
            assert (await call("GET", path)).status == 404
        update = forwarding("Queue", target, element)
        if target not in ("sb://", "sb:///"):
            answer = await call("PUT", "/target", update, If_Match="*")
            assert answer.status == 400


async def test_a_subscription_is_no_target(server: ServerProcess) -> None:
    call = Caller(server)
    async with Witness(server):
        body = forwarding("Queue", "sb://bus/news/Subscriptions/all")
        answer = await call("PUT", "/forwards-below", body)
        assert answer.status == 400


async def test_circles_end_after_four_hops(server: ServerProcess) -> None:
    """Of one, two and five queues; each message ends as one dead letter."""
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        for size in (2, 5):
            names = [f"circle-{size}-{at}" for at in range(size)]
            for name in names:
                assert (await call("PUT", f"/{name}", entry("Queue"))).status == 201
            for at, name in enumerate(names):
                body = forwarding("Queue", f"sb://bus/{names[(at + 1) % size]}")
                answer = await call("PUT", f"/{name}", body, If_Match="*")
                assert answer.status == 200
            sender = await connection.sender(names[0])
            sent = [f"{size}-{number}" for number in range(50)]
            await sender.send_many([messages.named(name) for name in sent])
            last = names[4 % size]
            dead = await until_found(connection, f"{last}/$DeadLetterQueue", 50)
            assert sorted(item.name for item in dead) == sorted(sent)
            for name in names:
                assert await messages.peek_all(connection, name) == []
            with pytest.raises(LinkClosed):
                await connection.receiver(names[0])


async def test_a_topic_that_feeds_itself(server: ServerProcess) -> None:
    """Three subscriptions make three messages of one, four times: 81 and no more."""
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        assert (await call("PUT", "/echo", entry("Topic"))).status == 201
        for name in ("a", "b", "c"):
            target = f"/echo/subscriptions/{name}"
            body = forwarding("Subscription", "sb://bus/echo")
            assert (await call("PUT", target, body)).status == 201
        await (await connection.sender("echo")).send(messages.named("hello"))
        dead = [
            await until_found(
                connection, f"echo/Subscriptions/{name}/$DeadLetterQueue", 81
            )
            for name in ("a", "b", "c")
        ]
        assert [len(found) for found in dead] == [81, 81, 81]
        assert (await call("DELETE", "/echo")).status == 200


async def test_the_target_goes_while_messages_are_on_their_way(
    server: ServerProcess,
) -> None:
    """What comes too late for it is among the dead letters of the source."""
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        assert (await call("PUT", "/goes", entry("Queue"))).status == 201
        body = forwarding("Queue", "sb://bus/goes")
        assert (await call("PUT", "/stays", body)).status == 201
        sender = await connection.sender("stays")
        sending = asyncio.create_task(
            sender.send_many([messages.named(f"{number}") for number in range(500)])
        )
        assert (await call("DELETE", "/goes")).status == 200
        await sending
        await (await connection.sender("stays")).send(messages.named("last"))
        names: list[str] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "last" not in names:
                dead = await messages.peek_all(connection, "stays/$DeadLetterQueue")
                names = [item.name for item in dead]
        # Those before the deletion are gone with the target; the rest is in order.
        first = int(names[0]) if len(names) > 1 else 500
        assert names == [*(str(number) for number in range(first, 500)), "last"]
        assert await messages.peek_all(connection, "stays") == []
        assert (await call("DELETE", "/stays")).status == 200
