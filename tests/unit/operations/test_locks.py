"""Settle and renew by tokens of several fragments: all are checked before any."""

import pytest
from unit.entities.world import NOW, World

from twinbus.broker.transaction import TransactionLimits
from twinbus.errors import FragmentUnavailable, MessageLockLost, NotAllowed
from twinbus.links.coordinator import Coordinator
from twinbus.links.enlistment import Enlistment
from twinbus.links.outcomes import COMPLETE, DEFER, Settlement
from twinbus.operations.locks import renew_locks, settle
from twinbus.operations.receiving import receive
from twinbus.operations.sending import send

from .callers import opened
from .spread import FRAGMENTS, encoded, fragments, key_in, owner_at, take_away


async def locked(world: World) -> list[bytes]:
    """A lock token of each fragment."""
    await world.namespace.create_queue("orders", {"enable_partitioning": True})
    for index in range(FRAGMENTS):
        await send(opened(world), [encoded(key=key_in(index))])
    received = []
    while len(received) < FRAGMENTS:
        received += await receive(opened(world), FRAGMENTS, 0)
    return [item.lock_token for item in received]


def enlistment(world: World) -> Enlistment:
    coordinator = Coordinator(TransactionLimits(), world.entropy)
    declared = coordinator.declare(object(), world.clock.now())
    return Enlistment(coordinator, declared.txn_id)


async def test_tokens_of_all_fragments_are_settled_at_once(spread: World) -> None:
    tokens = await locked(spread)
    ends = await renew_locks(opened(spread), tokens)
    assert ends == [NOW + 60_000] * FRAGMENTS
    await settle(opened(spread), tokens, Settlement(COMPLETE))
    assert [one.active_count for one in fragments(spread)] == [0] * FRAGMENTS
    stored = [await store.fragments() for store in spread.stores]
    assert sum(record.active_count for of_one in stored for record in of_one) == 0


async def test_one_lost_lock_leaves_all_as_they_are(spread: World) -> None:
    tokens = await locked(spread)
    await settle(opened(spread), tokens[-1:], Settlement(COMPLETE))
    with pytest.raises(MessageLockLost):
        await settle(opened(spread), tokens, Settlement(COMPLETE))
    with pytest.raises(MessageLockLost):
        await renew_locks(opened(spread), tokens)
    assert sum(one.active_count for one in fragments(spread)) == FRAGMENTS - 1


async def test_token_of_no_fragment_is_a_lost_lock(spread: World) -> None:
    tokens = await locked(spread)
    foreign = b"\xff\xff" + tokens[0][2:]
    with pytest.raises(MessageLockLost):
        await settle(opened(spread), [*tokens, foreign], Settlement(COMPLETE))
    assert sum(one.active_count for one in fragments(spread)) == FRAGMENTS


async def test_fragment_that_is_away_leaves_all_as_they_are(several: World) -> None:
    tokens = await locked(several)
    await take_away(several, owner_at(several, 1))
    with pytest.raises(FragmentUnavailable, match="Fragment 1 of 'orders'"):
        await settle(opened(several), tokens, Settlement(COMPLETE))
    present = [token for token in tokens if token[1] != 1]
    await settle(opened(several), present, Settlement(DEFER))
    held = [one.active_count for one in fragments(several)]
    assert held == [0, 1, 0, 0]


async def test_transaction_settles_in_one_store(several: World) -> None:
    """Fragments 0 and 3 share a store."""
    by_index = {token[1]: token for token in await locked(several)}
    transaction = enlistment(several)
    together = [by_index[0], by_index[3]]
    await settle(
        opened(several), together, Settlement(COMPLETE), transaction=transaction
    )
    with pytest.raises(NotAllowed, match="one message store only"):
        await settle(
            *(opened(several), [by_index[1]], Settlement(COMPLETE)),
            transaction=transaction,
        )
