"""The shell around an entity's health: its timer, and its waiters."""

import asyncio
from collections.abc import Awaitable, Callable

from simulator.clock import SimulatedClock
from simulator.loop import VirtualLoop, run_virtually
from twinbus.pairing.entity_health import State
from twinbus.pairing.paired_entity import PairedEntity


def play(scene: Callable[[PairedEntity, list[State]], Awaitable[None]]) -> None:
    """On an entity that fails over after a second."""
    loop = VirtualLoop()
    states: list[State] = []

    async def act() -> None:
        entity = PairedEntity(
            "orders", 1_000, SimulatedClock(loop), lambda one: states.append(one.state)
        )
        await scene(entity, states)
        entity.stop()

    run_virtually(loop, act())


def test_interval_ends_by_itself() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        entity.send_failed("away")
        await asyncio.sleep(1.01)
        assert states == [State.SUSPECT, State.FAILED_OVER]

    play(scene)


def test_success_stops_the_timer() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        entity.send_failed("away")
        await asyncio.sleep(0.5)
        entity.send_succeeded()
        await asyncio.sleep(5)
        assert states == [State.SUSPECT, State.HEALTHY]

    play(scene)


def test_second_suspicion_has_a_timer_of_its_own() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        entity.send_failed("away")
        await asyncio.sleep(0.9)
        entity.send_succeeded()
        entity.send_failed("away")
        await asyncio.sleep(0.9)
        assert not entity.is_diverted()
        await asyncio.sleep(0.2)
        assert entity.is_diverted()

    play(scene)


def test_change_wakes_those_who_wait() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        loop = asyncio.get_running_loop()
        entity.send_failed("away")
        await entity.changed(30_000)
        assert 1.0 <= loop.time() < 1.1
        assert entity.is_diverted()
        await entity.changed(2_000)
        assert 3.0 <= loop.time() < 3.2

    play(scene)


def test_time_until_failover_is_known_only_while_suspect() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        assert entity.until_failover_ms() is None
        entity.send_failed("away")
        await asyncio.sleep(0.4)
        assert entity.until_failover_ms() == 600
        await asyncio.sleep(1)
        assert entity.until_failover_ms() is None

    play(scene)


def test_status_tells_the_story() -> None:
    async def scene(entity: PairedEntity, states: list[State]) -> None:
        assert entity.status().since_seconds == 0.0
        entity.send_failed("no route")
        await asyncio.sleep(3.001)
        entity.ping_count, entity.diverted_count = 2, 7
        entity.ping_failed("still no route")
        status = entity.status()
        assert (status.path, status.state, status.failovers) == (
            "orders",
            "failed over",
            1,
        )
        assert (status.pings, status.diverted) == (2, 7)
        assert status.last_failure == "still no route"
        assert 1.9 < status.since_seconds < 2.1

    play(scene)
