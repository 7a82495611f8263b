"""Renew locks, and settle by lock token.

A token also works for messages of a closed link, and for deferred messages, which have
no link. All given tokens are checked before any is applied.
"""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.settlement import check_not_enlisted
from twinbus.links.enlistment import Enlistment
from twinbus.links.outcomes import ABANDON, COMPLETE, Settlement
from twinbus.links.transactional_work import TransactionalSettlement
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import durable

_Locked = tuple[FragmentHandle, MessageLock]


async def renew_locks(
    handle: EntityHandle, tokens: Sequence[bytes], session_id: str | None = None
) -> list[int]:
    """Extend locks to a full lock duration from now. Returns their new ends."""
    handle.require(Claim.LISTEN)
    now, ends = handle.now(), []
    locks = _locks(handle, tokens, session_id, now)
    if handle.is_check:
        return []
    for part, lock in locks:
        ends.append(part.fragment.renew(lock, now))
        log = part.owner.changes.log
        log.record(operation_log.RENEW, part.actor, lock.message, now)
    return ends


async def settle(
    handle: EntityHandle,
    tokens: Sequence[bytes],
    settlement: Settlement,
    session_id: str | None = None,
    transaction: Enlistment | None = None,
) -> None:
    """Raises MessageLockLost, SessionLockLost, MessageSizeExceeded, QuotaExceeded."""
    handle.require(Claim.LISTEN)
    now = handle.now()
    locks = _locks(handle, tokens, session_id, now)
    for part, lock in locks:
        check_not_enlisted(part.fragment, lock)
        settlement.check(part.fragment, lock)
    if handle.is_check:
        return
    if transaction is not None:
        for part, lock in locks:
            work = TransactionalSettlement(part.fragment, lock, settlement, part.actor)
            transaction.enlist_lock(lock, work, now)
        return
    for part, lock in locks:
        settlement.apply(part.fragment, lock, part.actor, now, part.owner.changes)
    await durable(part for part, _ in locks)


async def complete(handle: EntityHandle, token: bytes) -> None:
    """Raises as `settle`."""
    await settle(handle, [token], Settlement(COMPLETE))


async def abandon(handle: EntityHandle, token: bytes) -> None:
    """Raises as `settle`."""
    await settle(handle, [token], Settlement(ABANDON))


def _locks(
    handle: EntityHandle, tokens: Sequence[bytes], session_id: str | None, now: int
) -> list[_Locked]:
    """The valid locks of the tokens, without repetitions.

    Raises MessageLockLost, SessionLockLost, MessagingEntityNotFound.
    """
    handle.check_session(session_id)
    locks = []
    for token in dict.fromkeys(tokens):
        part = handle.part_of_token(token)
        if part is None:
            raise handle.lock_lost()
        part.owner.check_lease()
        part.fragment.check_exists()
        lock = part.fragment.lock_of(token, now)
        if session_id is not None and lock.message.session_id != session_id:
            raise handle.session_lost(session_id)
        locks.append((part, lock))
    return locks
