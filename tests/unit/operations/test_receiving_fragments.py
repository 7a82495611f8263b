"""Receiving from all fragments, with one credit."""

import asyncio

import pytest
from unit.entities.world import World

from twinbus.errors import FragmentUnavailable, MessagingEntityNotFound
from twinbus.operations.receiving import receive
from twinbus.operations.sending import send

from .callers import opened
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
from .test_peeking import fill


@pytest.fixture
async def queue(spread: World) -> World:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    return spread


@pytest.mark.parametrize("peek_lock", [True, False])
async def test_one_credit_counts_for_all_fragments(
    queue: World, peek_lock: bool
) -> None:
    sent = await fill(queue, 3, 3, 3, 3)
    received: list[int] = []
    for _ in sent:
        page = await receive(opened(queue), 2, 0, peek_lock=peek_lock)
        assert len(page) <= 2
        received += [item.sequence_number for item in page]
        if len(received) == len(sent):
            break
    assert sorted(received) == sent
    assert await receive(opened(queue), 2, 0, peek_lock=peek_lock) == []


async def test_what_a_fragment_cannot_give_comes_from_the_next(queue: World) -> None:
    sent = await fill(queue, 1, 1, 1, 1)
    received = await receive(opened(queue), 9, 0)
    assert sorted(item.sequence_number for item in received) == sent


async def test_no_fragment_keeps_the_others_waiting(queue: World) -> None:
    await fill(queue, 8, 8, 8, 8)
    seen = set()
    for _ in range(24):
        [item] = await receive(opened(queue), 1, 0)
        seen.add(index_of(item.sequence_number))
    assert seen == set(range(FRAGMENTS))


async def test_message_that_comes_meanwhile_is_received_from_any(queue: World) -> None:
    waiting = asyncio.ensure_future(receive(opened(queue), 1, 60))
    await asyncio.sleep(0)
    [number] = await send(opened(queue), [encoded(key=key_in(2))])
    [received] = await waiting
    assert received.sequence_number == number
    for fragment in fragments(queue):
        assert fragment.home._deliveries._dispatches == {}  # type: ignore[attr-defined]


async def test_empty_queue_is_found_empty_without_waiting(queue: World) -> None:
    assert await receive(opened(queue), 1, 0) == []


async def test_deleted_queue_ends_the_wait(queue: World) -> None:
    waiting = asyncio.ensure_future(receive(opened(queue), 1, 60))
    await asyncio.sleep(0)
    await queue.namespace.delete_queue("orders")
    with pytest.raises(MessagingEntityNotFound):
        await waiting


async def test_fragment_that_is_away_is_passed_over(several: World) -> None:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    sent = await fill(several, 1, 1, 1, 1)
    away = owner_at(several, 1)
    await take_away(several, away)
    received = await receive(opened(several), 9, 0)
    present = [number for number in sent if index_of(number) != 1]
    assert sorted(item.sequence_number for item in received) == present
    assert await receive(opened(several), 9, 0) == []
    waiting = asyncio.ensure_future(receive(opened(several), 9, 60))
    await asyncio.sleep(0)
    await bring_back(several, away)
    while not waiting.done():
        several.clock.advance(100)
        several.owners.tick()
        await asyncio.sleep(0)
    [late] = await waiting
    assert index_of(late.sequence_number) == 1


async def test_without_any_store_nothing_can_be_received(several: World) -> None:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    for owner in several.owners:
        await take_away(several, owner)
    with pytest.raises(FragmentUnavailable, match="No fragment of 'orders'"):
        await receive(opened(several), 1, 0)
