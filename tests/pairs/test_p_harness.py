"""The harness itself: a proxy that fails on demand, sites that come back.

No pair is made here. If the harness reported an outage that does not exist, or missed
one, all other tests of this folder would be worthless.
"""

import asyncio

import pytest
from azure.servicebus.exceptions import (
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)
from wire.frames import SASL_HEADER

from .harness_audit import assert_once_each, ids_of
from .harness_world import World, message, numbered


async def _send(world: World, queue: str, text: str, seconds: float = 5) -> None:
    sender = world.client(retry_total=0).get_queue_sender(queue)
    try:
        async with asyncio.timeout(seconds):
            await sender.send_messages(message(text))
    finally:
        await sender.close()


async def test_a_healthy_way_lets_everything_through(world: World) -> None:
    queue = world.queue()
    await _send(world, queue, "one")
    assert ids_of(await world.at_primary.received(queue, 1)) == ["one"]


async def test_a_refused_way_is_a_connection_error_and_heals(world: World) -> None:
    queue = world.queue()
    world.way.refuse()
    with pytest.raises(ServiceBusConnectionError):
        await _send(world, queue, "one")
    world.way.heal()
    await _send(world, queue, "two")
    assert ids_of(await world.at_primary.has(queue, 1)) == ["two"]


async def _answer(port: int, seconds: float = 5) -> bytes:
    """What answers to the header of the protocol; nothing, if nobody is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(SASL_HEADER)
        async with asyncio.timeout(seconds):
            return await reader.read(len(SASL_HEADER))
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("fault", ["black_hole", "freeze"])
async def test_a_silent_way_answers_nothing_and_heals(world: World, fault: str) -> None:
    getattr(world.way, fault)()
    with pytest.raises(TimeoutError):
        await _answer(world.way.port, seconds=0.3)
    world.way.heal()
    assert await _answer(world.way.port) == SASL_HEADER


async def test_a_mute_way_lets_the_server_commit_unheard(world: World) -> None:
    queue = world.queue()
    async with world.client(retry_total=0).get_queue_sender(queue) as sender:
        await sender.send_messages(message("heard"))
        world.way.mute()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.7):
                await sender.send_messages(message("unheard"))
    assert ids_of(await world.at_primary.has(queue, 2)) == ["heard", "unheard"]


async def test_a_way_can_be_cut_within_an_answer(world: World) -> None:
    queue = world.queue()
    async with world.client(retry_total=0).get_queue_sender(queue) as sender:
        await sender.send_messages(message("heard"))
        world.way.cut_answers_after(4)
        with pytest.raises(ServiceBusError):
            await sender.send_messages(message("cut"))
    assert ids_of(await world.at_primary.has(queue, 2)) == ["cut", "heard"]


async def test_a_throttled_entity_says_so_and_takes_nothing(world: World) -> None:
    queue = world.queue()
    world.primary.set_status(queue, "SendDisabled")
    with pytest.raises(ServiceBusServerBusyError):
        await _send(world, queue, "one")
    world.primary.set_status(queue, "Active")
    assert await world.at_primary.peeked(queue) == []


async def test_a_frozen_site_answers_again_when_it_thaws(world: World) -> None:
    world.primary.freeze()
    with pytest.raises(TimeoutError):
        await _answer(world.way.port, seconds=0.3)
    world.primary.thaw()
    assert await _answer(world.way.port) == SASL_HEADER


async def test_a_killed_site_comes_back_with_what_it_had(world: World) -> None:
    queue = world.queue()
    await _send(world, queue, "one")
    world.primary.kill()
    assert await _answer(world.way.port) == b""
    await world.primary.start()
    assert ids_of(await world.at_primary.has(queue, 1)) == ["one"]


async def test_the_audit_tells_loss_and_doubles() -> None:
    sent = numbered("m", 3)
    assert_once_each(["m-0", "m-1", "m-2"], sent)
    with pytest.raises(AssertionError, match="lost"):
        assert_once_each(["m-0", "m-1", "m-2", "m-3"], sent)
    with pytest.raises(AssertionError, match="doubled"):
        assert_once_each(["m-0", "m-1", "m-2"], [*sent, sent[0]])
