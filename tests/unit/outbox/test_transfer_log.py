"""What is kept for a store that is away, and what is not."""

import pytest
from unit.entities.world import World as OneStore

from twinbus.broker.fragment import Fragment
from twinbus.encoding.layout import PING
from twinbus.errors import FragmentUnavailable, NotAllowed, ServerBusy
from twinbus.links.routes import Routes

from .world import Answers, World, message, received


def routes(world: World, queue: str = "here") -> Routes:
    entity = world.namespace.queue(queue)
    return Routes(
        entity.routing(),
        lambda home: home.introduce("sender"),
        world.clock.now,
        world.namespace.detour_of(entity),
    )


def fragment(world: World) -> Fragment:
    return world.here.fragment()


async def test_messages_are_kept_and_appear_in_order(world: World) -> None:
    link, sender = Answers(), routes(world)
    await world.leave(world.first)
    for number in range(3):
        sender.send([message(str(number))], False, number, link, world.clock.now())
    await world.until(lambda: link.accepted == [0, 1, 2])
    assert not fragment(world).is_reachable()
    await world.come_back(world.first)
    await world.delivered()
    assert fragment(world).is_reachable()
    sender.send([message("3")], False, 3, link, world.clock.now())
    await world.until(lambda: link.accepted == [0, 1, 2, 3])
    assert received(fragment(world)) == ["0", "1", "2", "3"]
    assert link.errors == []


async def test_later_messages_follow_when_the_store_is_back(world: World) -> None:
    link, sender = Answers(), routes(world)
    await world.leave(world.first)
    sender.send([message("0")], False, 0, link, world.clock.now())
    await world.until(lambda: link.accepted == [0])
    # The store that keeps them takes its time.
    gate = world.store_of(world.second).gate
    sender.send([message("1")], False, 1, link, world.clock.now())
    gate.clear()
    await world.come_back(world.first)
    assert fragment(world).is_awaited()
    sender.send([message("2")], False, 2, link, world.clock.now())
    gate.set()
    await world.delivered()
    assert received(fragment(world)) == ["0", "1", "2"]
    assert link.accepted == [0, 1, 2]


async def test_a_message_that_a_commit_refused_takes_the_detour(world: World) -> None:
    link, sender = Answers(), routes(world)
    await world.leave(world.first)
    await world.come_back(world.first)
    sender.send([message("0")], False, 0, link, world.clock.now())
    await world.leave(world.first)
    await world.until(lambda: bool(link.accepted or link.errors))
    await world.come_back(world.first)
    await world.delivered()
    # Its commit was the one whose outcome nobody knows.
    assert len(link.accepted) + len(link.errors) == 1


async def test_a_ping_is_never_kept(world: World) -> None:
    ping = message("0")
    ping.layout |= PING
    await world.leave(world.first)
    with pytest.raises(FragmentUnavailable):
        routes(world).send([ping], False, 0, Answers(), world.clock.now())


async def test_nothing_is_kept_for_a_store_that_is_away_for_too_long(
    world: World,
) -> None:
    await world.leave(world.first)
    world.clock.advance(15 * 60_000 + 1_000)
    with pytest.raises(ServerBusy, match="900 seconds"):
        routes(world).send([message()], False, 0, Answers(), world.clock.now())


async def test_nothing_is_kept_if_the_other_store_is_away_too(world: World) -> None:
    await world.leave(world.first)
    await world.leave(world.second)
    with pytest.raises(ServerBusy):
        routes(world).send([message()], False, 0, Answers(), world.clock.now())


async def test_a_disabled_or_demanding_entity_is_asked_by_its_description(
    world: World,
) -> None:
    queue = await world.namespace.create_queue("sessions", {"requires_session": True})
    assert queue.fragment().home is world.first
    await world.leave(world.first)
    with pytest.raises(NotAllowed, match="session id"):
        routes(world, "sessions").send(
            [message()], False, 0, Answers(), world.clock.now()
        )


async def test_the_order_is_given_up_if_the_log_is_away_for_too_long(
    world: World,
) -> None:
    link, sender = Answers(), routes(world)
    await world.leave(world.first)
    sender.send([message("0")], False, 0, link, world.clock.now())
    await world.until(lambda: link.accepted == [0])
    await world.leave(world.second)
    await world.come_back(world.first)
    with pytest.raises(ServerBusy):
        sender.send([message("1")], False, 1, link, world.clock.now())
    world.clock.advance(15 * 60_000 + 1_000)
    await world.until(fragment(world).is_reachable)
    sender.send([message("2")], False, 2, link, world.clock.now())
    await world.come_back(world.second)
    await world.delivered()
    assert received(fragment(world)) == ["2", "0"]


async def test_messages_with_a_key_are_kept_if_that_is_on() -> None:
    for keyed in (False, True):
        world = World(keyed=keyed)
        await world.start()
        await world.namespace.create_queue("all", {"enable_partitioning": True})
        link, sender = Answers(), routes(world, "all")
        await world.leave(world.first)
        for number in range(40):
            sent = message(str(number), group_id=f"key-{number}")
            try:
                sender.send([sent], False, number, link, world.clock.now())
            except FragmentUnavailable as error:
                link.failed([number], error)
        await world.come_back(world.first)
        await world.delivered()
        assert len(link.accepted) + len(link.errors) == 40
        assert bool(link.errors) is not keyed
        await world.stop()


async def test_with_one_store_there_is_no_detour() -> None:
    world = OneStore()
    await world.start()
    queue = await world.namespace.create_queue("orders", {})
    assert world.namespace.detour_of(queue) is None
    await world.stop()
