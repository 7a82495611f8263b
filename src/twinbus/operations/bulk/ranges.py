"""Reads a range of messages into columns, in slices: other tasks run between them."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.broker.message import ACTIVE, DEFERRED, Message
from twinbus.broker.row_id import sequence_of
from twinbus.encoding.columns import MessageColumns
from twinbus.operations.bulk.requests import BrowsedMessages
from twinbus.operations.fragment_handle import FragmentHandle

_SLICE: Final = 250
"""Messages in a slice: takes a few milliseconds."""

_SLICE_BYTES: Final = 1024 * 1024

_PORTION: Final = 1_000
"""Messages in a portion: so many that the cost per portion does not matter."""

_SLICES: Final = 400
"""Slices in one answer, so that it is fast even if few messages match."""


async def browse(
    part: FragmentHandle,
    first: int,
    end: int,
    columns: Collection[str],
    states: frozenset[int],
    max_bytes: int,
    sessions: frozenset[str] = frozenset(),
) -> AsyncIterator[BrowsedMessages]:
    """Messages from `first` to before `end`, in portions, until the answer is full. The
    last portion may be empty; it has the number to continue at."""
    part.require(Claim.LISTEN)
    await part.settle_down()
    portion = MessageColumns(columns)
    # Sequence numbers begin at 1.
    at, room = max(first, 1), max_bytes
    for _ in range(_SLICES):
        if at >= end or room <= 0:
            break
        messages = await _read(part, at, states, min(room, _SLICE_BYTES))
        at = sequence_of(messages[-1].row_id) + 1 if messages else end
        wanted = _wanted(messages, end, states)
        if sessions:
            wanted = _of_sessions(wanted, sessions)
        portion.extend(wanted, [part.fragment.sequence_number(m) for m in wanted])
        room -= sum([len(message.raw) for message in wanted])
        if portion.count >= _PORTION:
            yield _browsed(part, portion, min(at, end))
            portion = MessageColumns(columns)
        await asyncio.sleep(0)
    yield _browsed(part, portion, min(at, end))


def _wanted(messages: list[Message], end: int, states: frozenset[int]) -> list[Message]:
    return [
        message
        for message in messages
        if message.state in states and sequence_of(message.row_id) < end
    ]


def _of_sessions(messages: list[Message], sessions: frozenset[str]) -> list[Message]:
    """Also in entities without sessions, where messages may name one."""
    named = MessageColumns(["session_id"])
    named.extend(messages, [0] * len(messages))
    ids = named.columns["session_id"]
    return [
        message
        for message, session_id in zip(messages, ids, strict=True)
        if session_id in sessions
    ]


def _browsed(part: FragmentHandle, portion: MessageColumns, at: int) -> BrowsedMessages:
    return BrowsedMessages(
        columns=portion.columns, count=portion.count, next=part.visible(at)
    )


async def _read(
    part: FragmentHandle, first: int, states: frozenset[int], limit_bytes: int
) -> list[Message]:
    part.fragment.check_exists()
    owner, number = part.owner, part.fragment.number
    async with owner.reading:
        if states == {ACTIVE}:
            return await owner.store.read_active(number, first - 1, _SLICE, limit_bytes)
        if states == {DEFERRED}:
            # Usually a few among many active ones.
            return await owner.store.browse_deferred(number, first, _SLICE, limit_bytes)
        return await owner.store.browse(number, first, _SLICE, limit_bytes)
