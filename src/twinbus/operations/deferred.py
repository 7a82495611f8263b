"""Receive deferred messages by their sequence numbers."""

from collections.abc import Mapping, Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.row_id import sequence_of
from twinbus.errors import ArgumentOutOfRange, MessageNotFound
from twinbus.limits import DEFERRED_BYTES
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.named_messages import rows_of
from twinbus.operations.received_message import ReceivedMessage, locked, unlocked
from twinbus.operations.several_stores import Reading, durable, settle_down

_Rows = Mapping[FragmentHandle, list[int]]
_Messages = Mapping[FragmentHandle, list[Message]]


async def receive_deferred(
    handle: EntityHandle,
    numbers: Sequence[int],
    *,
    peek_lock: bool,
    session_id: str | None = None,
) -> list[ReceivedMessage]:
    """Receive all of them or none. Raises MessageNotFound, SessionLockLost."""
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.check_names_session(session_id)
    rows = rows_of(handle, numbers)
    await settle_down(rows)
    async with Reading(rows):
        read = await _read(handle, rows)
        session = _held(handle, session_id)
        messages = {
            part: _all_of(part, row_ids, read[part], session)
            for part, row_ids in rows.items()
        }
        if handle.is_check:
            return []
        if peek_lock:
            return _ordered(numbers, _lock(messages, session))
        _remove(messages)
    await durable(rows)
    return _ordered(
        numbers,
        [
            unlocked(part.fragment, m)
            for part, of_part in messages.items()
            for m in of_part
        ],
    )


def _held(handle: EntityHandle, session_id: str | None) -> HeldSession | None:
    """Raises SessionLockLost."""
    if session_id is None:
        return None
    return handle.part_of_session(session_id).held_session(session_id)


async def _read(handle: EntityHandle, rows: _Rows) -> _Messages:
    """Read those that exist. Raises ArgumentOutOfRange before the read if they are
    too large for one answer."""
    count = sum(len(row_ids) for row_ids in rows.values())
    size_bytes = 0
    for part, row_ids in rows.items():
        size_bytes += await part.owner.store.deferred_bytes(row_ids)
    if size_bytes > DEFERRED_BYTES and count > 1:
        raise ArgumentOutOfRange(
            f"The {count} requested messages have {size_bytes} bytes; one "
            f"request may ask for {DEFERRED_BYTES}, or for one message of any size. "
            "Ask for fewer at a time.",
            entity_path=handle.path,
        )
    return {
        part: await part.owner.store.read_deferred(row_ids)
        for part, row_ids in rows.items()
    }


def _all_of(
    part: FragmentHandle,
    row_ids: list[int],
    read: list[Message],
    session: HeldSession | None,
) -> list[Message]:
    """The messages, if all of them exist, are in this session and are not locked.
    Raises MessageNotFound."""
    fragment, changes = part.fragment, part.owner.changes
    fragment.check_exists()
    # If a lock ended during the read, the open change set changes its message.
    changing = {message.row_id for message in changes.deferred_changed}
    taken = changing.union(fragment.locks, changes.deferred_removed)
    session_id = None if session is None else session.session_id
    found = {
        message.row_id: message for message in read if message.session_id == session_id
    }
    for row_id in row_ids:
        if row_id not in found or row_id in taken:
            number = part.visible(sequence_of(row_id))
            raise MessageNotFound.numbered(number, entity_path=part.path)
    return [found[row_id] for row_id in row_ids]


def _lock(messages: _Messages, session: HeldSession | None) -> list[ReceivedMessage]:
    received: list[ReceivedMessage] = []
    for part, of_part in messages.items():
        fragment, owner, now = part.fragment, part.owner, part.now()
        owner.check_lease()
        locks: list[MessageLock] = []
        for message in of_part:
            entropy = owner.entropy(ENTROPY_BYTES)
            locks.append(fragment.lock_deferred(message, now, entropy, session))
            owner.changes.log.record(operation_log.LOCK, part.actor, message, now)
        received += [locked(fragment, lock) for lock in locks]
        fragment.delivered(locks)
        owner.watch(fragment)
    return received


def _remove(messages: _Messages) -> None:
    for part, of_part in messages.items():
        changes, now = part.owner.changes, part.now()
        for message in of_part:
            operation = operation_log.RECEIVE_AND_DELETE
            changes.log.record(operation, part.actor, message, now)
            part.fragment.forget(message, changes)


def _ordered(
    numbers: Sequence[int], received: list[ReceivedMessage]
) -> list[ReceivedMessage]:
    """In the order in which they were asked for."""
    by_number = {item.sequence_number: item for item in received}
    return [by_number[number] for number in numbers]
