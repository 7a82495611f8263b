"""Pings: one per interval, until one is accepted."""

import asyncio

from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind
from twinbus.pairing.failures import FailureKind

from .world import HANG, Failure, World, mails, play

AWAY = Failure(FailureKind.CONNECTION, "no route")
SETTINGS = {
    "failover_interval_ms": 0,
    "ping_primary_interval_ms": 5_000,
    "attempt_timeout_ms": 1_000,
}


async def fail_over(world: World) -> None:
    world.primary.answers["orders"] = AWAY
    await world.pair.sender("orders").send(mails("a"))


def test_pings_come_once_per_interval_until_one_is_accepted() -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        await asyncio.sleep(12)
        assert [at for at, what, _ in world.primary.calls if what == "ping"] == [
            5_000,
            10_000,
        ]
        del world.primary.answers["orders"]
        await asyncio.sleep(61)
        assert world.primary.count("ping") == 3
        assert world.pair.entity("orders").state is State.RECOVERING
        assert world.told(EventKind.PINGED) == ["failed", "failed", "accepted"]

    play(scene, **SETTINGS)


def test_a2_busy_primary_is_left_alone_for_ten_seconds() -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        world.primary.answers["orders"] = Failure(FailureKind.BUSY, "throttled")
        await asyncio.sleep(26)
        pings = [at for at, what, _ in world.primary.calls if what == "ping"]
        assert pings == [5_000, 15_000, 25_000]

    play(scene, **SETTINGS)


def test_ping_that_hangs_is_given_up() -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        world.primary.answers["orders"] = HANG
        await asyncio.sleep(12.5)
        pings = [at for at, what, _ in world.primary.calls if what == "ping"]
        assert pings == [5_000, 11_000]
        assert world.pair.entity("orders").state is State.FAILED_OVER

    play(scene, **SETTINGS)


def test_only_what_has_failed_over_is_pinged() -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        await world.pair.sender("news").send(mails("b"))
        await asyncio.sleep(20)
        assert {path for _, what, path in world.primary.calls if what == "ping"} == {
            "orders"
        }

    play(scene, **SETTINGS)


def test_entity_that_fails_over_again_is_pinged_again() -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        del world.primary.answers["orders"]
        await asyncio.sleep(6)
        await fail_over(world)
        del world.primary.answers["orders"]
        await asyncio.sleep(6)
        assert world.told(EventKind.PINGED) == ["accepted", "accepted"]
        assert world.backlog() == ["a", "a"]

    play(scene, **SETTINGS)
