"""Peek: reads messages of any state without changing them.

Messages of a partitioned entity come in the order of their sequence numbers: those of
the first fragment, then those of the next. A client that continues behind the last
number it got reaches all of them. A fragment that is away is an error and is not left
out, or the client would take the messages behind it for all that there are.
"""

from collections.abc import Iterator

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.message import Message
from twinbus.broker.row_id import SEQUENCE_BITS, sequence_of
from twinbus.errors import FragmentUnavailable
from twinbus.limits import PEEK_BYTES, PEEK_COUNT
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.received_message import ReceivedMessage, unlocked


async def peek(
    handle: EntityHandle, start: int, count: int, session_id: str | None = None
) -> list[ReceivedMessage]:
    """Messages from a sequence number on: at most `count`, and at most one page. If a
    fragment is away, those before it. Raises FragmentUnavailable if there are none."""
    handle.require(Claim.LISTEN)
    handle.check_session(session_id)
    peeked: list[ReceivedMessage] = []
    part: FragmentHandle | None = None
    room, room_bytes = min(count, PEEK_COUNT), PEEK_BYTES
    for index, first in _positions(handle, max(start, 0), session_id):
        try:
            part = handle.part(index)
        except FragmentUnavailable:
            if peeked:
                break
            raise
        await part.settle_down()
        found = await _browse(part, session_id, first, room, room_bytes)
        size_bytes = sum(len(message.raw) for message in found)
        if peeked and size_bytes > room_bytes:
            break
        _log(part, found)
        peeked += [unlocked(part.fragment, message) for message in found]
        room, room_bytes = room - len(found), room_bytes - size_bytes
        if room <= 0 or room_bytes <= 0:
            break
    if not peeked and part is not None:
        log = part.owner.changes.log
        log.event(operation_log.PEEK, part.actor, part.fragment.base, part.now())
    return peeked


def _log(part: FragmentHandle, found: list[Message]) -> None:
    log, now = part.owner.changes.log, part.now()
    for message in found:
        log.record(operation_log.PEEK, part.actor, message, now)


def _positions(
    handle: EntityHandle, start: int, session_id: str | None
) -> Iterator[tuple[int, int]]:
    """The fragments to read in turn, and the number to begin at in each."""
    started_in = start >> SEQUENCE_BITS
    indexes = range(started_in, handle.fragment_count)
    if session_id is not None:
        own = handle.index_of_session(session_id)
        indexes = range(max(own, started_in), own + 1)
    for index in indexes:
        if handle.only is not None and index not in handle.only:
            continue
        yield index, sequence_of(start) if index == started_in else 0


async def _browse(
    part: FragmentHandle,
    session_id: str | None,
    first: int,
    count: int,
    limit_bytes: int,
) -> list[Message]:
    store, number = part.owner.store, part.fragment.number
    if session_id is None:
        return await store.browse(number, first, count, limit_bytes)
    return await store.browse_session(number, session_id, first, count, limit_bytes)
