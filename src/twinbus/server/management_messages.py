"""Management operations on messages: peek, deferred, scheduled, batch delete.

All of them read the store, so they first let what was asked for before become
durable; all changes are durable before the answer goes out.
"""

from typing import Final
from uuid import UUID

from twinbus.amqp.types import AmqpArray, Int
from twinbus.broker import operation_log, schedule
from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import ACTIVE, Message
from twinbus.broker.message_lock import ENTROPY_BYTES
from twinbus.broker.row_id import sequence_of
from twinbus.encoding.incoming import read_message
from twinbus.encoding.outgoing import encode_delivery
from twinbus.errors import (
    ArgumentError,
    MessageNotFound,
    MessageSizeExceeded,
    NotAllowed,
    ServerBusy,
)
from twinbus.limits import BATCH_DELETE_COUNT, PEEK_BYTES, PEEK_COUNT
from twinbus.limits import SCHEDULE_PER_REQUEST as SCHEDULE_LIMIT
from twinbus.links.home import STORE_IS_FULL
from twinbus.server.managed_queue import ManagedQueue, array_items, integer
from twinbus.server.request_links import Request, Response

_LONG: Final = 0x81
_MAX_LONG: Final = (1 << 63) - 1
_MAX_INT: Final = (1 << 31) - 1

_NOTHING: Final = Response(status=204, description="No messages.")


async def peek(queue: ManagedQueue, request: Request) -> Response:
    """Look at messages of every state without touching them."""
    start = integer(
        request.argument("from-sequence-number"),
        "from-sequence-number",
        -_MAX_LONG - 1,
        _MAX_LONG,
    )
    count = integer(request.argument("message-count"), "message-count", 1, _MAX_INT)
    await queue.settle_down()
    fragment = queue.fragment
    found = await queue.owner.store.browse(
        fragment.number, sequence_of(max(start, 0)), min(count, PEEK_COUNT), PEEK_BYTES
    )
    if not found:
        return _NOTHING
    entries = [
        {"message": encode_delivery(message, fragment.sequence_number(message), 0)}
        for message in found
    ]
    return Response(value={"messages": entries})


def _sequence_numbers(request: Request) -> list[int]:
    """Those of the request, each once. Raises ArgumentError."""
    name = "sequence-numbers"
    numbers = array_items(request.argument(name), name)
    return list(
        dict.fromkeys(integer(number, name, 0, _MAX_LONG) for number in numbers)
    )


async def receive_deferred(queue: ManagedQueue, request: Request) -> Response:
    """Receive deferred messages by their sequence numbers, all or none."""
    queue.queue.check_may_receive(queue.sub_queue)
    numbers = _sequence_numbers(request)
    peek_lock = integer(
        request.argument("receiver-settle-mode"), "receiver-settle-mode", 0, 1
    )
    await queue.settle_down()
    fragment = queue.fragment
    row_ids = [fragment.row_id(number) for number in numbers]
    async with queue.owner.reading:
        messages = await _read_deferred(queue, row_ids)
        if peek_lock:
            return _lock_deferred(queue, messages)
        _remove_deferred(queue, messages)
    await queue.owner.durable()
    entries = [
        {"message": encode_delivery(message, fragment.sequence_number(message), 0)}
        for message in messages
    ]
    return Response(value={"messages": entries})


async def _read_deferred(queue: ManagedQueue, row_ids: list[int]) -> list[Message]:
    """All of these, if all are there and nobody has them. Raises MessageNotFound."""
    fragment, owner = queue.fragment, queue.owner
    read = await owner.store.read_deferred(row_ids)
    fragment.check_exists()
    # A lock that ended meanwhile has left its message to the open change set.
    changing = {message.row_id for message in owner.changes.deferred_changed}
    taken = changing.union(fragment.locks, owner.changes.deferred_removed)
    found = {message.row_id: message for message in read}
    for row_id in row_ids:
        if row_id not in found or row_id in taken:
            raise MessageNotFound.numbered(
                fragment.visible_base | sequence_of(row_id), entity_path=queue.path
            )
    return [found[row_id] for row_id in row_ids]


def _lock_deferred(queue: ManagedQueue, messages: list[Message]) -> Response:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    entries = []
    for message in messages:
        lock = fragment.lock_deferred(message, now, owner.entropy(ENTROPY_BYTES))
        _log(queue, operation_log.LOCK, message, now, owner.changes)
        number = fragment.sequence_number(message)
        entries.append(
            {
                "message": encode_delivery(message, number, lock.locked_until),
                "lock-token": UUID(bytes_le=lock.token),
            }
        )
    owner.watch(fragment)
    return Response(value={"messages": entries})


def _remove_deferred(queue: ManagedQueue, messages: list[Message]) -> None:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    for message in messages:
        _log(queue, operation_log.RECEIVE_AND_DELETE, message, now, owner.changes)
        fragment.forget(message, owner.changes)


async def schedule_messages(queue: ManagedQueue, request: Request) -> Response:
    """Accept messages that become active later; answers with their numbers."""
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    if fragment.settings.is_dead_letter_queue:
        raise NotAllowed(entity_path=queue.path)
    queue.queue.check_may_send()
    if now < owner.refuses_until:
        raise ServerBusy(STORE_IS_FULL, entity_path=queue.path)
    entries = request.argument("messages")
    if not isinstance(entries, list) or not 0 < len(entries) <= SCHEDULE_LIMIT:
        raise ArgumentError(f"'messages' must be a list of 1 to {SCHEDULE_LIMIT} maps.")
    messages = [_scheduled_message(queue, entry) for entry in entries]
    fragment.check_quota(sum(len(message.raw) for message in messages))
    numbers: list[object] = []
    for message in messages:
        if message.scheduled_at > now:
            schedule.schedule(fragment, message, queue.actor, now, owner.changes)
            owner.expect(message.scheduled_at)
        else:
            fragment.enqueue(message, queue.actor, now, owner.changes)
        numbers.append(fragment.sequence_number(message))
    await owner.durable()
    return Response(value={"sequence-numbers": AmqpArray(_LONG, numbers)})


def _scheduled_message(queue: ManagedQueue, entry: object) -> Message:
    raw = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(raw, bytes):
        raise ArgumentError("Each of 'messages' needs an encoded 'message'.")
    if len(raw) > queue.max_message_bytes:
        raise MessageSizeExceeded.measured(
            len(raw), limit_bytes=queue.max_message_bytes, entity_path=queue.path
        )
    return read_message(raw)


async def cancel_scheduled(queue: ManagedQueue, request: Request) -> Response:
    """Take scheduled messages back, all or none."""
    numbers = _sequence_numbers(request)
    await queue.settle_down()
    fragment, owner = queue.fragment, queue.owner
    row_ids = [fragment.row_id(number) for number in numbers]
    async with owner.reading:
        found = await owner.store.read_scheduled(row_ids)
        fragment.check_exists()
        missing = set(row_ids).difference(message.row_id for message in found)
        missing.update(set(row_ids).intersection(owner.changes.scheduled_removed))
        if missing:
            raise MessageNotFound.numbered(
                fragment.visible_base | sequence_of(min(missing)),
                entity_path=queue.path,
            )
        for message in found:
            schedule.cancel(fragment, message, queue.actor, queue.now(), owner.changes)
    await owner.durable()
    return Response()


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
    await queue.settle_down()
    async with queue.owner.reading:
        removed = await _remove_oldest(queue, count, before)
    if removed == 0:
        return Response(status=204, value={"message-count": Int(0)})
    await queue.owner.durable()
    return Response(value={"message-count": Int(removed)})


async def _remove_oldest(queue: ManagedQueue, count: int, before: int) -> int:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    after = removed = 0
    while removed < count:
        found = await owner.store.read_active(fragment.number, after, count, PEEK_BYTES)
        fragment.check_exists()
        in_memory = {
            message.row_id: message for message in fragment.window.ready_messages()
        }
        leaving = set(owner.changes.active_removed)
        for message in found:
            after = sequence_of(message.row_id)
            if message.enqueued_at > before or removed == count:
                return removed
            known = in_memory.get(message.row_id)
            if known is None and after <= fragment.window.loaded_through:
                continue  # locked by a receiver
            if message.row_id in leaving:
                continue  # expired; the window has let go of it
            message = known or message
            _log(queue, operation_log.DELETE, message, now, owner.changes)
            fragment.forget(message, owner.changes)
            removed += 1
        if not found:
            break
    return removed


def _log(
    queue: ManagedQueue, operation: int, message: Message, now: int, changes: ChangeSet
) -> None:
    assert message.state == ACTIVE or operation != operation_log.DELETE
    changes.log.record(operation, queue.actor, message, now)
