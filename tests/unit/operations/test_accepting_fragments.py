"""Sessions of several fragments: a named one is in one, the next one in any."""

import asyncio

import pytest
from unit.entities.world import World

from twinbus.errors import (
    FragmentUnavailable,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionNotFound,
)
from twinbus.operations.accepting import accept_session
from twinbus.operations.deletion import delete_messages
from twinbus.operations.sending import send
from twinbus.operations.sessions import (
    list_sessions,
    renew_session,
    session_state,
    set_session_state,
)

from .callers import opened
from .spread import FRAGMENTS, encoded, fragments, key_in, owner_at, take_away

SESSIONS = {"enable_partitioning": True, "requires_session": True}


@pytest.fixture
async def queue(spread: World) -> World:
    await spread.namespace.create_queue("orders", SESSIONS)
    return spread


def waiters(world: World) -> int:
    return sum(len(one.the_sessions().waiters) for one in fragments(world))


async def test_next_session_is_found_in_any_fragment(queue: World) -> None:
    names = [key_in(index) for index in range(FRAGMENTS)]
    for name in names:
        await send(opened(queue), [encoded(name, session_id=name)])
    accepted = []
    for _ in names:
        receiver = await accept_session(opened(queue), None, 5)
        assert len(await receiver.receive(9, 0)) == 1
        accepted.append(receiver.accepted.session_id)
    assert sorted(accepted) == sorted(names)
    with pytest.raises(OperationTimeout):
        await accept_session(opened(queue), None, 0.01)
    assert waiters(queue) == 0


async def test_first_grant_ends_the_waiting_everywhere(queue: World) -> None:
    waiting = asyncio.ensure_future(accept_session(opened(queue), None, 60))
    await asyncio.sleep(0)
    assert waiters(queue) == FRAGMENTS
    for index in (1, 2):
        await send(opened(queue), [encoded(session_id=key_in(index))])
    receiver = await waiting
    assert waiters(queue) == 0
    held = [one for one in fragments(queue) if one.the_sessions().held]
    assert len(held) == 1
    receiver.close()


async def test_named_session_is_granted_once(queue: World) -> None:
    name = key_in(3)
    receiver = await accept_session(opened(queue), name, 1)
    with pytest.raises(SessionCannotBeLocked):
        await accept_session(opened(queue), name, 1)
    assert [len(one.the_sessions().held) for one in fragments(queue)] == [0, 0, 0, 1]
    receiver.close()


async def test_state_is_kept_where_the_session_is(queue: World) -> None:
    name = key_in(2)
    await accept_session(opened(queue), name, 1)
    assert await renew_session(opened(queue), name) > queue.clock.now()
    await set_session_state(opened(queue), name, b"half")
    assert await session_state(opened(queue), name) == b"half"
    assert [one.size_bytes for one in fragments(queue)] == [0, 0, 4, 0]


async def test_list_goes_from_fragment_to_fragment(queue: World) -> None:
    names = [[key_in(index, n) for n in range(3)] for index in range(FRAGMENTS)]
    for of_fragment in names:
        for name in of_fragment:
            await send(opened(queue), [encoded(session_id=name)])
    expected = [name for of_fragment in names for name in sorted(of_fragment)]
    assert await list_sessions(opened(queue), 0, 100) == expected
    handle, found = opened(queue), list[str]()
    with pytest.raises(SessionNotFound):
        while True:
            found += await list_sessions(handle, len(found), 5)
    assert found == expected
    assert await list_sessions(opened(queue), 7, 2) == expected[7:9]


async def test_session_is_deleted_from_in_its_fragment(queue: World) -> None:
    for name in (key_in(1), key_in(1), key_in(2)):
        await send(opened(queue), [encoded(session_id=name)])
    now = queue.clock.now()
    assert await delete_messages(opened(queue), 9, now, key_in(1)) == 2
    assert await delete_messages(opened(queue), 9, now) == 1


async def test_sessions_of_a_fragment_that_is_away_are_refused(several: World) -> None:
    await several.namespace.create_queue("orders", SESSIONS)
    await take_away(several, owner_at(several, 1))
    with pytest.raises(FragmentUnavailable, match="Fragment 1"):
        await accept_session(opened(several), key_in(1), 1)
    with pytest.raises(FragmentUnavailable, match="Fragment 1"):
        await list_sessions(opened(several), 0, 9)
    await send(opened(several), [encoded(session_id=key_in(2))])
    receiver = await accept_session(opened(several), None, 5)
    assert receiver.accepted.session_id == key_in(2)
