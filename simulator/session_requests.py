"""Requests of simulated clients about sessions."""

from simulator.life import Life
from simulator.replies import replied
from twinbus.errors import SessionLockLost, SessionNotFound
from twinbus.operations import sessions


async def renew_session(life: Life, path: str, session_id: str, holder: int) -> None:
    locked_until = 0
    with replied(life, f"renew session {session_id} of {path}") as reply:
        locked_until = await sessions.renew_session(life.handle(path), session_id)
    if reply.is_ok:
        life.auditor.sessions.renewed(path, session_id, locked_until)
    elif isinstance(reply.error, SessionLockLost):
        life.auditor.sessions.renew_refused(path, session_id, holder)


async def set_state(
    life: Life, path: str, session_id: str, value: bytes | None
) -> None:
    life.tell(None)
    audit, asked = life.auditor.sessions, life.auditor.event
    audit.state_requested(path, session_id, value)
    what = f"set state of session {session_id} of {path} to {value!r}"
    with replied(life, what) as reply:
        await sessions.set_session_state(life.handle(path), session_id, value)
    audit.state_answered(
        path,
        session_id,
        asked,
        is_known=not reply.is_unknown,
        is_set=reply.is_ok,
    )


async def get_state(life: Life, path: str, session_id: str) -> None:
    life.tell(None)
    audit, since = life.auditor.sessions, life.auditor.event
    before = audit.known_states(path, session_id)
    value: bytes | None = None
    with replied(life, f"state of session {session_id} of {path}") as reply:
        value = await sessions.session_state(life.handle(path), session_id)
    if reply.is_ok:
        audit.state_read(path, session_id, value, before=before, since=since)


async def list_sessions(life: Life, path: str) -> set[str]:
    """The sessions that have messages or a state."""
    found: set[str] = set()
    try:
        found.update(await sessions.list_sessions(life.handle(path), 0, 100))
    except SessionNotFound:
        pass
    return found
