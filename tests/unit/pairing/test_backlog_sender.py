"""The detour: which queue gets a message, and what happens if it fails."""

import asyncio

import pytest

from twinbus.pairing.events import EventKind
from twinbus.pairing.failures import FailureKind

from .world import HANG, QUEUES, Failure, Refused, TimedOut, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")
SETTINGS = {
    "failover_interval_ms": 0,
    "attempt_timeout_ms": 2_000,
    "send_timeout_ms": 20_000,
    "backlog_retry_ms": 30_000,
    "busy_wait_ms": 10_000,
}


async def diverted_to(world: World) -> str:
    """Send one message through the detour; the queue that has it."""
    world.primary.answers["orders"] = AWAY
    await world.pair.sender("orders").send(mails("x"))
    (queue,) = world.secondary.held
    return queue


def test_sender_keeps_to_its_queue() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        for text in "abcdef":
            await sender.send(mails(text))
        assert len(world.secondary.held) == 1

    play(scene, **SETTINGS)


def test_large_call_goes_in_portions() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.secondary.batch_count = 2
        await world.pair.sender("orders").send(mails("abcde"))
        assert world.backlog() == ["a", "b", "c", "d", "e"]
        assert world.secondary.count("send") == 3

    play(scene, **SETTINGS)


@pytest.mark.parametrize("answer", [AWAY, HANG, Failure(FailureKind.DISABLED)])
def test_failed_queue_is_out_for_everybody_and_another_takes_over(
    answer: Exception,
) -> None:
    async def scene(world: World) -> None:
        failed = await diverted_to(world)
        world.secondary.answers[failed] = answer
        await world.pair.sender("orders").send(mails("a"))
        for text in "bcd":
            await world.pair.sender("orders").send(mails(text))
        assert world.secondary.texts(failed) == ["x"]
        assert sorted(world.backlog()) == ["a", "b", "c", "d", "x"]
        calls = [path for _, what, path in world.secondary.calls if path == failed]
        assert len(calls) <= 2
        assert world.pair.status().out_of_rotation in ((failed,), ())

    play(scene, **SETTINGS)


def test_queue_is_tried_again_after_a_while() -> None:
    async def scene(world: World) -> None:
        failed = await diverted_to(world)
        world.secondary.answers[failed] = AWAY
        await world.pair.sender("orders").send(mails("a"))
        while failed not in world.pair.status().out_of_rotation:
            await world.pair.sender("orders").send(mails("a"))
        world.secondary.answers.clear()
        await asyncio.sleep(30)
        while not world.told(EventKind.BACKLOG_QUEUE_BACK):
            await world.pair.sender("orders").send(mails("b"))
        assert "b" in world.secondary.texts(failed)

    play(scene, **SETTINGS)


def test_send_with_time_left_waits_for_a_secondary_that_comes_back() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        sending = asyncio.create_task(world.pair.sender("orders").send(mails("a"), 20))
        await asyncio.sleep(2.5)
        assert set(world.pair.status().out_of_rotation) == set(QUEUES)
        world.secondary.answers.clear()
        await sending
        # One pause after it is back, and not thirty seconds.
        assert world.now() <= 2_500 + 2_000
        assert world.backlog() == ["a"]

    play(scene, **SETTINGS)


def test_send_whose_time_ends_without_a_queue_gets_the_error() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        with pytest.raises(Refused, match="none of the 3 backlog queues"):
            await world.pair.sender("orders").send(mails("a"), 5.0)
        assert world.now() == 5_000
        # It was tried again, and not all the time.
        assert 4 <= len(world.secondary.calls) <= 12

    play(scene, **SETTINGS)


@pytest.mark.parametrize("seconds", [1.2, 1.7, 2.2, 2.7, 3.2, 3.7, 4.2, 4.7])
def test_time_that_ends_in_another_try_of_a_queue_that_failed_is_the_same(
    seconds: float,
) -> None:
    """Some of these end in a pause, others while a queue is tried again."""

    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        sender = world.pair.sender("orders")
        sending = asyncio.create_task(sender.send(mails("a"), seconds))
        await asyncio.sleep(0.9)
        world.all_queues(HANG)
        with pytest.raises(Refused, match="none of the 3 backlog queues"):
            await sending
        assert world.now() == seconds * 1000

    play(scene, **SETTINGS)


def test_send_that_is_not_to_wait_fails_at_once() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        with pytest.raises(Refused, match="none of the 3 backlog queues"):
            await world.pair.sender("orders").send(mails("a"))
        assert world.now() == 0

    play(scene, **SETTINGS, wait_during_failover=False)


def test_send_that_waits_for_a_queue_takes_the_primary_if_that_is_back_first() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(AWAY)
        sending = asyncio.create_task(world.pair.sender("orders").send(mails("a"), 200))
        await asyncio.sleep(1)
        world.primary.answers.clear()
        await sending
        assert world.primary.texts("orders") == ["a"]
        assert world.backlog() == []

    play(scene, **SETTINGS)


def test_busy_queue_is_left_alone_for_ten_seconds() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(Failure(FailureKind.BUSY))
        sending = asyncio.create_task(world.pair.sender("orders").send(mails("a"), 40))
        await asyncio.sleep(1)
        world.secondary.answers.clear()
        await sending
        assert 10_000 <= world.now() <= 13_000
        assert [at for at, _, _ in world.secondary.calls][:3] == [0, 0, 0]
        assert len(world.secondary.calls) == 4
        assert world.backlog() == ["a"]

    play(scene, **SETTINGS)


def test_refusal_that_is_not_the_queues_fault_is_the_callers() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(Failure(FailureKind.AUTHORIZATION))
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"))
        assert world.pair.status().out_of_rotation == ()

    play(scene, **SETTINGS)


def test_message_that_the_detour_makes_too_large_is_told_apart() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(Failure(FailureKind.TOO_LARGE, "262145 bytes"))
        with pytest.raises(Refused, match=r"room of about 1 KB.*262145 bytes"):
            await world.pair.sender("orders").send(mails("a"))
        assert world.pair.status().out_of_rotation == ()

    play(scene, **SETTINGS)


def test_frozen_queues_end_with_the_time_of_the_call() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(HANG)
        with pytest.raises((TimedOut, Refused)):
            await world.pair.sender("orders").send(mails("a"), 5.0)
        assert world.now() == 5_000

    play(scene, **SETTINGS)


def test_call_with_too_little_time_says_nothing_of_the_queue() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.secondary.takes_time = 0.5
        with pytest.raises(TimedOut):
            await world.pair.sender("orders").send(mails("a"), 0.1)
        assert world.pair.status().out_of_rotation == ()
        await world.pair.sender("orders").send(mails("b"))
        assert world.backlog() == ["b"]

    play(scene, **SETTINGS)


def test_what_was_taken_is_not_sent_again_to_the_next_queue() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.secondary.batch_count = 2
        sender = world.pair.sender("orders")
        loop = asyncio.get_running_loop()
        world.secondary.takes_time = 0.1
        loop.call_later(0.15, lambda: world.all_queues(AWAY))
        loop.call_later(0.25, world.secondary.answers.clear)
        await sender.send(mails("abcd"))
        assert sorted(world.backlog()) == ["a", "b", "c", "d"]

    play(scene, **SETTINGS)


def test_diversions_are_counted_and_told() -> None:
    async def scene(world: World) -> None:
        queue = await diverted_to(world)
        told = [event for event in world.events if event.kind is EventKind.DIVERTED]
        assert [(one.path, one.queue, one.count) for one in told] == [
            ("orders", queue, 1)
        ]
        (status,) = world.pair.status().entities
        assert status.diverted == 1

    play(scene, **SETTINGS)
