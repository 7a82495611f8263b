"""Management operations on sessions: their locks, their states, which there are.

Renewing, reading and writing state are for whoever holds the session. A state is
durable before the answer goes out, counts towards the size of its queue, and lives
until it is cleared, with messages or without.
"""

from typing import Final

from twinbus.amqp.types import AmqpArray, Int, Timestamp
from twinbus.broker import session_lock
from twinbus.broker.admission import Duplicates
from twinbus.broker.changes import SessionState
from twinbus.broker.held_session import HeldSession
from twinbus.broker.transaction import Work
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import integer
from twinbus.errors import (
    ArgumentError,
    MessageSizeExceeded,
    NotAllowed,
    SessionNotFound,
)
from twinbus.limits import SESSION_IDS_PER_REQUEST
from twinbus.links.sending import check_room
from twinbus.operations.managed_queue import ManagedQueue
from twinbus.operations.session_pages import Listing

_STRING: Final = 0xB1
_MAX_INT: Final = (1 << 31) - 1
_MAX_LONG: Final = (1 << 63) - 1

_ALL_SESSIONS: Final = 253_402_300_800_000
"""`last-updated-time` of those who want all sessions and not only those whose state
was set since: DateTime.MaxValue, as .NET rounds it."""


async def renew_session_lock(queue: ManagedQueue, request: Request) -> Response:
    """Let the session's lock last a full lock duration from now."""
    session = _held(queue, named_session(queue, request))
    locked_until = session_lock.renew(queue.fragment, session, queue.now())
    return Response(value={"expiration": Timestamp(locked_until)})


async def get_session_state(queue: ManagedQueue, request: Request) -> Response:
    """What the application keeps with the session, or null if that is nothing."""
    session_id = named_session(queue, request)
    _held(queue, session_id)
    await queue.settle_down()
    state = await queue.owner.store.session_state(queue.fragment.number, session_id)
    return Response(value={"session-state": state or None})


async def set_session_state(queue: ManagedQueue, request: Request) -> Response:
    """Keep this with the session; null clears it, and so does no byte at all."""
    session_id = named_session(queue, request)
    state = _state(queue, request)
    await queue.settle_down()
    owner = queue.owner
    async with owner.reading:
        stored = await owner.store.session_state(queue.fragment.number, session_id)
        session = _held(queue, session_id)
        if session.state_bytes < 0:
            session.state_bytes = len(stored or b"")
        change = SessionStateChange(queue, session, state)
        if request.transaction is not None:
            request.transaction.enlist(change, queue.now())
            return Response()
        change.check_room(queue.now())
        change.write(queue.now())
    await owner.durable()
    return Response()


def _state(queue: ManagedQueue, request: Request) -> bytes | None:
    state = request.optional("session-state")
    if state is None:
        return None
    if not isinstance(state, bytes):
        raise ArgumentError("'session-state' must be binary, or null to clear it.")
    if len(state) > queue.max_message_bytes:
        raise MessageSizeExceeded(
            f"The session state of {len(state)} bytes is larger than the "
            f"{queue.max_message_bytes} bytes that '{queue.path}' accepts, as of a "
            "message. Keep less, or raise the entity's limit.",
            entity_path=queue.path,
        )
    return state or None


class SessionStateChange(Work):
    """A new state of a held session; whoever holds it is the only one to change it."""

    def __init__(
        self, queue: ManagedQueue, session: HeldSession, state: bytes | None
    ) -> None:
        super().__init__(queue.fragment.home)
        self._fragment = queue.fragment
        self._session = session
        self._state = state
        self.target = queue.fragment
        # In full, although it replaces another: so much is held until the commit.
        self.added_bytes = len(state or b"")

    def check(self, now: int) -> None:
        fragment, session = self._fragment, self._session
        fragment.check_exists()
        if session_lock.held(fragment, session.session_id, now) is not session:
            raise fragment.lock_lost()

    def check_room(self, now: int) -> None:
        """Raises if what it takes more than the old state has no room."""
        added_bytes = self._growth()
        if added_bytes > 0:
            check_room(self._fragment, added_bytes, now)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self.write(now)

    def write(self, now: int) -> None:
        """Write the state, and account for what it takes more than the old one."""
        fragment, session, changes = self._fragment, self._session, self.home.changes
        fragment.resize(self._growth())
        session.state_bytes = len(self._state or b"")
        fragment.touch(changes)
        changes.session_states.append(
            SessionState(
                fragment_number=fragment.number,
                session_id=session.session_id,
                state=self._state,
                updated_at=now,
            )
        )

    def _growth(self) -> int:
        return len(self._state or b"") - self._session.state_bytes


async def list_sessions(queue: ManagedQueue, request: Request) -> Response:
    """Ids of sessions with messages or a state, in pages."""
    _check_has_sessions(queue)
    name = "last-updated-time"
    since = integer(request.argument(name), name, -_MAX_LONG - 1, _MAX_LONG)
    skip = integer(request.argument("skip"), "skip", 0, _MAX_INT)
    top = integer(request.argument("top"), "top", 1, _MAX_INT)
    await queue.settle_down()
    listing = Listing(
        queue.owner.store,
        queue.fragment.number,
        None if since >= _ALL_SESSIONS else since,
        queue.session_pages,
    )
    found = await listing.page(skip, min(top, SESSION_IDS_PER_REQUEST))
    if not found:
        raise SessionNotFound(entity_path=queue.path)
    session_ids: list[object] = list(found)
    return Response(
        value={
            "skip": Int(skip + len(found)),
            "sessions-ids": AmqpArray(_STRING, session_ids),
        }
    )


# --- which session --------------------------------------------------------------


def optional_session(queue: ManagedQueue, request: Request) -> str | None:
    """The session that a request is about, if it says so. Raises ArgumentError,
    NotAllowed."""
    session_id = request.optional("session-id")
    if session_id is None:
        return None
    if not isinstance(session_id, str):
        raise ArgumentError("'session-id' must be a string.")
    _check_has_sessions(queue)
    return str(session_id)


def named_session(queue: ManagedQueue, request: Request) -> str:
    """The session that a request must name. Raises ArgumentError, NotAllowed."""
    request.argument("session-id")
    session_id = optional_session(queue, request)
    assert session_id is not None
    return session_id


def receiving_session(queue: ManagedQueue, request: Request) -> HeldSession | None:
    """The held session whose messages are to be received; None where there are no
    sessions. Raises ArgumentError, NotAllowed, SessionLockLost."""
    if not queue.fragment.settings.requires_session:
        optional_session(queue, request)
        return None
    return _held(queue, named_session(queue, request))


def _held(queue: ManagedQueue, session_id: str) -> HeldSession:
    queue.fragment.check_exists()
    return session_lock.held(queue.fragment, session_id, queue.now())


def _check_has_sessions(queue: ManagedQueue) -> None:
    if not queue.fragment.settings.requires_session:
        raise NotAllowed(
            f"'{queue.path}' does not require sessions: it has none to ask for.",
            entity_path=queue.path,
        )
