"""Pings: one per interval, until one is accepted."""

import asyncio
from pathlib import Path

from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.pinger import Pinger
from twinbus.pairing.send_log import SendLog

from .test_send_log import rows
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


def test_each_ping_is_in_the_send_log(tmp_path: Path) -> None:
    """The meter bills pings that nobody answered, and no store has them (P13)."""

    async def scene(world: World) -> None:
        log = world.pair.send_log = SendLog(
            tmp_path, "north", world.clock, every_seconds=60
        )
        await fail_over(world)
        await asyncio.sleep(6)
        world.primary.answers["orders"] = HANG
        await asyncio.sleep(6)
        world.primary.answers["orders"] = Failure(FailureKind.DISABLED, "disabled")
        await asyncio.sleep(5)
        del world.primary.answers["orders"]
        await asyncio.sleep(5)
        world.pair.send_log = None
        log.close()

    play(scene, **SETTINGS)
    pings = [row for row in rows(tmp_path) if row["operation"] == "ping"]
    assert [(row["result"], row["reason"]) for row in pings] == [
        ("unknown", "no route"),
        ("unknown", "no answer in time"),
        ("failed", "disabled"),
        ("ok", None),
    ]
    assert {(row["entity"], row["namespace"]) for row in pings} == {("orders", "north")}
    assert {row["message_uid"] for row in pings} == {None}
    times = [row["occurred_at"].timestamp() for row in pings]
    assert [round(time - times[0]) for time in times] == [0, 5, 11, 16]
    assert [row["latency_ms"] for row in pings] == [0, 1_000, 0, 0]


def test_a_ping_that_the_end_cuts_short_is_in_the_send_log(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await fail_over(world)
        world.primary.answers["orders"] = HANG
        pinger = Pinger(world.pair, world.pair.entity("orders"))
        pinging = asyncio.create_task(pinger.run())
        await asyncio.sleep(5.5)
        log = world.pair.send_log = SendLog(
            tmp_path, "north", world.clock, every_seconds=60
        )
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)
        world.pair.send_log = None
        log.close()

    play(scene, **SETTINGS)
    [ping] = rows(tmp_path)
    assert (ping["operation"], ping["result"]) == ("ping", "unknown")
    assert (ping["reason"], ping["latency_ms"]) == ("cancelled", 500)
