"""Reader leases: a fragment that stands still for one reader.

A reader of ranges (Spark) names messages by their numbers, reads them as often as it
must, and settles them when what it made of them is durable. Meanwhile they must neither
go nor change hands:

| while it is held | |
|------------------|--------------------------------------------------------|
| receivers        | get nothing; locks of messages and sessions were revoked |
| what was planned | neither expires nor is deleted; only the reader settles it |
| what was not     | expires as ever |
| senders          | send as ever |

A grant raises the epoch, and settling must show it: a reader that was replaced can do
no harm. A lease ends by itself unless it is renewed. It is part of the commit, so a bus
that was killed still keeps what was planned; the reader that comes back is known by
its id, and finds its plan. So is its end: receivers are kept away until that is
durable, or a restart would give a reader what a receiver has had.
"""

from dataclasses import replace

from twinbus.broker import operation_log, session_lock
from twinbus.broker.changes import ChangeSet, ReaderLease
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import NOWHERE
from twinbus.broker.row_id import sequence_of
from twinbus.errors import ReaderLeaseHeld, ReaderLeaseLost


def check_free(fragment: Fragment, reader: str, now: int) -> None:
    """Raises ReaderLeaseHeld if somebody else reads."""
    lease = fragment.lease
    if lease is not None and lease.reader != reader and lease.expires_at > now:
        raise ReaderLeaseHeld.by(
            lease.reader, lease.expires_at - now, entity_path=fragment.settings.path
        )


def take(
    fragment: Fragment, reader: str, duration_ms: int, now: int, changes: ChangeSet
) -> ReaderLease:
    """Grant the lease, and take all locks back. Raises ReaderLeaseHeld."""
    check_free(fragment, reader, now)
    _revoke_locks(fragment, now, changes)
    last = fragment.last_lease
    lease = ReaderLease(
        fragment_number=fragment.number,
        reader=reader,
        # The first is the time, and none that an entity of the same name gave out
        # before it was deleted.
        epoch=now if last is None else last.epoch + 1,
        duration_ms=duration_ms,
        expires_at=now + duration_ms,
    )
    if last is not None and last.reader == reader:
        lease = replace(
            lease,
            planned_from=last.planned_from,
            planned_through=last.planned_through,
        )
    _keep(fragment, lease, changes)
    return lease


def _revoke_locks(fragment: Fragment, now: int, changes: ChangeSet) -> None:
    """No receiver holds anything any more, and no delivery is counted for that."""
    for lock in list(fragment.locks.values()):
        if lock.session is None:
            fragment.end_lock(lock)
            lock.message.place = NOWHERE
        changes.log.record(
            operation_log.REVOKE, operation_log.THE_BUS, lock.message, now
        )
    if fragment.sessions is not None:
        for session in list(fragment.sessions.held.values()):
            _revoke_session(fragment, session, changes)
    fragment.leave_to_disk()


def _revoke_session(
    fragment: Fragment, session: HeldSession, changes: ChangeSet
) -> None:
    if session.is_released:
        return
    session_lock.close(fragment, session, changes)
    if session.receiver is not None:
        session.receiver.session_lost()


def held(fragment: Fragment, reader: str, epoch: int, now: int) -> ReaderLease:
    """The lease, if it is this reader's and no older one. Raises ReaderLeaseLost."""
    lease = fragment.lease
    if (
        lease is None
        or lease.reader != reader
        or lease.epoch != epoch
        or lease.expires_at <= now
    ):
        raise ReaderLeaseLost(entity_path=fragment.settings.path)
    return lease


def renew(
    fragment: Fragment,
    lease: ReaderLease,
    duration_ms: int,
    now: int,
    changes: ChangeSet,
) -> ReaderLease:
    """Let it last a full duration from now."""
    renewed = replace(lease, duration_ms=duration_ms, expires_at=now + duration_ms)
    _keep(fragment, renewed, changes)
    return renewed


def give_back(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    """The reader is done with the fragment; what it planned and did not settle is
    anybody's."""
    _end(
        fragment,
        replace(lease, reader="", planned_from=0, planned_through=-1),
        changes,
    )


def end_if_due(fragment: Fragment, now: int, changes: ChangeSet) -> None:
    """A lease that nobody renewed is over; what it had planned is remembered, in case
    that its reader comes back before another one."""
    lease = fragment.lease
    if lease is None or lease.expires_at == 0:
        return
    if lease.expires_at <= now:
        _end(fragment, lease, changes)
    elif lease.expires_at > now + lease.duration_ms:
        # A clock that was set back must not prolong it.
        renew(fragment, lease, lease.duration_ms, now, changes)


def _end(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    """The commit of this ends it for the fragment, which then serves receivers."""
    _keep(fragment, replace(lease, expires_at=0), changes)


def after_start(lease: ReaderLease, started_at: int) -> ReaderLease:
    """A lease of before has its whole time again, from the start of the bus on: nobody
    could renew it. One that is over stays so."""
    if lease.expires_at == 0:
        return lease
    expires_at = max(lease.expires_at, started_at + lease.duration_ms)
    return replace(lease, expires_at=expires_at)


def note_plan(
    fragment: Fragment, lease: ReaderLease, first: int, through: int, changes: ChangeSet
) -> ReaderLease:
    """The reader is promised all from `first` through a number.

    Planning goes on where it ended. A reader that begins elsewhere has planned nothing
    but that: what it never settled it will not settle any more.
    """
    if lease.planned_from <= first <= lease.planned_through + 1:
        first = lease.planned_from
    planned = replace(lease, planned_from=first, planned_through=through)
    if planned != lease:
        _keep(fragment, planned, changes)
    return planned


def is_planned(fragment: Fragment, row_id: int) -> bool:
    """The message is promised to a reader."""
    lease = fragment.lease
    if lease is None:
        return False
    return lease.planned_from <= sequence_of(row_id) <= lease.planned_through


def behind_plan(fragment: Fragment, after: int) -> int:
    """Where to go on behind a number, if all that follows it up to there is promised:
    there may be a million of them."""
    lease = fragment.lease
    if lease is None or not lease.planned_from <= after + 1 <= lease.planned_through:
        return after
    return lease.planned_through


def settled_through(
    fragment: Fragment, lease: ReaderLease, through: int, changes: ChangeSet
) -> ReaderLease:
    """All that was planned through a number is settled."""
    settled = replace(lease, planned_from=max(lease.planned_from, through + 1))
    if settled != lease:
        _keep(fragment, settled, changes)
    return settled


def _keep(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    fragment.touch(changes)
    fragment.lease = fragment.last_lease = lease
    changes.reader_leases.append(lease)
