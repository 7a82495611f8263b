"""An owner keeps its lease: renewed in time, over before another can have it."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import Client, World, message

from twinbus.broker.fragment import Fragment
from twinbus.errors import InternalError, StoreRefused
from twinbus.owner.owner_state import OwnerState
from twinbus.store.base import LeaseLost, StoreError, StoreInUse
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.opening import open_store

TERM_MS = 30_000


class UnreachableLease:
    """A lease that cannot be renewed, because the store does not answer."""

    def __init__(self, store: MemoryStore) -> None:
        self.lease = store.lease
        self.asked_at: list[int] = []
        self.is_reachable = False

    @property
    def term_ms(self) -> int:
        return self.lease.term_ms

    async def take(self, owner: str, now: int) -> int:
        return await self.lease.take(owner, now)

    async def renew(self, now: int) -> None:
        self.asked_at.append(now)
        if not self.is_reachable:
            raise StoreError("no answer")
        await self.lease.renew(now)

    async def give_back(self) -> None:
        await self.lease.give_back()


@pytest.fixture
async def timed() -> AsyncIterator[World]:
    """A world whose store lends its lease for a term."""
    world = World()
    world.store.inner = MemoryStore(MemoryDisk(TERM_MS))
    await world.start()
    yield world
    if not world.fatal:
        await world.stop()


@pytest.fixture
async def queue(timed: World) -> Fragment:
    return (await timed.namespace.create_queue("orders", {})).fragment()


async def rival(world: World) -> MemoryStore:
    """Another owner of the same disk."""
    store = MemoryStore(world.store.inner.disk)
    await open_store(store, "rival", world.clock.now())
    return store


def unreachable(world: World) -> UnreachableLease:
    lease = UnreachableLease(world.store.inner)
    world.store.lease = lease  # type: ignore[attr-defined]
    return lease


async def pass_time(world: World, duration_ms: int) -> None:
    for _ in range(duration_ms // 100):
        if not world.fatal:
            await world.advance(100)


async def test_lease_is_renewed_as_long_as_the_owner_serves(timed: World) -> None:
    await pass_time(timed, 3 * TERM_MS)
    assert timed.owner.state is OwnerState.SERVING
    with pytest.raises(StoreInUse):
        await rival(timed)


async def test_lease_is_renewed_at_an_interval_and_not_at_every_turn(
    timed: World,
) -> None:
    lease = unreachable(timed)
    lease.is_reachable = True
    await pass_time(timed, 3 * TERM_MS)
    assert len(lease.asked_at) == 18
    between = {b - a for a, b in zip(lease.asked_at, lease.asked_at[1:], strict=False)}
    assert between == {TERM_MS // 6}


async def test_renewal_that_fails_is_tried_again(timed: World, queue: Fragment) -> None:
    lease = unreachable(timed)
    await pass_time(timed, TERM_MS // 2)
    assert len(lease.asked_at) > 1
    lease.is_reachable = True
    await pass_time(timed, TERM_MS)
    assert timed.fatal == []
    assert timed.owner.state is OwnerState.SERVING


async def test_owner_stops_before_another_can_take_the_lease(
    timed: World, queue: Fragment
) -> None:
    unreachable(timed)
    client = Client(wanted=1)
    timed.owner.join(queue, client)
    await pass_time(timed, TERM_MS - TERM_MS // 5)
    assert timed.owner.state is OwnerState.LOST
    assert isinstance(timed.fatal[0], LeaseLost)
    with pytest.raises(StoreInUse):
        await rival(timed)


async def test_owner_whose_lease_was_taken_is_lost(
    timed: World, queue: Fragment
) -> None:
    timed.store.inner.disk.owner = None
    await rival(timed)
    queue.enqueue(message(), 1, timed.clock.now(), timed.owner.changes)
    with pytest.raises(InternalError, match="taken over"):
        await timed.owner.durable()
    assert timed.owner.state is OwnerState.LOST


async def test_idle_owner_learns_by_renewing_that_its_lease_was_taken(
    timed: World,
) -> None:
    timed.store.inner.disk.owner = None
    await rival(timed)
    await pass_time(timed, TERM_MS // 6)
    assert timed.owner.state is OwnerState.LOST


async def test_lease_without_a_term_is_never_renewed(world: World) -> None:
    lease = unreachable(world)
    await pass_time(world, 3 * TERM_MS)
    assert lease.asked_at == []
    assert world.fatal == []


async def test_process_that_was_stopped_delivers_nothing_when_it_wakes_up(
    timed: World, queue: Fragment
) -> None:
    """Clients are heard before the owner has had a turn."""
    queue.enqueue(message(), 1, timed.clock.now(), timed.owner.changes)
    await timed.owner.durable()
    client = Client(wanted=0)
    timed.owner.join(queue, client)
    timed.clock.advance(TERM_MS)
    assert timed.owner.is_serving, "nobody has told it"
    client.wanted = 1
    timed.owner.offer_capacity(queue, client)
    assert client.locks == []
    with pytest.raises(StoreRefused):
        timed.owner.check_lease()
    await timed.settled()
    assert timed.owner.state is OwnerState.LOST
    assert isinstance(timed.fatal[0], LeaseLost)


async def test_start_may_take_longer_than_a_term() -> None:
    """Nobody is served meanwhile, and nobody else has taken the store."""
    world = World()
    world.store.inner = MemoryStore(MemoryDisk(TERM_MS))
    await world.owner.open("test")
    world.clock.advance(2 * TERM_MS)
    assert world.owner.has_lease()
    world.owner.start()
    await world.owner.durable()
    assert world.owner.state is OwnerState.SERVING
    with pytest.raises(StoreInUse):
        await rival(world)
    await world.owner.stop()
