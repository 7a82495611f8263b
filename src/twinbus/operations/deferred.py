"""Receive deferred messages by their sequence numbers."""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import ENTROPY_BYTES, MessageLock
from twinbus.broker.row_id import sequence_of
from twinbus.errors import ArgumentOutOfRange, MessageNotFound
from twinbus.limits import DEFERRED_BYTES
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.received_message import ReceivedMessage, locked, unlocked


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
    await handle.settle_down()
    fragment = handle.fragment
    row_ids = [fragment.row_id(number) for number in numbers]
    async with handle.owner.reading:
        read = await _read(handle, row_ids)
        session = handle.receiving_session(session_id)
        messages = _all_of(handle, row_ids, read, session)
        if peek_lock:
            return _lock(handle, messages, session)
        _remove(handle, messages)
    await handle.owner.durable()
    return [unlocked(fragment, message) for message in messages]


async def _read(handle: EntityHandle, row_ids: list[int]) -> list[Message]:
    """Read those that exist. Raises ArgumentOutOfRange before the read if they are
    too large for one answer."""
    store = handle.owner.store
    size_bytes = await store.deferred_bytes(row_ids)
    if size_bytes > DEFERRED_BYTES and len(row_ids) > 1:
        raise ArgumentOutOfRange(
            f"The {len(row_ids)} requested messages have {size_bytes} bytes; one "
            f"request may ask for {DEFERRED_BYTES}, or for one message of any size. "
            "Ask for fewer at a time.",
            entity_path=handle.path,
        )
    return await store.read_deferred(row_ids)


def _all_of(
    handle: EntityHandle,
    row_ids: list[int],
    read: list[Message],
    session: HeldSession | None,
) -> list[Message]:
    """The messages, if all of them exist, are in this session and are not locked.
    Raises MessageNotFound."""
    fragment, owner = handle.fragment, handle.owner
    fragment.check_exists()
    # If a lock ended during the read, the open change set changes its message.
    changing = {message.row_id for message in owner.changes.deferred_changed}
    taken = changing.union(fragment.locks, owner.changes.deferred_removed)
    session_id = None if session is None else session.session_id
    found = {
        message.row_id: message for message in read if message.session_id == session_id
    }
    for row_id in row_ids:
        if row_id not in found or row_id in taken:
            number = handle.visible(sequence_of(row_id))
            raise MessageNotFound.numbered(number, entity_path=handle.path)
    return [found[row_id] for row_id in row_ids]


def _lock(
    handle: EntityHandle, messages: list[Message], session: HeldSession | None
) -> list[ReceivedMessage]:
    fragment, owner, now = handle.fragment, handle.owner, handle.now()
    locks: list[MessageLock] = []
    for message in messages:
        entropy = owner.entropy(ENTROPY_BYTES)
        locks.append(fragment.lock_deferred(message, now, entropy, session))
        owner.changes.log.record(operation_log.LOCK, handle.actor, message, now)
    received = [locked(fragment, lock) for lock in locks]
    fragment.delivered(locks)
    owner.watch(fragment)
    return received


def _remove(handle: EntityHandle, messages: list[Message]) -> None:
    changes, now = handle.owner.changes, handle.now()
    for message in messages:
        operation = operation_log.RECEIVE_AND_DELETE
        changes.log.record(operation, handle.actor, message, now)
        handle.fragment.forget(message, changes)
