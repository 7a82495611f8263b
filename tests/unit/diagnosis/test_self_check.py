"""A4: the bus notices what it cannot mend, and nothing else."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import World, message

from twinbus.diagnosis.self_check import SelfCheck
from twinbus.store.lease import HeldLease

LOOK_MS = 1_000
STALL_MS = 30_000


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    await made.namespace.create_queue("orders", {})
    yield made
    await made.stop()


@pytest.fixture
def check(world: World) -> SelfCheck:
    return SelfCheck([world.owner], world.clock, STALL_MS)


def look(world: World, check: SelfCheck, passed_ms: int = LOOK_MS) -> str | None:
    world.clock.advance(passed_ms)
    sickness = check.look(LOOK_MS)
    return None if sickness is None else sickness.kind


async def send(world: World) -> None:
    fragment = world.namespace.entity("orders").fragment()
    fragment.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()


async def test_healthy_bus_is_not_sick(world: World, check: SelfCheck) -> None:
    for _ in range(40):
        await send(world)
        assert look(world, check) is None
        assert await check.count() is None


async def test_loop_may_be_late_at_times(world: World, check: SelfCheck) -> None:
    late = [look(world, check, 10_000) for _ in range(4)]
    assert late == [None] * 4
    assert look(world, check) is None
    late = [look(world, check, 10_000) for _ in range(4)]
    assert late == [None] * 4
    assert look(world, check, 10_000) == "lag"


async def test_owner_that_does_not_turn_is_noticed(
    world: World, check: SelfCheck
) -> None:
    async with world.owner.reading:
        # The loop waits for the mutex, as it would for a task that never ends.
        fragment = world.namespace.entity("orders").fragment()
        fragment.enqueue(message(), 1, world.clock.now(), world.owner.changes)
        world.owner.wake()
        assert {look(world, check) for _ in range(30)} == {None}
        assert look(world, check) == "stall"
    await world.settled()


async def test_idle_owner_and_slow_commit_are_no_sickness(
    world: World, check: SelfCheck
) -> None:
    assert {look(world, check) for _ in range(60)} == {None}
    world.owner.is_committing = True
    world.owner.wake()
    assert {look(world, check) for _ in range(60)} == {None}
    world.owner.is_committing = False
    await world.settled()


async def test_lease_that_ran_out_is_noticed(world: World, check: SelfCheck) -> None:
    world.owner.lease._held = HeldLease(1, 10_000, world.clock.monotonic())
    assert {look(world, check) for _ in range(7)} == {None}
    assert look(world, check) == "lease"
    world.owner.lease._held = HeldLease(1, 0, 0)


async def test_process_that_was_stopped_is_not_sick(
    world: World, check: SelfCheck
) -> None:
    """Its owners have had no turn since. If they do nothing about it, that is."""
    world.owner.lease._held = HeldLease(1, 10_000, world.clock.monotonic())
    world.owner.must_turn = True
    assert look(world, check, 40_000) is None
    assert look(world, check) == "lease"
    world.owner.lease._held = HeldLease(1, 0, 0)
    assert look(world, check) is None


async def test_wrong_counter_is_noticed(world: World, check: SelfCheck) -> None:
    await send(world)
    assert await check.count() is None
    fragment = world.namespace.entity("orders").fragment()
    for wrong in (0, 2):
        fragment.active_count = wrong
        sickness = await check.count()
        assert sickness is not None
        assert sickness.kind == "counters"
        assert f"'orders' counts {wrong} active messages" in sickness.text
    fragment.active_count = 1


async def test_counter_is_not_compared_while_something_changes(
    world: World, check: SelfCheck
) -> None:
    await send(world)
    fragment = world.namespace.entity("orders").fragment()
    fragment.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    assert await check.count() is None
    await world.owner.durable()
    fragment.active_count = 1_000_000
    assert await check.count() is None, "too many to be counted"
    fragment.active_count = 2
