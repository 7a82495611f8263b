"""A store whose lease ends while it hangs, with messages that it may return."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from twinbus.errors import StoreRefused
from twinbus.store.base import CommitUnknown, StoreError

from .test_transfer_log_room import Sender, received
from .world import Fault, World

TERM_MS = 6_000


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    for store in world.stores:
        store.inner.disk.lease_term_ms = TERM_MS
    await world.start()
    yield world
    await world.stop()


class HangingLease:
    """Its renewal is not answered before the gate is open, and fails then."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        self.gate = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def renew(self, now: int) -> None:
        self.is_asked.set()
        await self.gate.wait()
        raise StoreError("the connection was lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lease, name)


async def hang_in_a_commit(world: World, sender: Sender) -> None:
    """Until the lease is over, the commit of the next message is not answered."""
    store = world.store_of(world.first)
    store.gate.clear()
    store.is_committing.clear()
    sender.send()
    await world.until(store.is_committing.is_set)
    await world.until(lambda: not world.first.is_serving)
    assert world.first.is_committing


async def back_in_service(world: World) -> None:
    await world.until(lambda: world.first.is_serving)
    await world.delivered()


async def test_what_a_commit_returns_after_the_lease_does_not_follow_later_ones(
    world: World,
) -> None:
    sender, store = Sender(world), world.store_of(world.first)
    await hang_in_a_commit(world, sender)
    sender.send()
    sender.send()
    store.faults.append(Fault(CommitUnknown("the connection was lost")))
    store.gate.set()
    await sender.answered()
    # The sender is told that nothing happened, and decides.
    assert sender.answers.accepted == [1, 2]
    [error] = sender.answers.errors
    assert isinstance(error, StoreRefused)
    assert error.retryable
    sender.send()
    await back_in_service(world)
    assert await received(world, world.here.fragment(), 3) == ["1", "2", "3"]


async def test_what_a_commit_has_stored_after_the_lease_comes_first(
    world: World,
) -> None:
    sender, store = Sender(world), world.store_of(world.first)
    await hang_in_a_commit(world, sender)
    sender.send()
    store.gate.set()
    await sender.answered()
    await back_in_service(world)
    assert sorted(sender.accepted) == [0, 1]
    assert await received(world, world.here.fragment(), 2) == ["0", "1"]


async def test_what_waited_for_a_renewal_does_not_follow_later_ones(
    world: World,
) -> None:
    sender, store = Sender(world), world.store_of(world.first)
    lease = HangingLease(store.inner.lease)
    store.inner.lease = lease
    await world.until(lease.is_asked.is_set)
    # It is in no commit yet.
    sender.send()
    await world.until(lambda: not world.first.is_serving)
    sender.send()
    store.faults.append(Fault(CommitUnknown("the connection was lost")))
    lease.gate.set()
    await sender.answered()
    store.inner.lease = lease._lease
    assert sender.answers.accepted == [1]
    await back_in_service(world)
    assert await received(world, world.here.fragment(), 1) == ["1"]


async def test_what_a_commit_returns_after_the_lease_is_kept_if_it_is_the_last(
    world: World,
) -> None:
    sender, store = Sender(world), world.store_of(world.first)
    await hang_in_a_commit(world, sender)
    store.faults.append(Fault(CommitUnknown("the connection was lost")))
    store.gate.set()
    await sender.answered()
    await back_in_service(world)
    assert sender.accepted == [0]
    # Later losses begin anew.
    await hang_in_a_commit(world, sender)
    store.faults.append(Fault(CommitUnknown("the connection was lost")))
    store.gate.set()
    await sender.answered()
    await back_in_service(world)
    assert sender.accepted == [0, 1]
    assert await received(world, world.here.fragment(), 2) == ["0", "1"]
