"""Management operations on messages: peek, deferred, scheduled.

All of them read the store, so they first let what was asked for before become
durable; all changes are durable before the answer goes out.
"""

from typing import Final
from uuid import UUID

from twinbus.amqp.types import AmqpArray
from twinbus.broker import operation_log, schedule
from twinbus.broker.changes import ChangeSet
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.row_id import sequence_of
from twinbus.doors.amqp.management_sessions import optional_session, receiving_session
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import array_items, integer
from twinbus.encoding.outgoing import encode_delivery
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    MessageNotFound,
    NotAllowed,
    ServiceBusError,
)
from twinbus.limits import DEFERRED_BYTES, PEEK_BYTES, PEEK_COUNT
from twinbus.limits import SCHEDULE_PER_REQUEST as SCHEDULE_LIMIT
from twinbus.links.enlistment import Enlistment
from twinbus.links.sending import Sending, check
from twinbus.links.transactional_work import (
    TransactionalCancel,
    TransactionalSchedule,
    number_of,
)
from twinbus.operations.awaited_commit import AwaitedCommit
from twinbus.operations.managed_queue import ManagedQueue

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
    session_id = optional_session(queue, request)
    await queue.settle_down()
    fragment = queue.fragment
    found = await _browse(
        queue, session_id, sequence_of(max(start, 0)), min(count, PEEK_COUNT)
    )
    if not found:
        return _NOTHING
    entries = [
        {"message": encode_delivery(message, fragment.sequence_number(message), 0)}
        for message in found
    ]
    return Response(value={"messages": entries})


async def _browse(
    queue: ManagedQueue, session_id: str | None, first: int, count: int
) -> list[Message]:
    store, number = queue.owner.store, queue.fragment.number
    if session_id is None:
        return await store.browse(number, first, count, PEEK_BYTES)
    return await store.browse_session(number, session_id, first, count, PEEK_BYTES)


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
        read = await _read_deferred(queue, row_ids)
        session = receiving_session(queue, request)
        messages = _all_deferred(queue, row_ids, read, session)
        if peek_lock:
            return _lock_deferred(queue, messages, session)
        _remove_deferred(queue, messages)
    await queue.owner.durable()
    entries = [
        {"message": encode_delivery(message, fragment.sequence_number(message), 0)}
        for message in messages
    ]
    return Response(value={"messages": entries})


async def _read_deferred(queue: ManagedQueue, row_ids: list[int]) -> list[Message]:
    """Those of these that are there. Raises ArgumentOutOfRange, before anything is
    read, if that is more than may be answered at once."""
    store = queue.owner.store
    size_bytes = await store.deferred_bytes(row_ids)
    if size_bytes > DEFERRED_BYTES and len(row_ids) > 1:
        raise ArgumentOutOfRange(
            f"The {len(row_ids)} messages asked for have {size_bytes} bytes; one "
            f"request may ask for {DEFERRED_BYTES}, or for one message of any size. "
            "Ask for fewer at a time.",
            entity_path=queue.path,
        )
    return await store.read_deferred(row_ids)


def _all_deferred(
    queue: ManagedQueue,
    row_ids: list[int],
    read: list[Message],
    session: HeldSession | None,
) -> list[Message]:
    """All of these, if all are there, of this session, and nobody has them. Raises
    MessageNotFound."""
    fragment, owner = queue.fragment, queue.owner
    fragment.check_exists()
    # A lock that ended meanwhile has left its message to the open change set.
    changing = {message.row_id for message in owner.changes.deferred_changed}
    taken = changing.union(fragment.locks, owner.changes.deferred_removed)
    session_id = None if session is None else session.session_id
    found = {
        message.row_id: message for message in read if message.session_id == session_id
    }
    for row_id in row_ids:
        if row_id not in found or row_id in taken:
            raise MessageNotFound.numbered(
                fragment.visible_base | sequence_of(row_id), entity_path=queue.path
            )
    return [found[row_id] for row_id in row_ids]


def _lock_deferred(
    queue: ManagedQueue, messages: list[Message], session: HeldSession | None
) -> Response:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    entries = []
    locks: list[MessageLock] = []
    for message in messages:
        entropy = owner.entropy(ENTROPY_BYTES)
        lock = fragment.lock_deferred(message, now, entropy, session)
        locks.append(lock)
        _log(queue, operation_log.LOCK, message, now, owner.changes)
        number = fragment.sequence_number(message)
        entries.append(
            {
                "message": encode_delivery(message, number, lock.ends_at(), lock.token),
                "lock-token": UUID(bytes_le=lock.token),
            }
        )
    fragment.delivered(locks)
    owner.watch(fragment)
    return Response(value={"messages": entries})


def _remove_deferred(queue: ManagedQueue, messages: list[Message]) -> None:
    fragment, owner, now = queue.fragment, queue.owner, queue.now()
    for message in messages:
        _log(queue, operation_log.RECEIVE_AND_DELETE, message, now, owner.changes)
        fragment.forget(message, owner.changes)


async def schedule_messages(queue: ManagedQueue, request: Request) -> Response:
    """Accept messages that become active later; answers with their numbers."""
    fragment, owner = queue.fragment, queue.owner
    if fragment.settings.is_dead_letter_queue:
        raise NotAllowed(entity_path=queue.path)
    queue.queue.check_may_send()
    entries = request.argument("messages")
    if not isinstance(entries, list) or not 0 < len(entries) <= SCHEDULE_LIMIT:
        raise ArgumentError(f"'messages' must be a list of 1 to {SCHEDULE_LIMIT} maps.")
    messages = [_scheduled_message(queue, entry) for entry in entries]
    for message in messages:
        check(fragment, message)
    numbers: list[object]
    if request.transaction is not None:
        work = TransactionalSchedule(fragment, messages, queue.actor)
        request.transaction.enlist(work, queue.now())
        numbers = list(work.reserve())
    else:
        answer = AwaitedCommit()
        owner.admit(Sending(fragment, messages, queue.actor, 0, answer))
        await answer.done()
        numbers = [number_of(fragment, message) for message in messages]
    return Response(value={"sequence-numbers": AmqpArray(_LONG, numbers)})


def _scheduled_message(queue: ManagedQueue, entry: object) -> Message:
    raw = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(raw, bytes):
        raise ArgumentError("Each of 'messages' needs an encoded 'message'.")
    return queue.arrivals.read_one(raw, queue.now())


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
        if request.transaction is not None:
            _cancel_in(request.transaction, queue, found)
            return Response()
        for message in found:
            schedule.cancel(fragment, message, queue.actor, queue.now(), owner.changes)
    await owner.durable()
    return Response()


def _cancel_in(
    transaction: Enlistment, queue: ManagedQueue, messages: list[Message]
) -> None:
    for message in messages:
        work = TransactionalCancel(queue.fragment, message, queue.actor)
        work.claim()
        try:
            transaction.enlist(work, queue.now())
        except ServiceBusError:
            work.let_go()
            raise


def _log(
    queue: ManagedQueue, operation: int, message: Message, now: int, changes: ChangeSet
) -> None:
    changes.log.record(operation, queue.actor, message, now)
