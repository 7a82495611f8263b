"""The state of each fragment of an entity, for administrators.

It also tells of fragments whose stores are away: their counts are those of the last
commit, and their first message is not known.
"""

from dataclasses import dataclass
from typing import cast

from twinbus.broker.changes import FragmentRecord
from twinbus.broker.fragment import MAIN
from twinbus.broker.row_id import SEQUENCE_BITS, SEQUENCE_MASK, sequence_of
from twinbus.entities.entity import Entity
from twinbus.errors import ServerBusy
from twinbus.owner.store_owner import StoreOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentState:
    """One fragment, without its sub-queues."""

    index: int
    # UUID of its message store, in hex.
    store: str
    # Of the owner of its store: serving, unavailable and so on.
    state: str
    active_count: int
    deferred_count: int
    scheduled_count: int
    size_bytes: int
    # Numbers of its first active message, if it has one and it could be read, and of
    # the message that it gets next; None if its store was never opened.
    first: int | None
    next: int | None


async def fragment_states(entity: Entity) -> list[FragmentState]:
    """Those of all fragments, by index."""
    return [await _state(entity, index) for index in range(entity.fragment_count)]


async def _state(entity: Entity, index: int) -> FragmentState:
    owner = cast(StoreOwner, entity.home(index))
    known = entity.counters(MAIN, index)
    base = index << SEQUENCE_BITS
    first = None if known is None else await _first(owner, known)
    return FragmentState(
        index=index,
        store=entity.record.placement[index].hex(),
        state=owner.state.name.lower(),
        active_count=0 if known is None else known.active_count,
        deferred_count=0 if known is None else known.deferred_count,
        scheduled_count=0 if known is None else known.scheduled_count,
        size_bytes=0 if known is None else known.size_bytes,
        first=None if first is None else base + first,
        next=None if known is None else base + known.next_sequence,
    )


async def _first(owner: StoreOwner, record: FragmentRecord) -> int | None:
    if not owner.is_serving:
        return None
    try:
        async with owner.reading:
            found = await owner.store.outlines(record.number, 0, SEQUENCE_MASK, 1)
    except ServerBusy:
        return None  # it has just gone away
    return sequence_of(found.row_ids[0]) if len(found) else None
