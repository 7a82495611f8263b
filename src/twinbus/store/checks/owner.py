"""An owner of the store under test: numbers commits, makes messages, compares them.

Change sets are made of plain columns here; checks that need the core's own use its
fragments.
"""

from collections.abc import Sequence
from typing import Final, final

from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.broker.message import ACTIVE, Annex, Message, restored_message
from twinbus.broker.row_id import base_of
from twinbus.store.base import Opened, Store
from twinbus.store.checks.places import StorePlace
from twinbus.store.opening import open_store

NOW: Final = 1_700_000_000_000
GENERATION: Final = bytes(range(16))
NO_LIMIT: Final = 1 << 40


@final
class Owner:
    """The one that has opened the store."""

    def __init__(self, place: StorePlace, store: Store, opened: Opened) -> None:
        self.place: StorePlace = place
        self.store: Store = store
        self.opened: Opened = opened
        # Number of the last commit.
        self.batch: int = opened.last_batch

    async def commit(self, changes: ChangeSet, now: int = NOW) -> None:
        """Seal the change set with the next number and commit it."""
        changes.seal(self.opened.epoch, self.batch + 1, now)
        await self.store.commit(changes)
        self.batch += 1

    async def reopened(self) -> "Owner":
        """Close; somebody else opens the store."""
        await self.store.close()
        return await owner_of(self.place)


async def owner_of(place: StorePlace) -> Owner:
    """Open the place's store."""
    store = place.store()
    return Owner(place, store, await open_store(store, "check_store", NOW))


def message(
    fragment_number: int,
    sequence: int,
    *,
    raw: bytes = b"raw",
    layout: int = 7,
    enqueued_at: int = NOW,
    ttl_ms: int = 0,
    delivery_count: int = 0,
    state: int = ACTIVE,
    scheduled_at: int = 0,
    annex: Annex | None = None,
    session_id: str | None = None,
    body_id: int = 0,
    is_shared: bool = False,
) -> Message:
    """A message as a fragment would have placed it."""
    row_id = base_of(fragment_number) + sequence
    return restored_message(
        row_id,
        raw,
        layout,
        enqueued_at,
        ttl_ms,
        delivery_count,
        state,
        scheduled_at,
        annex,
        session_id,
        body_id,
        is_shared,
    )


def record(number: int, *, active_count: int = 0) -> FragmentRecord:
    """The record of a fragment."""
    return FragmentRecord(
        number=number,
        generation=GENERATION,
        index=number,
        sub_queue=0,
        active_count=active_count,
    )


def values(found: Message) -> tuple[object, ...]:
    """All of a message that is durable."""
    return (
        found.row_id,
        found.raw,
        found.layout,
        found.enqueued_at,
        found.ttl_ms,
        found.expires_at,
        found.delivery_count,
        found.state,
        found.scheduled_at,
        found.annex,
        found.session_id,
        found.body_id,
        found.is_shared,
    )


def all_values(messages: Sequence[Message]) -> list[tuple[object, ...]]:
    """The same of many, in the order of their row ids."""
    return [values(m) for m in sorted(messages, key=lambda m: m.row_id)]


def row_ids(messages: Sequence[Message]) -> list[int]:
    return [m.row_id for m in messages]
