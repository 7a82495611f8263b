"""Receivers of a store that goes away, and comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from unit.entities.world import Client, Fault
from unit.operations.callers import opened
from unit.outbox.world import World, body_of, message

from twinbus.links.sending import accept
from twinbus.operations.receiving import receive
from twinbus.store.base import StoreError


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    yield world
    await world.stop()


async def send(world: World, body: str) -> None:
    accept(world.here.fragment(), message(body), 0, world.clock.now())
    world.first.wake()
    await world.until(world.first.is_idle)


def fail_for_good(world: World) -> None:
    """Nobody learns what became of the next commit, and the store stays away."""
    store = world.store_of(world.first)
    store.faults.append(Fault(StoreError("the disk does not answer"), happens=True))
    store.errors["lease"] = StoreError("the store is away")


async def test_what_was_promised_by_a_commit_that_nobody_knows_of_is_not_awaited(
    world: World,
) -> None:
    fragment, client = world.here.fragment(), Client(peek_lock=False, wanted=1)
    await send(world, "0")
    world.first.join(fragment, client)
    fail_for_good(world)
    world.first.offer_capacity(fragment, client)
    await world.until(lambda: not world.first.is_serving)
    assert client.removed == []
    assert client.promised_count == 0
    await world.come_back(world.first)
    # The first one is lost, as receive-and-delete allows. The link takes others.
    await send(world, "1")
    await world.until(lambda: bool(client.removed))
    assert [body_of(found) for found in client.removed] == ["1"]


async def test_receivers_that_wait_for_an_answer_get_it_when_the_store_goes_away(
    world: World,
) -> None:
    fragment, client = world.here.fragment(), Client(peek_lock=False, wanted=1)
    await send(world, "0")
    world.first.join(fragment, client)
    fail_for_good(world)
    world.first.offer_capacity(fragment, client)
    assert client.served_count == 0
    await world.until(lambda: not world.first.is_serving)
    await world.until(lambda: client.served_count == 1)


async def test_request_whose_removal_nobody_knows_of_ends(world: World) -> None:
    await send(world, "0")
    fail_for_good(world)
    asked = receive(opened(world, "here"), 1, 0, peek_lock=False)
    request = asyncio.create_task(asked)
    await world.until(request.done)
    assert await request == []
    assert not world.first.is_serving
