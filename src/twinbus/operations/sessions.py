"""Sessions: renew locks, read and write states, list ids.

Only the holder of a session can renew its lock, and read or write its state. A state is
durable before the operation returns. It counts towards the size of its entity, and
stays until it is cleared, even if the session has no messages. A session is in one
fragment of a partitioned entity.
"""

from twinbus.auth.claims import Claim
from twinbus.broker import session_lock
from twinbus.errors import MessageSizeExceeded, SessionNotFound
from twinbus.limits import SESSION_IDS_PER_REQUEST
from twinbus.links.enlistment import Enlistment
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.session_pages import Listing, SessionPages
from twinbus.operations.session_state_change import SessionStateChange
from twinbus.operations.several_stores import settle_down


async def renew_session(handle: EntityHandle, session_id: str) -> int:
    """Extend the lock to a full lock duration from now. Returns its new end."""
    handle.require(Claim.LISTEN)
    handle.check_has_sessions()
    part = handle.part_of_session(session_id)
    part.owner.check_lease()
    session = part.held_session(session_id)
    return session_lock.renew(part.fragment, session, part.now())


async def session_state(handle: EntityHandle, session_id: str) -> bytes | None:
    """The application's state of the session, or None."""
    handle.require(Claim.LISTEN)
    handle.check_has_sessions()
    part = handle.part_of_session(session_id)
    part.held_session(session_id)
    await part.settle_down()
    store = part.owner.store
    return await store.session_state(part.fragment.number, session_id) or None


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
    part = handle.part_of_session(session_id)
    await part.settle_down()
    owner, fragment = part.owner, part.fragment
    async with owner.reading:
        stored = await owner.store.session_state(fragment.number, session_id)
        session = part.held_session(session_id)
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
    """Ids of sessions with messages or a state, after the first `skip` of them; those
    of one fragment after those of the other. With `updated_since`: of sessions whose
    state was set since then. Raises SessionNotFound if there are none."""
    handle.require(Claim.LISTEN)
    handle.check_has_sessions()
    parts = handle.parts()
    await settle_down(parts)
    listing = Listing(
        [(part.owner.store, part.fragment.number) for part in parts],
        (handle.entity.record.generation, updated_since),
        handle.caller.session_pages if handle.only is None else SessionPages(),
    )
    found = await listing.page(skip, min(limit, SESSION_IDS_PER_REQUEST))
    if not found:
        raise SessionNotFound(entity_path=handle.path)
    return found
