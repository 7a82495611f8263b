"""Sessions accepted by requests: named or next, held, received from, given up, lost."""

import asyncio

import pytest
from unit.entities.world import World, message

from twinbus.broker import session_lock
from twinbus.broker.fragment import Fragment
from twinbus.errors import (
    MessagingEntityNotFound,
    NotAllowed,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
)
from twinbus.operations.accepting import accept_session
from twinbus.operations.sessions import renew_session

from .callers import opened


@pytest.fixture
async def queue(world: World) -> Fragment:
    made = await world.namespace.create_queue("orders", {"requires_session": True})
    return made.fragment()


async def send(world: World, queue: Fragment, *session_ids: str) -> None:
    for session_id in session_ids:
        sent = message()
        sent.session_id = session_id
        queue.enqueue(sent, 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()


async def test_next_session_is_accepted_and_received_from(
    world: World, queue: Fragment
) -> None:
    await send(world, queue, "a", "b", "a")
    receiver = await accept_session(opened(world), None, 1)
    assert receiver.accepted.session_id == "a"
    end = world.clock.now() + queue.settings.lock_duration_ms
    assert receiver.accepted.locked_until == end
    received = await receiver.receive(9, 0)
    assert [item.sequence_number for item in received] == [1, 3]
    assert await receiver.receive(9, 0) == []


async def test_session_stays_held_between_requests(
    world: World, queue: Fragment
) -> None:
    receiver = await accept_session(opened(world), "a", 1)
    await send(world, queue, "a")
    with pytest.raises(SessionCannotBeLocked):
        await accept_session(opened(world), "a", 1)
    assert len(await receiver.receive(9, 1)) == 1


async def test_session_that_is_given_up_is_free(world: World, queue: Fragment) -> None:
    await send(world, queue, "a")
    first = await accept_session(opened(world), "a", 1)
    assert len(await first.receive(1, 0)) == 1
    first.close()
    second = await accept_session(opened(world), "a", 1)
    assert len(await second.receive(1, 0)) == 1


async def test_session_is_lost_with_its_lock(world: World, queue: Fragment) -> None:
    receiver = await accept_session(opened(world), "a", 1)
    await world.advance(queue.settings.lock_duration_ms - 1)
    await renew_session(opened(world), "a")
    await world.advance(queue.settings.lock_duration_ms - 1)
    assert await receiver.receive(1, 0) == []
    await world.advance(1)
    with pytest.raises(SessionLockLost, match="'a'"):
        await receiver.receive(1, 0)


async def test_wait_for_a_session_ends(world: World, queue: Fragment) -> None:
    with pytest.raises(OperationTimeout, match="any session of 'orders'"):
        await accept_session(opened(world), None, 0.01)
    assert not queue.the_sessions().waiters


async def test_caller_that_goes_holds_nothing(world: World, queue: Fragment) -> None:
    accepting = asyncio.ensure_future(accept_session(opened(world), None, 60))
    await world.settled()
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    await send(world, queue, "a")
    await world.settled()
    assert not queue.the_sessions().held


async def test_session_granted_to_a_caller_that_goes_is_given_back(
    world: World, queue: Fragment
) -> None:
    """Both in one turn of the loop."""
    accepting = asyncio.ensure_future(accept_session(opened(world), "a", 60))
    await asyncio.sleep(0)
    waiter = queue.the_sessions().waiters.pop()
    waiter.granted(session_lock.hold(queue, "a", world.clock.now()))
    accepting.cancel()
    await asyncio.gather(accepting, return_exceptions=True)
    await world.settled()
    assert not queue.the_sessions().held


async def test_queue_that_is_deleted_ends_the_wait(
    world: World, queue: Fragment
) -> None:
    accepting = asyncio.ensure_future(accept_session(opened(world), None, 60))
    await world.settled()
    await world.namespace.delete_queue("orders")
    with pytest.raises(MessagingEntityNotFound):
        await accepting


async def test_queue_without_sessions_has_none(world: World) -> None:
    await world.namespace.create_queue("plain", {})
    with pytest.raises(NotAllowed, match="does not require sessions"):
        await accept_session(opened(world, "plain"), None, 1)
