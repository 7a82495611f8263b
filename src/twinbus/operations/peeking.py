"""Peek: reads messages of any state without changing them."""

from twinbus.auth.claims import Claim
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.limits import PEEK_BYTES, PEEK_COUNT
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.received_message import ReceivedMessage, unlocked


async def peek(
    handle: EntityHandle, start: int, count: int, session_id: str | None = None
) -> list[ReceivedMessage]:
    """Messages from a sequence number on: at most `count`, and at most one page."""
    handle.require(Claim.LISTEN)
    handle.check_session(session_id)
    await handle.settle_down()
    first = sequence_of(max(start, 0))
    found = await _browse(handle, session_id, first, min(count, PEEK_COUNT))
    return [unlocked(handle.fragment, message) for message in found]


async def _browse(
    handle: EntityHandle, session_id: str | None, first: int, count: int
) -> list[Message]:
    store, number = handle.owner.store, handle.fragment.number
    if session_id is None:
        return await store.browse(number, first, count, PEEK_BYTES)
    return await store.browse_session(number, session_id, first, count, PEEK_BYTES)
