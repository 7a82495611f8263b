"""Reader leases: one reader has a fragment for itself.

A reader of ranges (Spark) refers to messages by their numbers, may read them several
times, and settles them when its results are durable. Until then the messages must
neither disappear nor go to another receiver:

| while it is held | |
|------------------|--------------------------------------------------------|
| receivers        | get nothing; locks of messages and sessions were revoked |
| planned messages | do not expire, cannot be deleted; only the reader settles them |
| other messages   | expire as usual |
| senders          | send as usual |

Each grant raises the epoch, and a settlement must have the current epoch: so a reader
that was replaced cannot settle. A lease ends unless it is renewed. Grants and ends are
part of a commit. So the plan survives a crash of the bus, and a reader that returns
with the same id finds it. Receivers get messages only after the end is durable;
otherwise, after a restart, the reader could get messages that a receiver has had.
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
    """Raises ReaderLeaseHeld if another reader has the lease."""
    lease = fragment.lease
    if lease is not None and lease.reader != reader and lease.expires_at > now:
        raise ReaderLeaseHeld.by(
            lease.reader, lease.expires_at - now, entity_path=fragment.settings.path
        )


def next_epoch(fragment: Fragment, now: int) -> int:
    """The lowest epoch that the next lease may have. The first one is the time, so an
    entity that is created again has another."""
    last = fragment.last_lease
    return now if last is None else last.epoch + 1


def take(
    fragment: Fragment,
    reader: str,
    duration_ms: int,
    now: int,
    changes: ChangeSet,
    epoch: int = 0,
) -> ReaderLease:
    """Grant the lease, and revoke all locks. The epoch is the next one, or this one if
    it is later: all fragments of an entity get the same. Raises ReaderLeaseHeld."""
    check_free(fragment, reader, now)
    _revoke_locks(fragment, now, changes)
    last = fragment.last_lease
    lease = ReaderLease(
        fragment_number=fragment.number,
        reader=reader,
        epoch=max(epoch, next_epoch(fragment, now)),
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
    """End all locks of receivers, without counting a delivery."""
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
    """The lease, if it is this reader's current one. Raises ReaderLeaseLost."""
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
    """Extend the lease to a full duration from now."""
    renewed = replace(lease, duration_ms=duration_ms, expires_at=now + duration_ms)
    _keep(fragment, renewed, changes)
    return renewed


def give_back(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    """The reader has finished. Planned messages that it did not settle are free."""
    _end(
        fragment,
        replace(lease, reader="", planned_from=0, planned_through=-1),
        changes,
    )


def end_if_due(fragment: Fragment, now: int, changes: ChangeSet) -> None:
    """End a lease that was not renewed. Its plan is kept, in case its reader returns
    before another one takes the lease."""
    lease = fragment.lease
    if lease is None or lease.expires_at == 0:
        return
    if lease.expires_at <= now:
        _end(fragment, lease, changes)
    elif lease.expires_at > now + lease.duration_ms:
        # A clock that was set back must not extend the lease.
        renew(fragment, lease, lease.duration_ms, now, changes)


def _end(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    """End the lease. After the commit the fragment serves receivers again."""
    _keep(fragment, replace(lease, expires_at=0), changes)


def after_start(lease: ReaderLease, started_at: int) -> ReaderLease:
    """After a restart a lease gets its full duration again, because it could not be
    renewed meanwhile. A lease that has ended stays so."""
    if lease.expires_at == 0:
        return lease
    expires_at = max(lease.expires_at, started_at + lease.duration_ms)
    return replace(lease, expires_at=expires_at)


def note_plan(
    fragment: Fragment, lease: ReaderLease, first: int, through: int, changes: ChangeSet
) -> ReaderLease:
    """Plan all messages from `first` through `through` for the reader.

    A plan continues the one before. If it begins elsewhere, it replaces the old one:
    the reader will not settle those messages any more.
    """
    if lease.planned_from <= first <= lease.planned_through + 1:
        first = lease.planned_from
    planned = replace(lease, planned_from=first, planned_through=through)
    if planned != lease:
        _keep(fragment, planned, changes)
    return planned


def is_planned(fragment: Fragment, row_id: int) -> bool:
    """True if the message is planned for a reader."""
    lease = fragment.lease
    if lease is None:
        return False
    return lease.planned_from <= sequence_of(row_id) <= lease.planned_through


def behind_plan(fragment: Fragment, after: int) -> int:
    """The last planned number if the number after `after` is planned, otherwise
    `after`. It allows skipping a million planned messages at once."""
    lease = fragment.lease
    if lease is None or not lease.planned_from <= after + 1 <= lease.planned_through:
        return after
    return lease.planned_through


def settled_through(
    fragment: Fragment, lease: ReaderLease, through: int, changes: ChangeSet
) -> ReaderLease:
    """All planned messages through this number are settled."""
    settled = replace(lease, planned_from=max(lease.planned_from, through + 1))
    if settled != lease:
        _keep(fragment, settled, changes)
    return settled


def _keep(fragment: Fragment, lease: ReaderLease, changes: ChangeSet) -> None:
    fragment.touch(changes)
    fragment.lease = fragment.last_lease = lease
    changes.reader_leases.append(lease)
