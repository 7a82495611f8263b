"""Renew locks, and settle by lock token.

A token also works for messages of a closed link, and for deferred messages, which have
no link. Either all given tokens are applied or none.
"""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.settlement import check_not_enlisted
from twinbus.links.enlistment import Enlistment
from twinbus.links.outcomes import Settlement
from twinbus.links.transactional_work import TransactionalSettlement
from twinbus.operations.entity_handle import EntityHandle


async def renew_locks(
    handle: EntityHandle, tokens: Sequence[bytes], session_id: str | None = None
) -> list[int]:
    """Extend locks to a full lock duration from now. Returns their new ends."""
    handle.require(Claim.LISTEN)
    now, fragment = handle.now(), handle.fragment
    log, ends = handle.owner.changes.log, []
    for lock in _locks(handle, tokens, session_id, now):
        ends.append(fragment.renew(lock, now))
        log.record(operation_log.RENEW, handle.actor, lock.message, now)
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
    now, fragment, actor = handle.now(), handle.fragment, handle.actor
    locks = _locks(handle, tokens, session_id, now)
    for lock in locks:
        check_not_enlisted(fragment, lock)
        settlement.check(fragment, lock)
    if transaction is not None:
        for lock in locks:
            work = TransactionalSettlement(fragment, lock, settlement, actor)
            transaction.enlist_lock(lock, work, now)
        return
    for lock in locks:
        settlement.apply(fragment, lock, actor, now, handle.owner.changes)
    await handle.owner.durable()


def _locks(
    handle: EntityHandle, tokens: Sequence[bytes], session_id: str | None, now: int
) -> list[MessageLock]:
    """The valid locks of the tokens, without repetitions.

    Raises MessageLockLost, SessionLockLost, MessagingEntityNotFound.
    """
    handle.fragment.check_exists()
    handle.check_session(session_id)
    locks = []
    for token in dict.fromkeys(tokens):
        lock = handle.fragment.lock_of(token, now)
        if session_id is not None and lock.message.session_id != session_id:
            raise handle.session_lost(session_id)
        locks.append(lock)
    return locks
