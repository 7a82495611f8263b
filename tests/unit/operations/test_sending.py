"""Sends to the fragments of an entity: by key, in turn, and past a store that fails."""

import pytest
from unit.entities.world import Fault, World

from twinbus.errors import FragmentUnavailable, NotAllowed, ServerBusy
from twinbus.operations.sending import send
from twinbus.store.base import CommitFailed

from .callers import opened
from .spread import (
    FRAGMENTS,
    encoded,
    fragments,
    index_of,
    key_in,
    owner_at,
    take_away,
)


def counts(world: World) -> list[int]:
    return [one.active_count for one in fragments(world)]


@pytest.fixture
async def queue(spread: World) -> World:
    await spread.namespace.create_queue("orders", {"enable_partitioning": True})
    return spread


@pytest.fixture
async def apart(several: World) -> World:
    await several.namespace.create_queue("orders", {"enable_partitioning": True})
    return several


async def test_key_decides_about_the_fragment(queue: World) -> None:
    for index in range(FRAGMENTS):
        for key in (key_in(index), key_in(index, 1)):
            [number] = await send(opened(queue), [encoded(key=key)])
            assert index_of(number) == index
            [number] = await send(opened(queue), [encoded(session_id=key)])
            assert index_of(number) == index
    assert counts(queue) == [4] * FRAGMENTS


async def test_without_a_key_the_fragments_take_turns(queue: World) -> None:
    for _ in range(2 * FRAGMENTS):
        await send(opened(queue), [encoded(), encoded(message_id="not a key")])
    assert counts(queue) == [4] * FRAGMENTS


async def test_messages_with_different_keys_are_refused_together(queue: World) -> None:
    with pytest.raises(NotAllowed, match="different keys"):
        await send(opened(queue), [encoded(key="a"), encoded(key="b")])
    assert counts(queue) == [0] * FRAGMENTS


async def test_two_keys_of_one_message_are_refused(queue: World) -> None:
    with pytest.raises(NotAllowed, match="must be the same"):
        await send(opened(queue), [encoded(key="a", session_id="b")])


async def test_duplicate_comes_to_the_fragment_that_knows_it(spread: World) -> None:
    settings = {"enable_partitioning": True, "requires_duplicate_detection": True}
    await spread.namespace.create_queue("orders", settings)
    numbers = [
        (await send(opened(spread), [encoded(message_id=f"{n % 6}")]))[0]
        for n in range(12)
    ]
    assert all(numbers[:6])
    assert numbers[6:] == [0] * 6


async def test_fragment_that_is_away_refuses_its_keys_only(apart: World) -> None:
    await take_away(apart, owner_at(apart, 1))
    with pytest.raises(FragmentUnavailable, match="Fragment 1 of 'orders'"):
        await send(opened(apart), [encoded(key=key_in(1))])
    for _ in range(FRAGMENTS):
        await send(opened(apart), [encoded()])
    assert counts(apart)[1] == 0
    assert sum(counts(apart)) == FRAGMENTS


async def test_commit_that_fails_moves_messages_without_a_key(apart: World) -> None:
    for store in apart.stores[1:]:
        store.faults.append(Fault(CommitFailed("it did not happen")))
    for _ in range(FRAGMENTS):
        await send(opened(apart), [encoded()])
    assert sum(counts(apart)) == FRAGMENTS


async def test_commit_that_fails_refuses_a_key(apart: World) -> None:
    for store in apart.stores:
        store.faults.append(Fault(CommitFailed("it did not happen")))
    with pytest.raises(ServerBusy):
        await send(opened(apart), [encoded(key=key_in(2))])
    assert sum(counts(apart)) == 0


async def test_full_fragment_is_left_by_messages_without_a_key(queue: World) -> None:
    for full in fragments(queue)[1:]:
        full.resize(full.settings.max_size_bytes)
    for _ in range(FRAGMENTS):
        await send(opened(queue), [encoded()])
    assert counts(queue) == [FRAGMENTS, 0, 0, 0]
