"""Cancelling by send id: pages, races with the open change set, and claims."""

import pytest
from unit.entities.world import NOW, Client, World

from twinbus.amqp.messaging import Message as Sent
from twinbus.amqp.messaging import encode_message
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.broker.message import Message
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import EXTENSIONS
from twinbus.entities.queue import Queue
from twinbus.errors import MessagingEntityNotFound
from twinbus.links.sending import accept
from twinbus.operations.cancel_sent import cancel_sent

from .callers import opened

BACKLOG = "away/x-servicebus-transfer/0"


def identified(send_id: bytes, due: int = 0) -> Message:
    annotations: dict[object, object] = {Symbol("x-opt-twinbus-send-id"): send_id}
    if due:
        annotations[Symbol("x-opt-scheduled-enqueue-time")] = Timestamp(due)
    return read_message(
        encode_message(Sent(message_annotations=annotations)), EXTENSIONS
    )


async def cancelled(world: World, queue: Queue, *send_ids: bytes) -> list[bool]:
    return await cancel_sent(opened(world, queue.path), send_ids)


async def filled(world: World, path: str, *messages: Message) -> Queue:
    queue = await world.namespace.create_queue(path, {})
    for message in messages:
        accept(queue.fragment(), message, 1, NOW)
    world.owner.wake()
    return queue


async def test_what_is_not_durable_yet_is_waited_for(world: World) -> None:
    queue = await filled(world, BACKLOG, identified(b"1"), identified(b"2", NOW + 9))
    assert not world.owner.is_idle()
    assert await cancelled(world, queue, b"2", b"1", b"3") == [True, True, False]
    counts = queue.counts()
    assert (counts.active, counts.scheduled, queue.size_bytes()) == (0, 0, 0)


async def test_every_page_is_read(world: World) -> None:
    sent = [identified(number.to_bytes(2, "big")) for number in range(600)]
    queue = await filled(world, BACKLOG, *sent)
    wanted = [number.to_bytes(2, "big") for number in (0, 249, 250, 599)]
    assert await cancelled(world, queue, *wanted) == [True] * 4
    assert queue.counts().active == 596


async def test_copies_of_one_id_are_all_removed(world: World) -> None:
    queue = await filled(world, BACKLOG, identified(b"1"), identified(b"1"))
    assert await cancelled(world, queue, b"1") == [True]
    assert queue.counts().active == 0


async def test_what_is_locked_stays(world: World) -> None:
    queue = await filled(world, BACKLOG, identified(b"1"), identified(b"2"))
    await world.settled()
    client = Client(wanted=1)
    world.owner.join(queue.fragment(), client)
    world.owner.offer_capacity(queue.fragment(), client)
    assert len(client.locks) == 1
    assert await cancelled(world, queue, b"1", b"2") == [False, True]
    assert queue.counts().active == 1


async def test_what_leaves_with_the_open_change_set_is_not_removed_twice(
    world: World,
) -> None:
    queue = await filled(world, BACKLOG, identified(b"1"), identified(b"2", NOW + 9))
    await world.settled()
    both = await cancelled(world, queue, b"1", b"2")
    again = await cancelled(world, queue, b"1", b"2")
    assert (both, again) == ([True, True], [False, False])


async def test_deleted_queue_is_not_found(world: World) -> None:
    queue = await filled(world, BACKLOG, identified(b"1"))
    handle = opened(world, queue.path)
    await world.namespace.delete_queue(BACKLOG)
    with pytest.raises(MessagingEntityNotFound):
        await cancel_sent(handle, [b"1"])


async def test_active_ones_of_other_queues_stay(world: World) -> None:
    queue = await filled(world, "orders", identified(b"1"), identified(b"1", NOW + 9))
    assert await cancelled(world, queue, b"1") == [True]
    counts = queue.counts()
    assert (counts.active, counts.scheduled) == (1, 0)
