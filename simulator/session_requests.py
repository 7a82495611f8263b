"""What simulated clients ask of `$management` about sessions."""

from typing import Final

from simulator.life import Life
from simulator.replies import replied, request, value_of
from twinbus.doors.amqp import management_sessions
from twinbus.errors import SessionLockLost, SessionNotFound

_ALL_SESSIONS: Final = 253_402_300_800_000


async def renew_session(life: Life, path: str, session_id: str, holder: int) -> None:
    locked_until = 0
    with replied(life, f"renew session {session_id} of {path}") as reply:
        response = await management_sessions.renew_session_lock(
            life.managed(path, False), request(session_id=session_id)
        )
        locked_until = int(value_of(response)["expiration"])
    if reply.is_ok:
        life.auditor.sessions.renewed(path, session_id, locked_until)
    elif isinstance(reply.error, SessionLockLost):
        life.auditor.sessions.renew_refused(path, session_id, holder)


async def set_state(
    life: Life, path: str, session_id: str, value: bytes | None
) -> None:
    life.tell(None)
    sessions, asked = life.auditor.sessions, life.auditor.event
    sessions.state_requested(path, session_id, value)
    what = f"set state of session {session_id} of {path} to {value!r}"
    with replied(life, what) as reply:
        await management_sessions.set_session_state(
            life.managed(path, False),
            request(session_id=session_id, session_state=value),
        )
    sessions.state_answered(
        path,
        session_id,
        asked,
        is_known=not reply.is_unknown,
        is_set=reply.is_ok,
    )


async def get_state(life: Life, path: str, session_id: str) -> None:
    life.tell(None)
    sessions, since = life.auditor.sessions, life.auditor.event
    before = sessions.known_states(path, session_id)
    value: bytes | None = None
    with replied(life, f"state of session {session_id} of {path}") as reply:
        response = await management_sessions.get_session_state(
            life.managed(path, False), request(session_id=session_id)
        )
        value = value_of(response)["session-state"]
    if reply.is_ok:
        sessions.state_read(path, session_id, value, before=before, since=since)


async def list_sessions(life: Life, path: str) -> set[str]:
    """The sessions that have something."""
    found: set[str] = set()
    try:
        response = await management_sessions.list_sessions(
            life.managed(path, False),
            request(last_updated_time=_ALL_SESSIONS, skip=0, top=100),
        )
    except SessionNotFound:
        return found
    return {str(name) for name in value_of(response)["sessions-ids"].items}
