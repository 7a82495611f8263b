"""Batch delete: removes the oldest messages.

It skips messages that a receiver holds, that a range reader has planned, or that the
open change set already removes. The fragments of a partitioned entity are done one
after the other.
"""

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log, reader_lease
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.limits import PEEK_BYTES
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.ready_messages import ReadyMessages


async def delete_messages(
    handle: EntityHandle, count: int, before: int, session_id: str | None = None
) -> int:
    """Remove up to `count` messages that were enqueued at or before `before`.
    Returns their number. Raises FragmentUnavailable before any is removed: a client
    that gets 0 takes the entity for empty."""
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.check_session(session_id)
    parts, removed = _parts(handle, session_id), 0
    if handle.is_check:
        return 0
    for part in parts:
        if removed < count:
            removed += await _delete_in(part, session_id, count - removed, before)
    return removed


async def _delete_in(
    part: FragmentHandle, session_id: str | None, count: int, before: int
) -> int:
    await part.settle_down()
    async with part.owner.reading:
        removed = await _remove_oldest(part, session_id, count, before)
    if removed:
        await part.owner.durable()
    return removed


def _parts(handle: EntityHandle, session_id: str | None) -> list[FragmentHandle]:
    if session_id is None:
        return handle.parts()
    return [handle.part_of_session(session_id)]


async def _remove_oldest(
    part: FragmentHandle, session_id: str | None, count: int, before: int
) -> int:
    fragment, owner, now = part.fragment, part.owner, part.now()
    after = removed = 0
    while removed < count:
        after = reader_lease.behind_plan(fragment, after)
        found = await _read(part, session_id, after, count)
        fragment.check_exists()
        ready = ReadyMessages(fragment, owner.changes.active_removed)
        for message in found:
            after = sequence_of(message.row_id)
            if message.enqueued_at > before or removed == count:
                return removed
            free = ready.find(message)
            if free is None:
                continue
            owner.changes.log.record(operation_log.DELETE, part.actor, free, now)
            fragment.forget(free, owner.changes)
            removed += 1
        if not found:
            break
    return removed


async def _read(
    part: FragmentHandle, session_id: str | None, after: int, count: int
) -> list[Message]:
    store, number = part.owner.store, part.fragment.number
    if session_id is None:
        return await store.read_active(number, after, count, PEEK_BYTES)
    return await store.read_session(number, session_id, after, count, PEEK_BYTES)
