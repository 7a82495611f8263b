"""Requests that hold several stores: in one order, and all are waited for."""

import asyncio

import pytest
from unit.entities.world import Fault, World, take_time

from twinbus.errors import ServerBusy
from twinbus.operations.deferred import receive_deferred
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import Reading, durable, owners_of
from twinbus.store.base import CommitFailed

from .callers import opened
from .spread import fragments, owner_at
from .test_deferred import deferred

PATIENCE = 5


@pytest.fixture
async def parts(several: World) -> list[FragmentHandle]:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    return opened(several).parts()


async def test_stores_are_held_once_each_and_in_one_order(
    several: World, parts: list[FragmentHandle]
) -> None:
    backwards = owners_of(reversed(parts))
    assert owners_of(parts) == backwards
    assert set(backwards) == set(several.owners)
    uuids = [owner.store_uuid for owner in backwards]
    assert uuids == sorted(uuids)


async def test_two_requests_with_the_same_stores_do_not_wait_for_ever(
    parts: list[FragmentHandle],
) -> None:
    done: list[str] = []

    async def hold(name: str, wanted: list[FragmentHandle]) -> None:
        async with Reading(wanted):
            await asyncio.sleep(0)
            done.append(name)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(
            *(hold("forwards", parts), hold("backwards", parts[::-1])),
            *(hold("some", [parts[1], parts[2]]), hold("others", parts[2:0:-1])),
        )
    assert sorted(done) == ["backwards", "forwards", "others", "some"]
    assert not any(owner.reading.locked() for owner in owners_of(parts))


async def test_request_that_is_cancelled_while_it_waits_lets_go(
    parts: list[FragmentHandle],
) -> None:
    first, *_, last = owners_of(parts)
    async with last.reading:
        waiting = asyncio.create_task(Reading(parts).__aenter__())
        while not first.reading.locked():
            await take_time()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not any(owner.reading.locked() for owner in owners_of(parts))


async def test_requests_in_all_orders_end(several: World) -> None:
    numbers = await deferred(several)
    orders = [numbers, numbers[::-1], numbers[2:] + numbers[:2], numbers[1::-1]]
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(
            *(receive_deferred(opened(several), o, peek_lock=True) for o in orders),
            return_exceptions=True,
        )
    received = [found for found in outcomes if isinstance(found, list)]
    assert [len(found) for found in received] == [4]


async def test_error_of_one_store_is_told_when_all_have_answered(
    several: World, parts: list[FragmentHandle]
) -> None:
    failing = owner_at(several, 1)
    store = next(one for one in several.stores if failing._store is one)
    store.faults.append(Fault(CommitFailed("it did not happen")))
    for part in parts:
        part.fragment.touch(part.owner.changes)
    with pytest.raises(ServerBusy):
        await durable(parts)
    others = [one for one in fragments(several) if one.home is not failing]
    assert len(others) > 1
    assert all(owner.is_idle() for owner in several.owners)
