"""Ends what is due in a fragment: message locks, session locks, time to live.

Locks and messages in memory are found there: locks are ordered by their end, and a heap
has the messages of the window by expiry. Messages that are only on disk are found by
the store's expiry buckets and passed to `expire_unloaded`.

A locked message does not expire; it is checked again when its lock ends.
"""

from twinbus.broker import operation_log, reader_lease, session_lock
from twinbus.broker.changes import ChangeSet
from twinbus.broker.delivery_count import count_delivery
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import ACTIVE, NOWHERE, Message


def has_timers(fragment: Fragment) -> bool:
    """True if something in this fragment's memory ends by time."""
    if fragment.sessions is not None and fragment.sessions.has_timers():
        return True
    if fragment.lease is not None:
        return True
    return bool(fragment.locks) or len(fragment.expiries) > 0


def let_time_pass(fragment: Fragment, now: int, changes: ChangeSet) -> bool:
    """End what is due in memory. False if some locks are left for the next commit."""
    reader_lease.end_if_due(fragment, now, changes)
    is_done = _expire_locks(fragment, now, changes)
    if fragment.sessions is not None:
        for session in fragment.sessions.ended(now):
            session_lock.end(fragment, session, now, changes)
    for message in fragment.expiries.due(now):
        fragment.expire(message, now, changes)
    return is_done


def _expire_locks(fragment: Fragment, now: int, changes: ChangeSet) -> bool:
    for lock in fragment.ended_locks(now):
        if changes.is_heavy():
            return False
        message = lock.message
        fragment.end_lock(lock)
        changes.log.record(
            operation_log.LOCK_EXPIRED, operation_log.THE_BUS, message, now
        )
        count_delivery(fragment, message, now, changes)
    return True


def expire_unloaded(
    fragment: Fragment, message: Message, now: int, changes: ChangeSet
) -> bool:
    """Expire a message found on disk. False if it is not due, is in memory, or is
    planned for a reader."""
    if message.expires_at == 0 or message.expires_at > now:
        return False
    if fragment.is_in_memory(message):
        return False
    if reader_lease.is_planned(fragment, message.row_id):
        return False
    assert message.state == ACTIVE and message.place == NOWHERE
    fragment.expire(message, now, changes)
    return True
