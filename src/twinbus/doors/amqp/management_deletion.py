"""Batch delete: a management operation that removes the oldest messages.

Those that a receiver holds stay, and so do those that a reader was promised or that
are about to leave anyway.
"""

from typing import Final

from twinbus.amqp.types import Int
from twinbus.broker import operation_log, reader_lease
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.doors.amqp.management_sessions import optional_session
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import integer
from twinbus.limits import BATCH_DELETE_COUNT, PEEK_BYTES
from twinbus.operations.managed_queue import ManagedQueue
from twinbus.operations.ready_messages import ReadyMessages

_MAX_LONG: Final = (1 << 63) - 1


async def batch_delete(queue: ManagedQueue, request: Request) -> Response:
    """Remove the oldest messages that nobody holds; answers how many."""
    queue.queue.check_may_receive(queue.sub_queue)
    count = integer(
        request.argument("message-count"), "message-count", 1, BATCH_DELETE_COUNT
    )
    before = integer(
        request.argument("enqueued-time-utc"),
        "enqueued-time-utc",
        -_MAX_LONG - 1,
        _MAX_LONG,
    )
    session_id = optional_session(queue, request)
    await queue.settle_down()
    async with queue.owner.reading:
        removed = await _remove_oldest(queue, session_id, count, before)
    if removed == 0:
        return Response(status=204, value={"message-count": Int(0)})
    await queue.owner.durable()
    return Response(value={"message-count": Int(removed)})


async def _remove_oldest(
    queue: ManagedQueue, session_id: str | None, count: int, before: int
) -> int:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    after = removed = 0
    while removed < count:
        after = reader_lease.behind_plan(fragment, after)
        found = await _read(queue, session_id, after, count)
        fragment.check_exists()
        ready = ReadyMessages(fragment, owner.changes.active_removed)
        for message in found:
            after = sequence_of(message.row_id)
            if message.enqueued_at > before or removed == count:
                return removed
            free = ready.find(message)
            if free is None:
                continue
            owner.changes.log.record(operation_log.DELETE, queue.actor, free, now)
            fragment.forget(free, owner.changes)
            removed += 1
        if not found:
            break
    return removed


async def _read(
    queue: ManagedQueue, session_id: str | None, after: int, count: int
) -> list[Message]:
    store, number = queue.owner.store, queue.fragment.number
    if session_id is None:
        return await store.read_active(number, after, count, PEEK_BYTES)
    return await store.read_session(number, session_id, after, count, PEEK_BYTES)
