"""Cancelling by send id in all fragments: the key of a message hides its id."""

import pytest
from unit.entities.world import NOW, Fault, World

from twinbus.errors import FragmentUnavailable, ServerBusy
from twinbus.operations.cancel_sent import cancel_sent
from twinbus.operations.sending import send
from twinbus.store.base import CommitFailed

from .callers import opened
from .spread import FRAGMENTS, encoded, fragments, key_in, owner_at, take_away

DUE = NOW + 60_000


async def scheduled(world: World) -> list[bytes]:
    """Send ids of messages with a key in each fragment, and of some without."""
    await world.namespace.create_queue("orders", {"enable_partitioning": True})
    send_ids = []
    for index in range(FRAGMENTS):
        for key in (key_in(index), None):
            send_ids.append(b"%d %d" % (index, key is None))
            sent = encoded(key=key, send_id=send_ids[-1], due=DUE)
            await send(opened(world), [sent])
    return send_ids


async def test_ids_are_found_in_every_fragment(spread: World) -> None:
    send_ids = await scheduled(spread)
    asked = [*send_ids, b"unknown"]
    expected = [True] * len(send_ids) + [False]
    assert await cancel_sent(opened(spread), asked) == expected
    assert [one.scheduled_count for one in fragments(spread)] == [0] * FRAGMENTS


async def test_id_goes_to_the_fragment_that_knows_it(spread: World) -> None:
    """Without a key it is sent twice, and the second one is dropped."""
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    for _ in range(FRAGMENTS):
        await send(opened(spread), [encoded(send_id=b"once")])
    assert sum(one.active_count for one in fragments(spread)) == 1


async def test_nothing_is_cancelled_while_a_fragment_is_away(several: World) -> None:
    send_ids = await scheduled(several)
    await take_away(several, owner_at(several, 3))
    with pytest.raises(FragmentUnavailable):
        await cancel_sent(opened(several), send_ids)
    assert sum(one.scheduled_count for one in fragments(several)) == len(send_ids)


async def test_failed_commit_is_not_taken_for_cancelled(several: World) -> None:
    send_ids = await scheduled(several)
    store = next(s for s in several.stores if owner_at(several, 0)._store is s)
    store.faults.append(Fault(CommitFailed("it did not happen")))
    with pytest.raises(ServerBusy):
        await cancel_sent(opened(several), send_ids)
    assert await cancel_sent(opened(several), send_ids) == [True] * len(send_ids)
