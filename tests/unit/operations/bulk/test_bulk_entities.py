"""Bulk requests that several brokers do together: one of them refuses, or is lost."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from unit.entities.world import World
from unit.operations.spread import (
    encoded,
    fragments,
    index_of,
    key_in,
    owner_at,
    spread_world,
)
from unit.operations.store_brokers import StoreBrokers, bulk_of_brokers

from simulator.caller import TrustedCaller
from twinbus.errors import ReaderLeaseLost, ServerBusy
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.bulk.local_share import LocalShare
from twinbus.operations.bulk.requests import (
    LeaseRequest,
    PlanLimits,
    PlannedFragment,
    PlanRequest,
    SettleRequest,
)

CALLER = TrustedCaller("bulk")
MINUTE = 60_000
FRAGMENTS = range(4)


class LostShare(LocalShare):
    """A broker that is lost when it is asked for one of these."""

    def __init__(self, world: World, *methods: str) -> None:
        super().__init__(world.namespace)
        self._methods = methods

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._methods:
            raise ServerBusy("The broker did not answer.")
        return super().__getattribute__(name)


class Cluster:
    """A queue with fragments 0 and 3 here, and 1 and 2 at two other brokers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bulk: BulkEntities
        self.brokers: StoreBrokers
        self.bulk, self.brokers = bulk_of_brokers(world)

    def lose(self, index: int, *methods: str) -> None:
        """The broker of that fragment is lost."""
        address = owner_at(self.world, index).store_uuid.hex()
        assert address in self.brokers.shares
        self.brokers.shares[address] = LostShare(self.world, *methods)

    def heal(self) -> None:
        self.bulk, self.brokers = bulk_of_brokers(self.world)

    async def fill(self, count: int = 3) -> None:
        rows = [encoded(key=key_in(index)) for index in FRAGMENTS] * count
        sent = await self.bulk.append(CALLER, ["orders"] * len(rows), rows)
        assert sent.applied_count == len(rows)

    async def lease(self, reader: str = "spark", epoch: str | None = None) -> str:
        wanted = LeaseRequest(path="orders", epoch=epoch)
        [grant] = await self.bulk.lease(CALLER, reader, MINUTE, [wanted])
        return grant.epoch

    async def plan(self, epoch: str | None, count: int = 100) -> list[PlannedFragment]:
        record = self.world.namespace.queue("orders").record
        request = PlanRequest(
            path="orders", generation=record.generation.hex(), epoch=epoch, firsts={}
        )
        limits = PlanLimits(
            max_messages=count, max_bytes=1 << 20, split_messages=9, is_aligned=False
        )
        return await self.bulk.plan(CALLER, "spark", [request], limits)

    async def settle(self, epoch: str, planned: Sequence[PlannedFragment]) -> int:
        ends = {part.index: part.end for part in planned}
        request = SettleRequest(path="orders", epoch=epoch, ends=ends)
        [settled] = await self.bulk.settle(CALLER, "spark", [request])
        return settled.completed

    def readers(self) -> list[str | None]:
        """Of each fragment: who holds its lease."""
        leases = [one.lease for one in fragments(self.world)]
        return [one.reader if one and one.expires_at else None for one in leases]

    def plans(self) -> list[int]:
        """The last planned number of each fragment."""
        leases = [one.lease for one in fragments(self.world)]
        return [-1 if one is None else one.planned_through for one in leases]

    def counts(self) -> list[int]:
        return [one.active_count for one in fragments(self.world)]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    world = spread_world(3)
    await world.start()
    await world.namespace.create_queue("orders", {"enable_partitioning": True})
    yield Cluster(world)
    await world.stop()


# --- leases -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["check_leases", "lease"])
async def test_leases_are_given_back_if_one_broker_is_lost(
    cluster: Cluster, method: str
) -> None:
    cluster.lose(2, method)
    with pytest.raises(ServerBusy):
        await cluster.lease()
    assert cluster.readers() == [None] * 4
    cluster.heal()
    await cluster.lease("another")
    assert cluster.readers() == ["another"] * 4


async def test_lease_that_the_reader_had_keeps_its_plan(cluster: Cluster) -> None:
    """It asks again; meanwhile nobody else gets what was planned for it."""
    await cluster.fill()
    planned = await cluster.plan(await cluster.lease())
    cluster.lose(2, "lease")
    with pytest.raises(ServerBusy):
        await cluster.lease()
    assert cluster.readers() == ["spark"] * 4
    cluster.heal()
    assert await cluster.settle(await cluster.lease(), planned) == 12
    assert cluster.counts() == [0] * 4


async def test_epoch_is_the_highest_of_all_brokers(cluster: Cluster) -> None:
    # As after a request that reached one broker only.
    ahead = LeaseRequest(path="orders", indexes=[2], least_epoch=1 << 60)
    [grant] = await cluster.bulk.here.lease(CALLER, "spark", MINUTE, [ahead])
    epoch = await cluster.lease()
    assert int(epoch) > int(grant.epoch) == 1 << 60
    leases = [one.lease for one in fragments(cluster.world)]
    assert {str(one.epoch) for one in leases if one is not None} == {epoch}


async def test_lease_is_renewed_at_all_brokers_or_lost(cluster: Cluster) -> None:
    epoch = await cluster.lease()
    cluster.world.clock.advance(MINUTE - 1_000)
    assert await cluster.lease(epoch=epoch) == epoch
    now = cluster.world.clock.now()
    leases = [one.lease for one in fragments(cluster.world)]
    assert {one.expires_at for one in leases if one is not None} == {now + MINUTE}
    fragments(cluster.world)[2].lease = None
    with pytest.raises(ReaderLeaseLost):
        await cluster.lease(epoch=epoch)


@pytest.mark.parametrize("method", ["check_leases", "lease"])
async def test_lease_is_renewed_while_a_broker_is_lost(
    cluster: Cluster, method: str
) -> None:
    """Its fragments deliver nothing until the next owner has them."""
    epoch = await cluster.lease()
    cluster.world.clock.advance(MINUTE - 1_000)
    cluster.lose(2, method)
    assert await cluster.lease(epoch=epoch) == epoch
    now = cluster.world.clock.now()
    leases = [one.lease for one in fragments(cluster.world)]
    ends = [one.expires_at - now for one in leases if one is not None]
    assert ends == [MINUTE, MINUTE, 1_000, MINUTE]
    cluster.lose(1, method)
    cluster.bulk.here = LostShare(cluster.world, method)
    with pytest.raises(ServerBusy):
        await cluster.lease(epoch=epoch)


async def test_release_asks_all_before_it_fails(cluster: Cluster) -> None:
    epoch = await cluster.lease()
    cluster.lose(1, "release")
    request = LeaseRequest(path="orders", epoch=epoch)
    with pytest.raises(ServerBusy):
        await cluster.bulk.release(CALLER, "spark", [request])
    assert cluster.readers() == [None, "spark", None, None]
    cluster.heal()
    assert await cluster.bulk.release(CALLER, "spark", [request]) == 1
    assert await cluster.bulk.release(CALLER, "spark", [request]) == 0


# --- plans --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["hold", "outlines", "note_plans"])
async def test_plan_before_is_restored_if_one_broker_is_lost(
    cluster: Cluster, method: str
) -> None:
    await cluster.fill()
    epoch = await cluster.lease()
    first = await cluster.plan(epoch, 4)
    assert cluster.plans() == [1, 1, 1, 1]
    cluster.lose(2, method)
    with pytest.raises(ServerBusy):
        await cluster.plan(epoch, 8)
    assert cluster.plans() == [1, 1, 1, 1]
    cluster.heal()
    assert await cluster.settle(epoch, first) == 4


async def test_plan_fails_if_a_store_gets_another_owner_meanwhile(
    cluster: Cluster,
) -> None:
    """What was held there may be gone."""
    await cluster.fill()
    epoch, owner = await cluster.lease(), owner_at(cluster.world, 2)

    class MovingShare(LocalShare):
        async def outlines(self, *asked: Any) -> Any:
            owner.epoch += 1
            return await super().outlines(*asked)

    address = owner.store_uuid.hex()
    cluster.brokers.shares[address] = MovingShare(cluster.world.namespace)
    try:
        with pytest.raises(ServerBusy, match="another owner"):
            await cluster.plan(epoch)
    finally:
        owner.epoch -= 1


# --- messages -----------------------------------------------------------------------


async def test_nothing_is_settled_if_one_broker_refuses(cluster: Cluster) -> None:
    await cluster.fill()
    epoch = await cluster.lease()
    planned = await cluster.plan(epoch)
    lease = fragments(cluster.world)[2].lease
    fragments(cluster.world)[2].lease = None
    with pytest.raises(ReaderLeaseLost):
        await cluster.settle(epoch, planned)
    assert cluster.counts() == [3] * 4
    fragments(cluster.world)[2].lease = lease
    assert await cluster.settle(epoch, planned) == 12
    assert cluster.counts() == [0] * 4


async def test_request_without_messages_asks_all_brokers_for_the_lease(
    cluster: Cluster,
) -> None:
    epoch = await cluster.lease()
    assert await cluster.settle(epoch, []) == 0
    fragments(cluster.world)[2].lease = None
    with pytest.raises(ReaderLeaseLost):
        await cluster.settle(epoch, [])


async def test_rows_of_a_lost_broker_are_refused_and_may_come_again(
    cluster: Cluster,
) -> None:
    cluster.lose(2, "append")
    rows = [encoded(key=key_in(index)) for index in (0, 2, 1, 3, 2)]
    sent = await cluster.bulk.append(CALLER, ["orders"] * 5, rows)
    assert sent.applied_count == 3
    assert [(one.row, one.is_retryable) for one in sent.refused] == [
        (1, True),
        (4, True),
    ]
    assert cluster.counts() == [1, 1, 0, 1]


async def test_rows_that_are_known_have_the_numbers_of_the_request(
    cluster: Cluster,
) -> None:
    rows = [
        encoded(key=key_in(index), send_id=f"{index}".encode()) for index in FRAGMENTS
    ]
    await cluster.bulk.append(CALLER, ["orders"] * 2, rows[1:3])
    again = await cluster.bulk.append(CALLER, ["orders"] * 4, rows)
    assert (again.applied_count, again.known, again.refused) == (2, [1, 2], [])


async def test_bounds_are_those_of_all_brokers(cluster: Cluster) -> None:
    await cluster.fill(2)
    [found] = await cluster.bulk.runtime(CALLER, ["orders"])
    assert found is not None
    assert [one.index for one in found.fragments] == list(FRAGMENTS)
    assert [one.active_count for one in found.fragments] == [2] * 4
    assert [index_of(one.next) for one in found.fragments] == list(FRAGMENTS)
