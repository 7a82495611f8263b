"""Reading a range of messages into columns, in slices."""

import asyncio
from collections.abc import Collection
from typing import Final

from twinbus.broker.message import ACTIVE, Message
from twinbus.broker.row_id import sequence_of
from twinbus.encoding.columns import MessageColumns
from twinbus.gateway.bulk.ports import BrowsedMessages
from twinbus.server.bulk.source import Source

_SLICE: Final = 500
"""Messages at a time: a few milliseconds."""

_SLICE_BYTES: Final = 1024 * 1024


async def browse(
    source: Source,
    first: int,
    end: int,
    columns: Collection[str],
    states: frozenset[int],
    max_bytes: int,
) -> BrowsedMessages:
    """Messages from `first` on and before `end`, until the answer has its size; at
    least one if there is any."""
    await source.settle_down()
    found = MessageColumns(columns)
    # Numbers begin at one.
    count, at = 0, max(first, 1)
    while at < end and found.size_bytes < max_bytes:
        room = max_bytes - found.size_bytes
        messages = await _read(source, at, states, min(room, _SLICE_BYTES))
        if not messages:
            at = end
        for message in messages:
            sequence = sequence_of(message.row_id)
            if sequence >= end:
                at = end
                break
            at = sequence + 1
            if message.state in states:
                found.add(message, source.fragment.sequence_number(message))
                count += 1
        await asyncio.sleep(0)
    return BrowsedMessages(columns=found.columns, count=count, next=source.visible(at))


async def _read(
    source: Source, first: int, states: frozenset[int], limit_bytes: int
) -> list[Message]:
    source.fragment.check_exists()
    owner, number = source.owner, source.fragment.number
    async with owner.reading:
        if states == {ACTIVE}:
            return await owner.store.read_active(number, first - 1, _SLICE, limit_bytes)
        return await owner.store.browse(number, first, _SLICE, limit_bytes)
