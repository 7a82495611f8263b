"""Sessions of a fragment: holding, renewing and giving them up.

| the session is      | its locked messages                | delivery count |
|---------------------|------------------------------------|----------------|
| closed by its owner | are ready again for the next owner | unchanged      |
| lost: lock ran out  | are ready again, or dead-lettered  | + 1            |

Of a receiver that receives and deletes nothing is locked, and nothing could be done
twice: it keeps its session for as long as it is there.

Others may have it once the commit of that has happened: what its last holder
settled must be durable before the store is read for the next.
"""

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import NOWHERE
from twinbus.broker.settlement import count_delivery
from twinbus.errors import SessionLockLost


def hold(fragment: Fragment, session_id: str, now: int) -> HeldSession:
    """Lock a session that nobody holds."""
    locked_until = now + fragment.settings.lock_duration_ms
    return fragment.the_sessions().hold(session_id, locked_until, fragment.window.tail)


def held(fragment: Fragment, session_id: str, now: int) -> HeldSession:
    """The session, if somebody holds it now. Raises SessionLockLost."""
    session = fragment.the_sessions().live(session_id)
    if session is None or session.locked_until <= now:
        raise SessionLockLost.named(session_id, entity_path=fragment.settings.path)
    return session


def renew(fragment: Fragment, session: HeldSession, now: int) -> int:
    """Let the lock last a full duration from now; returns its new end."""
    locked_until = now + fragment.settings.lock_duration_ms
    fragment.the_sessions().renew(session, locked_until)
    return locked_until


def close(fragment: Fragment, session: HeldSession, changes: ChangeSet) -> None:
    """The holder gives the session up, or is gone."""
    sessions = fragment.the_sessions()
    if session.is_released or sessions.held.get(session.session_id) is not session:
        return
    for lock in list(session.locks.values()):
        fragment.end_lock(lock)
        lock.message.place = NOWHERE
        fragment.come_back(lock.message, changes)
    sessions.release(session)
    fragment.touch(changes)


def end(fragment: Fragment, session: HeldSession, now: int, changes: ChangeSet) -> None:
    """The lock has run out."""
    receiver = session.receiver
    if receiver is None or receiver.peek_lock or session.locks:
        _lose(fragment, session, now, changes)
        return
    renew(fragment, session, now)
    # What came after the end of the lock has not been delivered.
    fragment.the_sessions().stir(session)
    fragment.touch(changes)


def _lose(
    fragment: Fragment, session: HeldSession, now: int, changes: ChangeSet
) -> None:
    for lock in list(session.locks.values()):
        fragment.end_lock(lock)
        changes.log.record(
            operation_log.LOCK_EXPIRED, operation_log.THE_BUS, lock.message, now
        )
        count_delivery(fragment, lock.message, now, changes)
    fragment.the_sessions().release(session)
    fragment.touch(changes)
    if session.receiver is not None:
        session.receiver.session_lost()
