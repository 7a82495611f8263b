"""Takes, renews and ends the locks of a fragment's sessions.

| the session is        | its locked messages                   | delivery count |
|-----------------------|---------------------------------------|----------------|
| closed by its holder  | are ready again for the next holder   | unchanged      |
| lost: lock ran out    | are ready again, or dead-lettered     | + 1            |

A receiver in receive-and-delete mode keeps its session while it is attached: it has no
locked messages, so nothing could be processed twice.

A session is free for others after the commit: the settlements of its last holder must
be durable before its messages are read for the next one.
"""

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.delivery_count import count_delivery
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import NOWHERE
from twinbus.errors import SessionLockLost


def hold(fragment: Fragment, session_id: str, now: int) -> HeldSession:
    """Lock a session that is free."""
    locked_until = now + fragment.settings.lock_duration_ms
    return fragment.the_sessions().hold(session_id, locked_until, fragment.window.tail)


def held(fragment: Fragment, session_id: str, now: int) -> HeldSession:
    """The session, if it is held now. Raises SessionLockLost."""
    session = fragment.the_sessions().live(session_id)
    if session is None or session.locked_until <= now:
        raise SessionLockLost.named(session_id, entity_path=fragment.settings.path)
    return session


def renew(fragment: Fragment, session: HeldSession, now: int) -> int:
    """Extend the lock to a full duration from now, and return its new end."""
    locked_until = now + fragment.settings.lock_duration_ms
    fragment.the_sessions().renew(session, locked_until)
    return locked_until


def close(fragment: Fragment, session: HeldSession, changes: ChangeSet) -> None:
    """The holder closed the session, or detached."""
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
    """The lock has run out. In receive-and-delete mode it is renewed."""
    receiver = session.receiver
    if receiver is None or receiver.peek_lock or session.locks:
        _lose(fragment, session, now, changes)
        return
    renew(fragment, session, now)
    # Messages that arrived after the end of the lock were not delivered.
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
