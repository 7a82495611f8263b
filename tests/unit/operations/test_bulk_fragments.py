"""Bulk requests on all fragments of an entity: bounds, leases, plans, settlements,
appends."""

from collections.abc import Iterator

import pytest
from unit.entities.world import Fault, World

from simulator.caller import TrustedCaller
from twinbus.broker.message import ACTIVE
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    FragmentUnavailable,
    ReaderLeaseHeld,
    ReaderLeaseLost,
    ServerBusy,
)
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.bulk.requests import (
    BrowseRequest,
    EntityRuntime,
    LeaseRequest,
    PlanLimits,
    PlannedFragment,
    PlanRequest,
    Poison,
    SettleRequest,
)
from twinbus.store.base import CommitFailed

from .spread import (
    FRAGMENTS,
    bring_back,
    encoded,
    fragments,
    index_of,
    key_in,
    owner_at,
    take_away,
)
from .store_brokers import bulk_of_brokers
from .test_peeking import fill

CALLER = TrustedCaller("bulk")
MINUTE = 60_000
LIMITS = PlanLimits(
    max_messages=100, max_bytes=1 << 20, split_messages=100, is_aligned=False
)


@pytest.fixture
async def queue(spread: World) -> World:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    return spread


@pytest.fixture
async def apart(several: World) -> World:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    return several


@pytest.fixture(params=["one broker", "brokers"], autouse=True)
def are_several(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything is the same if each store has a broker of its own."""
    global _are_several
    _are_several = request.param == "brokers"
    yield
    _are_several = False


_are_several = False


def bulk(world: World) -> BulkEntities:
    if _are_several:
        return bulk_of_brokers(world)[0]
    return BulkEntities(world.namespace)


async def runtime(world: World) -> EntityRuntime:
    [found] = await bulk(world).runtime(CALLER, ["orders"])
    assert found is not None
    return found


async def lease(world: World, reader: str = "spark", epoch: str | None = None) -> str:
    request = LeaseRequest(path="orders", epoch=epoch)
    [grant] = await bulk(world).lease(CALLER, reader, MINUTE, [request])
    return grant.epoch


async def plan(
    world: World, epoch: str | None, firsts: dict[int, int] | None = None
) -> list[PlannedFragment]:
    request = PlanRequest(
        path="orders",
        generation=world.namespace.queue("orders").record.generation.hex(),
        epoch=epoch,
        firsts=firsts or {},
    )
    return await bulk(world).plan(CALLER, "spark", [request], LIMITS)


def counts(world: World) -> list[int]:
    return [one.active_count for one in fragments(world)]


# --- bounds -------------------------------------------------------------------------


async def test_runtime_tells_of_every_fragment(queue: World) -> None:
    sent = await fill(queue, 2, 0, 1, 0)
    found = (await runtime(queue)).fragments
    assert [one.index for one in found] == [0, 1, 2, 3]
    assert [one.first for one in found] == [sent[0], None, sent[2], None]
    assert [one.active_count for one in found] == [2, 0, 1, 0]
    assert found[3].next == (3 << 48) + 1
    placement = queue.namespace.queue("orders").record.placement
    assert [one.store for one in found] == [uuid.hex() for uuid in placement]


async def test_conventional_entity_does_not_name_its_store(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    [fragment] = (await runtime(world)).fragments
    assert fragment.store is None


async def test_bounds_are_not_told_while_a_fragment_is_away(apart: World) -> None:
    await take_away(apart, owner_at(apart, 1))
    with pytest.raises(FragmentUnavailable):
        await runtime(apart)


# --- reading ------------------------------------------------------------------------


async def browsed(world: World, index: int, first: int, end: int) -> list[object]:
    request = BrowseRequest(
        path="orders",
        generation=world.namespace.queue("orders").record.generation.hex(),
        index=index,
        first=first,
        end=end,
        columns=["sequence_number"],
        states=frozenset({ACTIVE}),
        max_bytes=1 << 20,
    )
    numbers: list[object] = []
    async for portion in bulk(world).browse(CALLER, request):
        numbers += portion.columns["sequence_number"]
    return numbers


async def test_plan_and_browse_cover_all_fragments(queue: World) -> None:
    sent = await fill(queue, 3, 1, 0, 2)
    planned = await plan(queue, None)
    assert [part.index for part in planned] == [0, 1, 2, 3]
    found: list[object] = []
    for part in planned:
        for split in part.splits:
            found += await browsed(queue, part.index, split.first, split.end)
    assert found == sent


async def test_plan_begins_in_each_fragment_where_it_is_told(queue: World) -> None:
    sent = await fill(queue, 3, 0, 0, 3)
    planned = await plan(queue, None, {0: sent[2], 3: sent[5]})
    counted = [sum(split.message_count for split in p.splits) for p in planned]
    assert counted == [1, 0, 0, 1]


async def test_fragments_that_do_not_exist_are_refused(queue: World) -> None:
    with pytest.raises(ArgumentError, match="fragments 0 to 3"):
        await plan(queue, None, {4: 4 << 48})
    with pytest.raises(ArgumentOutOfRange, match="fragment 1 of 'orders'"):
        await plan(queue, None, {1: 5})
    with pytest.raises(ArgumentError, match="names fragment 9"):
        await browsed(queue, 9, 0, 1)


# --- leases -------------------------------------------------------------------------


async def test_lease_has_one_epoch_for_all_fragments(queue: World) -> None:
    first = await lease(queue)
    held = [one.lease for one in fragments(queue)]
    assert {str(one.epoch) for one in held if one is not None} == {first}
    assert len([one for one in held if one is not None]) == FRAGMENTS
    assert await lease(queue, epoch=first) == first
    with pytest.raises(ReaderLeaseHeld):
        await lease(queue, "another")
    request = LeaseRequest(path="orders", epoch=first)
    assert await bulk(queue).release(CALLER, "spark", [request]) == 1
    assert int(await lease(queue, "another")) > int(first)


async def test_lease_of_one_fragment_keeps_all_from_others(queue: World) -> None:
    """As after a crash between the commits of two stores."""
    await lease(queue)
    for fragment in fragments(queue)[1:]:
        fragment.lease = None
    with pytest.raises(ReaderLeaseHeld):
        await lease(queue, "another")
    assert [one.lease is None for one in fragments(queue)] == [False, True, True, True]
    again = await lease(queue)
    epochs = {one.lease.epoch for one in fragments(queue) if one.lease is not None}
    assert epochs == {int(again)}


async def test_store_that_fails_leaves_no_lease_behind(apart: World) -> None:
    store = next(s for s in apart.stores if owner_at(apart, 1)._store is s)
    store.faults.append(Fault(CommitFailed("it did not happen")))
    with pytest.raises(ServerBusy):
        await lease(apart)
    for owner in apart.owners:
        await owner.durable()
    assert await lease(apart, "another")


async def test_no_lease_while_a_fragment_is_away(apart: World) -> None:
    await take_away(apart, owner_at(apart, 2))
    with pytest.raises(FragmentUnavailable):
        await lease(apart)
    assert [one.lease for one in fragments(apart)] == [None] * FRAGMENTS


async def test_lease_is_renewed_while_a_fragment_is_away(apart: World) -> None:
    """Otherwise receivers would get planned messages of the other fragments."""
    epoch = await lease(apart)
    owner = owner_at(apart, 2)
    await take_away(apart, owner)
    for _ in range(3):
        apart.clock.advance(MINUTE * 2 // 3)
        assert await lease(apart, epoch=epoch) == epoch
    with pytest.raises(FragmentUnavailable):
        await plan(apart, epoch)
    await bring_back(apart, owner)
    assert await lease(apart, epoch=epoch) == epoch
    assert await plan(apart, epoch)


# --- settlements --------------------------------------------------------------------


async def test_settlement_reaches_all_fragments(queue: World) -> None:
    sent = await fill(queue, 3, 2, 1, 2)
    epoch = await lease(queue)
    planned = await plan(queue, epoch)
    request = SettleRequest(
        path="orders",
        epoch=epoch,
        dead_letter=[Poison(sequence_number=sent[0], reason="r", description="d")],
        defer=[sent[3], sent[6]],
        ends={part.index: part.end for part in planned},
    )
    [settled] = await bulk(queue).settle(CALLER, "spark", [request])
    outcome = (settled.completed, settled.dead_lettered, settled.deferred)
    assert outcome == (5, 1, 2)
    assert counts(queue) == [0, 0, 0, 0]
    assert [one.deferred_count for one in fragments(queue)] == [0, 1, 0, 1]
    assert queue.namespace.queue("orders").counts().dead_letter == 1
    done = SettleRequest(path="orders", epoch=epoch, complete=[sent[3], sent[6]])
    [settled] = await bulk(queue).settle(CALLER, "spark", [done])
    assert settled.completed == 2


async def test_all_numbers_are_checked_before_any_is_settled(queue: World) -> None:
    sent = await fill(queue, 1, 1, 1, 1)
    epoch = await lease(queue)
    await plan(queue, epoch)
    wrong = SettleRequest(path="orders", epoch=epoch, defer=[sent[0], 9 << 48])
    with pytest.raises(ArgumentOutOfRange, match="'defer'"):
        await bulk(queue).settle(CALLER, "spark", [wrong])
    late = SettleRequest(
        path="orders", epoch=str(int(epoch) + 1), ends={0: sent[0] + 1}
    )
    with pytest.raises(ReaderLeaseLost):
        await bulk(queue).settle(CALLER, "spark", [late])
    assert counts(queue) == [1, 1, 1, 1]


# --- appends ------------------------------------------------------------------------


async def test_rows_go_to_the_fragments_of_their_keys(queue: World) -> None:
    rows = [encoded(str(n), key=key_in(n % FRAGMENTS)) for n in range(40)]
    appended = await bulk(queue).append(CALLER, ["orders"] * 40, rows)
    assert (appended.applied_count, appended.refused) == (40, [])
    assert counts(queue) == [10] * FRAGMENTS


async def test_rows_of_a_fragment_that_is_away_are_refused(apart: World) -> None:
    await take_away(apart, owner_at(apart, 1))
    rows = [encoded(str(n), key=key_in(n % FRAGMENTS)) for n in range(40)]
    rows += [encoded()] * 4
    appended = await bulk(apart).append(CALLER, ["orders"] * len(rows), rows)
    refused = [row.row for row in appended.refused]
    assert refused == list(range(1, 40, FRAGMENTS))
    assert all(row.is_retryable for row in appended.refused)
    assert appended.applied_count == 34
    assert counts(apart)[1] == 0


async def test_full_fragment_refuses_its_later_rows_only(queue: World) -> None:
    full = fragments(queue)[2]
    full.resize(full.settings.max_size_bytes)
    rows = [encoded(str(n), key=key_in(n % FRAGMENTS)) for n in range(600)]
    appended = await bulk(queue).append(CALLER, ["orders"] * 600, rows)
    assert [row.row for row in appended.refused] == list(range(2, 600, FRAGMENTS))
    assert counts(queue) == [150, 150, 0, 150]


async def test_numbers_tell_the_fragment(queue: World) -> None:
    sent = await fill(queue, 1, 1, 1, 1)
    assert [index_of(number) for number in sent] == [0, 1, 2, 3]
