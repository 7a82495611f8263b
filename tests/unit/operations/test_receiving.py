"""Receiving by requests: what is there, what comes meanwhile, and what ends it."""

import asyncio
from typing import Any

import pytest
from unit.entities.world import Fault, World, message

from twinbus.amqp.messaging import AmqpValue, decode_message
from twinbus.broker.fragment import Fragment
from twinbus.errors import (
    ArgumentError,
    EntityDisabled,
    MessagingEntityNotFound,
)
from twinbus.links.outcomes import COMPLETE, Settlement
from twinbus.operations.locks import settle
from twinbus.operations.receiving import RequestReceiver, open_receiver, receive
from twinbus.store.base import CommitFailed

from .callers import opened


@pytest.fixture
async def queue(world: World) -> Fragment:
    return (await world.namespace.create_queue("orders", {})).fragment()


async def send(world: World, queue: Fragment, count: int = 1) -> None:
    for _ in range(count):
        queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()


async def test_what_is_there_is_received_without_waiting(
    world: World, queue: Fragment
) -> None:
    await send(world, queue, 3)
    received = await receive(opened(world), 2, 0)
    assert [item.sequence_number for item in received] == [1, 2]
    annotations = decode_message(received[0].encoded).message_annotations or {}
    end = world.clock.now() + queue.settings.lock_duration_ms
    assert annotations["x-opt-locked-until"] == end
    await settle(
        opened(world), [item.lock_token for item in received], Settlement(COMPLETE)
    )
    assert queue.active_count == 1


async def test_what_only_the_store_has_is_received_without_waiting(
    world: World, queue: Fragment
) -> None:
    await send(world, queue, 3)
    queue.restore(queue.record())
    assert len(await receive(opened(world), 5, 0)) == 3


async def test_message_is_whole_although_memory_does_not_keep_it(
    world: World, queue: Fragment
) -> None:
    world.owner.table.bodies.limit_bytes = 0
    await send(world, queue)
    (received,) = await receive(opened(world), 1, 0)
    assert decode_message(received.encoded).body == AmqpValue("hi")


async def test_empty_queue_gives_nothing(world: World, queue: Fragment) -> None:
    assert await receive(opened(world), 5, 0) == []
    assert await receive(opened(world), 5, 0.01) == []


async def test_first_message_is_waited_for(world: World, queue: Fragment) -> None:
    receiving = asyncio.ensure_future(receive(opened(world), 5, 60))
    await world.settled()
    await send(world, queue)
    assert [item.sequence_number for item in await receiving] == [1]


async def test_what_is_received_and_deleted_is_gone(
    world: World, queue: Fragment
) -> None:
    await send(world, queue, 3)
    received = await receive(opened(world), 2, 0, peek_lock=False)
    assert [item.lock_token for item in received] == [b"", b""]
    assert queue.active_count == 1


async def test_removal_under_way_is_waited_for_however_short_the_wait(
    world: World, queue: Fragment
) -> None:
    """Or its message would be lost."""
    await send(world, queue)
    world.store.gate.clear()
    world.store.is_committing.clear()
    receiving = asyncio.ensure_future(receive(opened(world), 2, 0.01, peek_lock=False))
    await world.store.is_committing.wait()
    await asyncio.sleep(0.05)
    assert not receiving.done()
    world.store.gate.set()
    assert len(await receiving) == 1


async def test_removal_that_failed_leaves_the_message(
    world: World, queue: Fragment
) -> None:
    await send(world, queue)
    world.store.faults.append(Fault(CommitFailed("told to")))
    first = await receive(opened(world), 1, 0.05, peek_lock=False)
    rest = await receive(opened(world), 1, 0, peek_lock=False)
    assert len(first) + len(rest) == 1
    assert queue.active_count == 0


async def test_nobody_is_left_when_it_is_over(world: World, queue: Fragment) -> None:
    await receive(opened(world), 5, 0)
    await send(world, queue)
    assert queue.locks == {}
    assert world.owner._deliveries._dispatches == {}


async def test_caller_that_goes_leaves_nobody_behind(
    world: World, queue: Fragment
) -> None:
    receiving = asyncio.ensure_future(receive(opened(world), 5, 60))
    await world.settled()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)
    await send(world, queue)
    assert queue.locks == {}


@pytest.mark.parametrize("peek_lock", [True, False])
async def test_message_for_a_caller_that_goes_in_that_instant(
    world: World, queue: Fragment, monkeypatch: pytest.MonkeyPatch, peek_lock: bool
) -> None:
    """A locked one is ready again, as if it had not been delivered. A removed one is
    gone, as on a link."""
    take = RequestReceiver.take

    def take_and_go(receiver: RequestReceiver, messages: Any) -> None:
        take(receiver, messages)
        receiving.cancel()

    monkeypatch.setattr(RequestReceiver, "take", take_and_go)
    receiving = asyncio.ensure_future(
        receive(opened(world), 5, 60, peek_lock=peek_lock)
    )
    await world.settled()
    await send(world, queue)
    with pytest.raises(asyncio.CancelledError):
        await receiving
    await world.owner.durable()
    assert queue.locks == {}
    assert queue.active_count == (1 if peek_lock else 0)
    monkeypatch.undo()
    received = await receive(opened(world), 5, 0)
    assert len(received) == queue.active_count
    for item in received:
        header = decode_message(item.encoded).header
        assert header is not None
        assert not header.delivery_count


async def test_receiver_serves_several_requests(world: World, queue: Fragment) -> None:
    receiver = open_receiver(opened(world), True)
    await send(world, queue, 3)
    for number in (1, 2):
        [item] = await receiver.receive(1, 0)
        assert item.sequence_number == number
    assert len(queue.locks) == 2, "between requests it takes nothing"
    assert not receiver.is_over
    await world.namespace.delete_queue("orders")
    assert receiver.is_over
    with pytest.raises(MessagingEntityNotFound):
        await receiver.receive(1, 0)


async def test_wait_that_is_hurried_ends_without_a_message(
    world: World, queue: Fragment
) -> None:
    receiver = open_receiver(opened(world), True)
    receiving = asyncio.ensure_future(receiver.receive(1, 3_600))
    # It begins, and waits.
    await asyncio.sleep(0)
    receiver.hurry()
    assert await receiving == []
    receiver.close()


async def test_queue_that_is_deleted_ends_the_wait(
    world: World, queue: Fragment
) -> None:
    receiving = asyncio.ensure_future(receive(opened(world), 5, 60))
    await world.settled()
    await world.namespace.delete_queue("orders")
    with pytest.raises(MessagingEntityNotFound):
        await receiving


async def test_disabled_queue_is_refused(world: World, queue: Fragment) -> None:
    handle = opened(world)
    await world.namespace.update_queue("orders", {"status": "ReceiveDisabled"})
    with pytest.raises(EntityDisabled):
        await receive(handle, 1, 0)


async def test_queue_with_sessions_wants_one_accepted(world: World) -> None:
    await world.namespace.create_queue("groups", {"requires_session": True})
    with pytest.raises(ArgumentError, match="'groups' requires sessions"):
        await receive(opened(world, "groups"), 1, 0)
