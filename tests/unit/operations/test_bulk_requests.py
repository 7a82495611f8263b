"""Bulk requests, interleaved with failed commits, repeated plans and other clients."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from unit.entities.world import FaultyStore, World, message

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.outline import Outlines
from twinbus.errors import ServerBusy
from twinbus.operations.bulk import plan_holds, plans, settlements
from twinbus.operations.bulk.reading import open_source
from twinbus.operations.bulk.requests import (
    FragmentRuntime,
    PlanLimits,
    PlanRequest,
    SettleRequest,
)
from twinbus.store.base import CommitFailed

from .test_reader_leases import Reader, counted, send, stored


@pytest.fixture
async def queue(world: World) -> Fragment:
    return (await world.namespace.create_queue("orders", {})).fragment()


@pytest.fixture
def reader(world: World) -> Reader:
    return Reader(world)


# --- bounds -------------------------------------------------------------------------


async def bounds(reader: Reader) -> FragmentRuntime:
    [found] = await reader.bulk.runtime(reader.caller, ["orders"])
    assert found is not None
    [fragment] = found.fragments
    return fragment


async def test_next_number_is_none_that_may_be_given_again(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """Who began behind one whose commit fails would miss a message."""
    await send(world, queue, 2)
    world.store.gate.clear()
    sending = asyncio.ensure_future(send(world, queue))
    await world.store.is_committing.wait()
    asked = asyncio.ensure_future(bounds(reader))
    await asyncio.sleep(0)
    queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    world.store.gate.set()
    await sending
    assert (await asked).next == 4


async def test_next_number_is_behind_the_first(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """Also if that came while the bounds were read."""
    async with world.owner.reading:
        asked = asyncio.ensure_future(bounds(reader))
        await asyncio.sleep(0)
        changes = ChangeSet()
        queue.enqueue(message(), 1, world.clock.now(), changes)
        changes.seal(world.owner.epoch, world.owner.last_batch + 1, world.clock.now())
        await world.store.commit(changes)
    found = await asked
    assert (found.first, found.next) == (1, 2)


# --- plans --------------------------------------------------------------------------


async def planned(
    world: World, reader: Reader, epoch: str, limit: int, *others: str
) -> list[int]:
    """How many messages of the queue, and of others that are only looked at."""
    requests = [
        PlanRequest(
            path=path,
            generation=world.namespace.queue(path).record.generation.hex(),
            epoch=epoch if path == "orders" else None,
            firsts={0: 1},
        )
        for path in ("orders", *others)
    ]
    limits = PlanLimits(
        max_messages=limit, max_bytes=1 << 20, split_messages=10, is_aligned=False
    )
    return counted(
        list(await reader.bulk.plan(reader.caller, "spark", requests, limits))
    )


async def test_of_two_plans_the_last_one_counts(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """A reader that got no answer asks again: the first plan, if it takes longer, must
    not shorten what the reader goes by."""
    others = [f"other-{number}" for number in range(10)]
    for path in others:
        await send(world, (await world.namespace.create_queue(path, {})).fragment())
    await send(world, queue, 5)
    epoch = await reader.take()
    first, last = await asyncio.gather(
        planned(world, reader, epoch, 2, *others),
        planned(world, reader, epoch, 4),
        return_exceptions=True,
    )
    assert last == [4]
    assert isinstance(first, ServerBusy)
    assert "'orders' was planned anew" in first.text
    assert (await stored(world)).planned_through == 4
    assert await reader.settle(epoch, 5) == 4


async def test_of_many_entities_little_is_held_of_each(
    world: World, queue: Fragment, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a plan holds does not grow with their number, and nothing is left out."""
    monkeypatch.setattr(plans, "_HELD", 12)
    others = [f"other-{number}" for number in range(3)]
    for path in others:
        await send(world, (await world.namespace.create_queue(path, {})).fragment(), 10)
    await send(world, queue, 10)
    outlines = world.store.inner.outlines
    limits: list[int] = []

    async def noted(number: int, first: int, last: int, limit: int) -> Outlines:
        limits.append(limit)
        return await outlines(number, first, last, limit)

    monkeypatch.setattr(world.store.inner, "outlines", noted)
    epoch = await reader.take()
    assert await planned(world, reader, epoch, 100, *others) == [10] * 4
    assert set(limits) == {3}


async def turns_during(work: Coroutine[Any, Any, Any]) -> int:
    """How often others have their turn."""
    task, count = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    await task
    return count


async def test_bounds_by_time_leave_others_their_turns(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """One for each look at the store; a hundred numbers are halved six times."""
    await send(world, queue, 100)
    source = open_source(world.namespace, "orders", reader.caller).part(0)
    assert await turns_during(plan_holds.first_since(source, world.clock.now() + 1)) > 6


# --- settling -----------------------------------------------------------------------


def fail_once_after(store: FaultyStore, count: int) -> None:
    """So many commits succeed, and then one does not."""
    commit = store.commit

    async def failing(changes: ChangeSet) -> None:
        nonlocal count
        count -= 1
        if count == -1:
            raise CommitFailed("told to")
        await commit(changes)

    store.commit = failing  # type: ignore[method-assign]


async def test_settlement_of_which_a_part_is_done_says_so(
    world: World, queue: Fragment, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlements, "_PORTION", 2)
    await send(world, queue, 5)
    epoch = await reader.take()
    verdict = SettleRequest(path="orders", epoch=epoch, defer=[1, 2, 3, 4, 5])
    fail_once_after(world.store, 1)
    with pytest.raises(ServerBusy, match="it stopped at 'orders'") as refused:
        await reader.bulk.settle(reader.caller, "spark", [verdict])
    assert "nothing" not in refused.value.text
    assert queue.deferred_count == 2
    [settled] = await reader.bulk.settle(reader.caller, "spark", [verdict])
    assert (settled.deferred, queue.deferred_count) == (3, 5)
