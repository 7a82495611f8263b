"""Deferred messages of several fragments are received all together or not at all."""

import pytest
from unit.entities.world import World

from twinbus.errors import FragmentUnavailable, MessageNotFound
from twinbus.links.outcomes import COMPLETE, DEFER, Settlement
from twinbus.operations.accepting import accept_session
from twinbus.operations.deferred import receive_deferred
from twinbus.operations.locks import settle
from twinbus.operations.receiving import receive
from twinbus.operations.sending import send

from .callers import opened
from .spread import FRAGMENTS, encoded, fragments, key_in, owner_at, take_away


async def deferred(world: World) -> list[int]:
    """The number of a deferred message in each fragment."""
    await world.namespace.create_queue("orders", {"enable_partitioning": True})
    numbers = []
    for index in range(FRAGMENTS):
        numbers += await send(opened(world), [encoded(key=key_in(index))])
        [received] = await receive(opened(world), 1, 0)
        await settle(opened(world), [received.lock_token], Settlement(DEFER))
    return numbers


@pytest.mark.parametrize("peek_lock", [True, False])
async def test_messages_come_in_the_order_asked_for(
    spread: World, peek_lock: bool
) -> None:
    numbers = await deferred(spread)
    wanted = [numbers[2], numbers[0], numbers[3], numbers[1]]
    found = await receive_deferred(opened(spread), wanted, peek_lock=peek_lock)
    assert [item.sequence_number for item in found] == wanted
    if peek_lock:
        tokens = [item.lock_token for item in found]
        await settle(opened(spread), tokens, Settlement(COMPLETE))
    assert [one.deferred_count for one in fragments(spread)] == [0] * FRAGMENTS


@pytest.mark.parametrize("missing", [(3 << 48) + 99, 9 << 48, 77])
async def test_one_that_is_missing_leaves_all(spread: World, missing: int) -> None:
    numbers = await deferred(spread)
    with pytest.raises(MessageNotFound, match=str(missing)):
        await receive_deferred(opened(spread), [*numbers, missing], peek_lock=False)
    assert [one.deferred_count for one in fragments(spread)] == [1] * FRAGMENTS
    assert not any(one.locks for one in fragments(spread))


async def test_fragment_that_is_away_leaves_all(several: World) -> None:
    numbers = await deferred(several)
    await take_away(several, owner_at(several, 2))
    with pytest.raises(FragmentUnavailable, match="Fragment 2"):
        await receive_deferred(opened(several), numbers, peek_lock=False)
    others = numbers[:2] + numbers[3:]
    assert len(await receive_deferred(opened(several), others, peek_lock=False)) == 3


async def test_session_is_received_from_its_fragment(spread: World) -> None:
    settings = {"enable_partitioning": True, "requires_session": True}
    await spread.namespace.create_queue("orders", settings)
    session, other = key_in(1), key_in(2)
    await send(opened(spread), [encoded(session_id=session)])
    await send(opened(spread), [encoded(session_id=other)])
    numbers = []
    for name in (session, other):
        holder = await accept_session(opened(spread), name, 1)
        [received] = await holder.receive(1, 0)
        await settle(opened(spread), [received.lock_token], Settlement(DEFER), name)
        numbers.append(received.sequence_number)
    with pytest.raises(MessageNotFound):
        await receive_deferred(
            opened(spread), numbers, peek_lock=True, session_id=session
        )
    [found] = await receive_deferred(
        opened(spread), numbers[:1], peek_lock=True, session_id=session
    )
    assert found.sequence_number == numbers[0]
