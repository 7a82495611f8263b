"""What the senders of a process share, and how it ends."""

import asyncio

import pytest

from twinbus.pairing.errors import PairFaulted
from twinbus.pairing.events import EventKind
from twinbus.pairing.failures import FailureKind

from .world import HANG, QUEUES, Failure, Refused, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")


def test_entity_is_one_in_any_letter_case() -> None:
    async def scene(world: World) -> None:
        assert world.pair.entity("orders") is world.pair.entity("ORDERS")
        assert world.pair.entity("orders") is not world.pair.entity("news")

    play(scene)


def test_changes_of_state_are_told() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        await world.pair.sender("orders").send(mails("a"))
        world.primary.answers.clear()
        await asyncio.sleep(61)
        await world.pair.sender("orders").send(mails("b"))
        assert world.told(EventKind.STATE_CHANGED) == [
            "suspect",
            "failed over",
            "recovering",
            "healthy",
        ]

    play(scene, failover_interval_ms=5_000)


def test_status_names_both_sides_and_what_is_wrong() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.secondary.answers = dict.fromkeys(QUEUES[:2], AWAY)
        await world.pair.sender("orders").send(mails("a"))
        await world.pair.sender("orders").send(mails("b"))
        status = world.pair.status()
        assert (status.primary, status.secondary) == ("north", "south")
        assert status.backlog_queues == QUEUES
        assert set(status.out_of_rotation) <= set(QUEUES[:2])
        (entity,) = status.entities
        assert (entity.state, entity.diverted) == ("failed over", 2)
        assert entity.last_failure == "no route"

    play(scene, failover_interval_ms=0)


def test_error_of_a_send_with_nowhere_to_go_has_its_cause() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        world.all_queues(Failure(FailureKind.QUOTA, "the backlog is full"))
        with pytest.raises(Refused, match=r"'south'.*the backlog is full") as caught:
            await world.pair.sender("orders").send(mails("a"))
        assert isinstance(caught.value.__cause__, Failure)

    play(scene, failover_interval_ms=0)


def test_closed_pair_pings_no_more_and_refuses() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        sender = world.pair.sender("orders")
        await sender.send(mails("a"))
        await world.pair.close()
        await asyncio.sleep(300)
        assert world.primary.count("ping") == 0
        with pytest.raises(Refused, match="closed"):
            await sender.send(mails("b"))

    play(scene, failover_interval_ms=0)


def test_suspect_entity_does_not_fail_over_after_the_end() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = AWAY
        with pytest.raises(Failure):
            await world.pair.sender("orders").send(mails("a"))
        await world.pair.close()
        await asyncio.sleep(300)
        assert world.told(EventKind.STATE_CHANGED) == ["suspect"]

    play(scene, wait_during_failover=False)


def test_calls_under_way_end_with_the_error_of_the_pair() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG
        sender, fault = world.pair.sender("orders"), PairFaulted("the other side ended")

        async def call() -> None:
            with world.pair.pending():
                await sender.send(mails("a"))

        task = asyncio.ensure_future(call())
        await asyncio.sleep(1)
        await world.pair.close(fault)
        with pytest.raises(PairFaulted):
            await task
        assert not task.cancelled()

    play(scene)


def test_cancellation_by_the_application_stays_one() -> None:
    async def scene(world: World) -> None:
        world.primary.answers["orders"] = HANG

        async def call() -> None:
            with world.pair.pending():
                await world.pair.sender("orders").send(mails("a"))

        task = asyncio.ensure_future(call())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(scene)


def test_sessions_are_watched_only_where_order_is_kept() -> None:
    async def scene(world: World) -> None:
        assert world.pair.sessions is None
        with pytest.raises(AssertionError):
            world.pair.the_sessions()

    play(scene)
