"""Sends of a session wait for its backlog, if order is kept."""

import asyncio

import pytest

from twinbus.pairing.failures import FailureKind
from twinbus.pairing.pair import Pair

from .world import HANG, QUEUES, Failure, Mail, Refused, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")
SETTINGS = {
    "failover_interval_ms": 0,
    "attempt_timeout_ms": 1_000,
    "send_timeout_ms": 20_000,
    "ping_primary_interval_ms": 1_000,
    "backlog_retry_ms": 3_000,
    "session_wait_ms": 4_000,
    "keep_session_order": True,
}


async def leave_behind(world: World, pair: Pair[Mail], text: str = "a") -> str:
    """Divert a message of session s, then let the primary be back; where it waits."""
    world.primary.answers["orders"] = AWAY
    await pair.sender("orders").send(mails(text, "s"))
    world.primary.answers.clear()
    await asyncio.sleep(1.1)
    assert not pair.entity("orders").is_diverted()
    return next(queue for queue in QUEUES if world.secondary.texts(queue))


def test_message_goes_straight_when_the_backlog_of_its_session_is_gone() -> None:
    async def scene(world: World) -> None:
        await leave_behind(world, world.pair)
        loop = asyncio.get_running_loop()
        loop.call_later(2, world.secondary.held.clear)
        await world.pair.sender("orders").send(mails("b", "s"))
        assert world.primary.texts("orders") == ["b"]
        assert 3_000 < world.now() < 4_500

    play(scene, **SETTINGS)


def test_message_joins_a_backlog_that_does_not_end() -> None:
    async def scene(world: World) -> None:
        queue = await leave_behind(world, world.pair)
        await world.pair.sender("orders").send(mails("b", "s"))
        assert world.secondary.texts(queue) == ["a", "b"]
        assert world.primary.texts("orders") == []

    play(scene, **SETTINGS)


def test_other_sessions_and_messages_without_one_do_not_wait() -> None:
    async def scene(world: World) -> None:
        await leave_behind(world, world.pair)
        began = world.now()
        await world.pair.sender("orders").send(mails("b", "t"))
        await world.pair.sender("orders").send(mails("c"))
        assert world.now() - began < 500
        assert world.primary.texts("orders") == ["b", "c"]

    play(scene, **SETTINGS)


def test_session_of_another_entity_does_not_wait() -> None:
    async def scene(world: World) -> None:
        await leave_behind(world, world.pair)
        await world.pair.sender("news").send(mails("b", "s"))
        assert world.primary.texts("news") == ["b"]

    play(scene, **SETTINGS)


def test_process_that_starts_finds_what_another_has_left() -> None:
    async def scene(world: World) -> None:
        queue = await leave_behind(world, world.pair)
        other = world.new_pair()
        await other.sender("orders").send(mails("b", "s"))
        assert world.secondary.texts(queue) == ["a", "b"]
        await other.close()

    play(scene, **SETTINGS)


def test_process_that_starts_in_an_outage_joins_the_queue_of_its_predecessor() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        waiting = next(queue for queue in QUEUES if queue != own)
        # The own queue of the session was out of use when it was diverted.
        world.secondary.held = {waiting: world.secondary.held[own]}
        world.primary.answers["orders"] = AWAY
        other = world.new_pair()
        await other.sender("orders").send(mails("b", "s"))
        assert world.secondary.texts(waiting) == ["a", "b"]
        await other.close()

    play(scene, **SETTINGS)


def test_session_without_backlog_takes_any_queue_when_its_own_has_failed() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        world.secondary.held.clear()
        await world.pair.sender("orders").send(mails("b", "s"))
        world.primary.answers["orders"] = AWAY
        world.secondary.answers[own] = AWAY
        await world.pair.sender("orders").send(mails("cd", "s"))
        assert sorted(world.backlog()) == ["c", "d"]
        assert world.secondary.texts(own) == []

    play(scene, **SETTINGS)


def test_session_with_backlog_waits_for_its_queue() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        world.primary.answers["orders"] = AWAY
        world.secondary.answers[own] = AWAY
        loop = asyncio.get_running_loop()
        loop.call_later(5, world.secondary.answers.clear)
        await world.pair.sender("orders").send(mails("b", "s"))
        assert world.secondary.texts(own) == ["a", "b"]

    play(scene, **SETTINGS)


def test_queue_that_stays_away_ends_the_call_in_its_time() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        world.primary.answers["orders"] = AWAY
        world.secondary.answers[own] = AWAY
        began = world.now()
        with pytest.raises(Refused, match="none of the 3 backlog queues"):
            await world.pair.sender("orders").send(mails("b", "s"), 10.0)
        assert world.now() - began == pytest.approx(10_000, abs=10)
        assert sorted(world.backlog()) == ["a"]

    play(scene, **SETTINGS)


@pytest.mark.parametrize("answer", [AWAY, HANG])
def test_secondary_that_is_away_holds_a_healthy_primary_up_once(
    answer: Exception,
) -> None:
    async def scene(world: World) -> None:
        world.all_queues(answer)
        sender = world.pair.sender("orders")
        await sender.send(mails("a", "s"))
        began = world.now()
        assert began <= 4_010
        await sender.send(mails("b", "t"))
        assert world.now() == began
        assert world.primary.texts("orders") == ["a", "b"]

    play(scene, **SETTINGS)


def test_silent_secondary_is_not_waited_for_longer_than_a_short_call_can() -> None:
    async def scene(world: World) -> None:
        world.all_queues(HANG)
        await world.pair.sender("orders").send(mails("a", "s"), 0.5)
        assert world.now() <= 260
        assert world.primary.texts("orders") == ["a"]

    play(scene, **SETTINGS)


def test_long_backlog_that_answers_is_waited_for() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        world.secondary.held[own] = world.secondary.held[own] * 2_000
        world.secondary.takes_time = 0.9
        other = world.new_pair()
        await other.sender("orders").send(mails("b", "t"))
        # Its look has not come to the end: something of t may be there.
        assert world.primary.texts("orders") == []
        assert world.backlog().count("b") == 1
        await other.close()

    play(scene, **SETTINGS)


def test_failed_queue_is_left_alone_for_a_while_by_looks_too() -> None:
    async def scene(world: World) -> None:
        own = await leave_behind(world, world.pair)
        world.secondary.answers[own] = AWAY
        world.secondary.calls.clear()
        with pytest.raises(Refused):
            await world.pair.sender("orders").send(mails("b", "s"), 8.0)
        looks = [
            at
            for at, what, path in world.secondary.calls
            if (what, path) == ("peek", own)
        ]
        assert len(looks) <= 4

    play(scene, **SETTINGS)


def test_looks_are_shared_by_those_who_wait() -> None:
    async def scene(world: World) -> None:
        senders = [world.pair.sender("orders") for _ in range(5)]
        await asyncio.gather(
            *(one.send(mails("a", f"s{i}")) for i, one in enumerate(senders))
        )
        assert world.secondary.count("peek") == len(QUEUES)

    play(scene, **SETTINGS)
