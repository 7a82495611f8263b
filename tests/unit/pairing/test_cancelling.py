"""Cancelling diverted messages: everywhere they may be, or not at all."""

import asyncio

import pytest

from twinbus.pairing.errors import CannotCancel
from twinbus.pairing.failures import FailureKind

from .world import QUEUES, Failure, Mail, Refused, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")
SETTINGS = {"failover_interval_ms": 1_000, "ping_primary_interval_ms": 5_000}


async def diverted(world: World, *, was_tried: bool) -> int:
    """The number of a scheduled message that waits in a backlog queue."""
    world.primary.answers["orders"] = AWAY
    sender = world.pair.sender("orders")
    if not was_tried:
        await sender.send(mails("x"))
    (number,) = await sender.schedule(mails("a"), 99_000)
    return number


async def come_back(world: World) -> None:
    world.primary.answers.clear()
    await asyncio.sleep(5)
    assert not world.pair.entity("orders").is_diverted()


def copy_of(world: World, text: str) -> Mail:
    return next(
        mail
        for queue in world.secondary.held.values()
        for mail in queue
        if mail.text == text
    )


def test_message_is_taken_out_of_the_backlog() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=False)
        await world.pair.sender("orders").cancel([number])
        assert world.backlog() == ["x"]

    play(scene, **SETTINGS)


def test_message_that_came_back_meanwhile_is_cancelled_on_the_primary() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        await come_back(world)
        (queue,) = world.secondary.held
        world.primary.held["orders"] = world.secondary.held.pop(queue)
        await world.pair.sender("orders").cancel([number])
        assert world.primary.texts("orders") == []

    play(scene, **SETTINGS)


def test_copy_of_an_attempt_without_answer_is_cancelled_too() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        await come_back(world)
        world.primary.held["orders"] = [copy_of(world, "a")]
        await world.pair.sender("orders").cancel([number])
        assert world.primary.texts("orders") == []
        assert world.backlog() == []

    play(scene, **SETTINGS)


def test_copies_in_several_backlog_queues_are_all_cancelled() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=False)
        copy = copy_of(world, "a")
        world.secondary.held = {queue: [copy] for queue in QUEUES}
        await world.pair.sender("orders").cancel([number])
        assert world.backlog() == []

    play(scene, **SETTINGS)


def test_nothing_is_cancelled_while_the_primary_may_have_it_and_is_away() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        with pytest.raises(Refused, match="cancel them when it is back"):
            await world.pair.sender("orders").cancel([number])
        assert world.backlog() == ["a"]
        await come_back(world)
        await world.pair.sender("orders").cancel([number])
        assert world.backlog() == []

    play(scene, **SETTINGS)


def test_primary_that_fails_leaves_the_backlog_untouched() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        await come_back(world)
        world.primary.answers["orders"] = AWAY
        with pytest.raises(Failure):
            await world.pair.sender("orders").cancel([number])
        assert world.backlog() == ["a"]

    play(scene, **SETTINGS)


def test_message_on_its_way_is_waited_for() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        await come_back(world)
        moving = list(world.secondary.held.values())
        world.secondary.held = {}
        loop = asyncio.get_running_loop()
        loop.call_later(2, lambda: world.primary.held.update(orders=moving[0]))
        await world.pair.sender("orders").cancel([number])
        assert world.primary.texts("orders") == []

    play(scene, **SETTINGS)


def test_message_that_waits_nowhere_is_refused() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=True)
        await come_back(world)
        world.secondary.held = {}
        with pytest.raises(Refused, match="1 of 1 scheduled messages for 'orders'"):
            await world.pair.sender("orders").cancel([number])

    play(scene, **SETTINGS)


def test_namespace_that_cannot_look_says_so() -> None:
    async def scene(world: World) -> None:
        number = await diverted(world, was_tried=False)
        world.all_queues(CannotCancel("not a twinbus"))
        with pytest.raises(CannotCancel):
            await world.pair.sender("orders").cancel([number])

    play(scene, **SETTINGS)
