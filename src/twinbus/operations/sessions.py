"""Sessions: renew locks, read and write states, list ids.

Only the holder of a session can renew its lock, and read or write its state. A state is
durable before the operation returns. It counts towards the size of its entity, and
stays until it is cleared, even if the session has no messages.
"""

from twinbus.auth.claims import Claim
from twinbus.broker import session_lock
from twinbus.errors import MessageSizeExceeded, SessionNotFound
from twinbus.limits import SESSION_IDS_PER_REQUEST
from twinbus.links.enlistment import Enlistment
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.session_pages import Listing
from twinbus.operations.session_state_change import SessionStateChange


async def renew_session(handle: EntityHandle, session_id: str) -> int:
    """Extend the lock to a full lock duration from now. Returns its new end."""
    handle.require(Claim.LISTEN)
    session = handle.held_session(session_id)
    return session_lock.renew(handle.fragment, session, handle.now())


async def session_state(handle: EntityHandle, session_id: str) -> bytes | None:
    """The application's state of the session, or None."""
    handle.require(Claim.LISTEN)
    handle.held_session(session_id)
    await handle.settle_down()
    store = handle.owner.store
    return await store.session_state(handle.fragment.number, session_id) or None


async def set_session_state(
    handle: EntityHandle,
    session_id: str,
    state: bytes | None,
    transaction: Enlistment | None = None,
) -> None:
    """Set the session's state; None or an empty state clears it."""
    handle.require(Claim.LISTEN)
    handle.check_has_sessions()
    _check_size(handle, state)
    await handle.settle_down()
    owner, fragment = handle.owner, handle.fragment
    async with owner.reading:
        stored = await owner.store.session_state(fragment.number, session_id)
        session = handle.held_session(session_id)
        if session.state_bytes < 0:
            session.state_bytes = len(stored or b"")
        change = SessionStateChange(fragment, session, state or None)
        if transaction is not None:
            transaction.enlist(change, handle.now())
            return
        change.check_room(handle.now())
        change.write(handle.now())
    await owner.durable()


def _check_size(handle: EntityHandle, state: bytes | None) -> None:
    """Raises MessageSizeExceeded."""
    limit = handle.arrivals.max_message_bytes
    if len(state or b"") > limit:
        raise MessageSizeExceeded(
            f"The session state of {len(state or b'')} bytes is larger than the "
            f"{limit} bytes that '{handle.path}' accepts for a state or a "
            "message. Store less, or raise the entity's limit.",
            entity_path=handle.path,
        )


async def list_sessions(
    handle: EntityHandle, skip: int, limit: int, updated_since: int | None = None
) -> list[str]:
    """Ids of sessions with messages or a state, after the first `skip` of them. With
    `updated_since`: of sessions whose state was set since then. Raises SessionNotFound
    if there are none."""
    handle.require(Claim.LISTEN)
    handle.check_has_sessions()
    await handle.settle_down()
    listing = Listing(
        handle.owner.store,
        handle.fragment.number,
        updated_since,
        handle.caller.session_pages,
    )
    found = await listing.page(skip, min(limit, SESSION_IDS_PER_REQUEST))
    if not found:
        raise SessionNotFound(entity_path=handle.path)
    return found
