"""What a store is: a small set of operations, each atomic, used by one owner.

A store keeps the fragments that live in it. One broker owns it at a time, by
a lease with an epoch (`lease.py`); every commit checks the epoch in its own
transaction, so an owner that was replaced cannot write any more. Every commit has a
number, so that after a failure its outcome can be found out.

All operations are `async`, because a database server is reached over a network.
An embedded store answers without suspending. The owner calls one operation at a
time, except those of `StoreReader`. Reads see every commit that was confirmed before
them, and raise StoreUnreadable if they find damage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    OutboxEntry,
    ReaderLease,
    StoredEntity,
    StoredRule,
)
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.broker.outbox import OutboxTotal
from twinbus.broker.outline import Outlines
from twinbus.limits import WINDOW_BYTES
from twinbus.store.lease import StoreLease

PORTION_BYTES: Final = WINDOW_BYTES
"""Messages that are due or expired are read in portions of at most this size, so that
a thousand large ones do not fill the memory at once."""

TRIMMED_IDS: Final = 2_000
"""How many ids are forgotten at once. With many more, clients notice the pause."""


class StoreError(Exception):
    """A store could not do what it was asked to do."""


class StoreInUse(StoreError):
    """Another live process owns the store."""


class LeaseInDoubt(StoreInUse):
    """Another owns the store, or died and has not given it back: ask again soon."""


class StoreMissing(StoreError):
    """There is nothing where a store was before."""


class StoreUnreadable(StoreError):
    """The store is damaged, or written by a version this one cannot read."""


class CommitsLost(StoreUnreadable):
    """Commits that were confirmed are not in the store any more."""


class StoreFull(StoreError):
    """There is no room for the commit; nothing of it happened."""


class CommitFailed(StoreError):
    """Nothing of the commit happened."""


class StoreReadOnly(CommitFailed):
    """The store can only be read at present; nothing of the commit happened."""


class CommitUnknown(StoreError):
    """The commit may or may not have happened; `last_batch` will tell."""


class FormatTooNew(StoreUnreadable):
    """The file was written by a newer version, which this one cannot read."""


class CatalogIncomplete(StoreUnreadable):
    """The store holds fragments that the catalog does not know."""


class LeaseLost(StoreError):
    """Another owner has taken the store; this one must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What an owner learns of the store when it has taken the lease."""

    store_uuid: bytes
    # Raised by every take of the lease; part of lock tokens, checked by every commit.
    epoch: int
    # Number of the last commit; the next one is the following number.
    last_batch: int
    fragments: list[FragmentRecord]
    # Numbers of dropped fragments that still have rows.
    purging: list[int]
    # The earliest scheduled message's time, or 0.
    next_scheduled_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryCursor:
    """How far a pass over the expiry buckets has come."""

    bucket: int = -1
    row_id: int = -(1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRefill:
    """What one window asks for: the active messages after those it had."""

    fragment_number: int
    # Only messages of this session; None: of all sessions, and of none.
    session_id: str | None = None
    # The sequence number of the last message that it had.
    after: int
    limit: int
    limit_bytes: int


class StoreReader(Protocol):
    """Reads that may run beside any other operation, a commit included. A database
    server does them over a connection of their own. They see a commit whole or not at
    all, and every commit that was confirmed before they began."""

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        """Messages of every state from `from_sequence` on, in order; the limits
        are those of `Store.read_active`."""
        ...

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        """Messages of one session, of every state; otherwise as `browse`."""
        ...

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        """Ids of sessions with active messages or a state, in the order of
        `Store.active_sessions`."""
        ...

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        """Ids of sessions whose state was set after `since`, in that order."""
        ...

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        """What the application keeps with the session, if anything."""
        ...


class Store(StoreReader, Protocol):
    """Durable fragments, with one owner at a time. After an error its owner may close
    it and take its lease again."""

    @property
    def location(self) -> str:
        """Where its content is, as a text for people."""
        ...

    @property
    def lease(self) -> StoreLease:
        """Who may write to it. Nothing below works before the lease was taken."""
        ...

    async def load(self) -> Opened:
        """What an owner needs to begin."""
        ...

    async def commit(self, changes: ChangeSet) -> None:
        """Make a sealed change set durable, whole or not at all.

        Its number must be higher than that of the last commit. Raises StoreFull,
        CommitFailed, CommitUnknown, LeaseLost.
        """
        ...

    async def room(self) -> int:
        """How many bytes of messages may be added before this is asked again. With
        0 a store takes only what removes, or changes what is there."""
        ...

    async def last_batch(self) -> int:
        """The number of the last commit that happened.

        After CommitUnknown this says whether the commit happened, and the answer
        stays true after a crash. Raises CommitUnknown again, or LeaseLost.
        """
        ...

    async def fragments(self) -> list[FragmentRecord]:
        """All fragment records as of the last commit."""
        ...

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        """Active messages with a sequence number above `after`, in order: at most
        `limit`, and no more once they have `limit_bytes`; at least one if any."""
        ...

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        """Messages for many windows, in one round trip: what `read_active` or
        `read_session` gives for each, in the order of `refills`.

        All portions together have at most `limit` messages, and no more once they
        have `limit_bytes`. The portion that reaches this limit is cut, and there is
        none for the refills that follow: the answer is shorter than `refills`. The
        first refill always has a portion.
        """
        ...

    async def count_active(self, fragment_number: int) -> int:
        """How many active messages there are. They are counted one by one, so it takes
        the longer the more there are."""
        ...

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        """Active messages with sequence numbers from `first` through `last`, in order
        and without their bytes: at most `limit`. Nothing if `last` is below `first`."""
        ...

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        """Those of the named messages that are active, in any order."""
        ...

    async def reader_leases(self) -> list[ReaderLease]:
        """All reader leases, also those that have ended."""
        ...

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        """Deferred messages from a sequence number on, in order: at most `limit`, and
        no more once they have `limit_bytes`; at least one if any."""
        ...

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        """Those of the named messages that are deferred, in any order."""
        ...

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        """How many bytes `read_deferred` would read, without reading them."""
        ...

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        """Those of the named messages that are scheduled, in any order."""
        ...

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        """Active messages of one session; otherwise as `read_active`."""
        ...

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        """Ids of sessions with active messages, from the one after `after` on (None:
        from the first). Each store has its own order, which never changes."""
        ...

    async def rules(self) -> list[StoredRule]:
        """All rules of all subscriptions here, those of each in the order of their
        creation."""
        ...

    async def entities(self) -> list[StoredEntity]:
        """The copies of the entities' descriptions, in no order. A store that was
        migrated from format 3 or older lacks some until the next start."""
        ...

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        """Scheduled messages whose time has come, earliest first, except those of the
        fragments `without`: at most `limit`, and no more once they have
        `PORTION_BYTES`."""
        ...

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        """The time of the earliest scheduled message, or 0; except those of the
        fragments `without`."""
        ...

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        """Active messages in expiry buckets that are past, from a cursor on, and the
        cursor to go on from. The limits are those of `due`. When there are no more
        messages the pass is over, and the cursor is at the beginning again.
        """
        ...

    async def purge(self, fragment_number: int, limit: int) -> bool:
        """Remove up to `limit` rows of a dropped fragment; True when none is left
        and the number may be used again. That of a topic may not while others use
        its bodies: its subscriptions must be purged too. Raises as `commit` does."""
        ...

    async def outbox(
        self,
        limit: int,
        *,
        lane: str = "",
        after: int = 0,
        limit_bytes: int = NO_LIMIT,
    ) -> list[OutboxEntry]:
        """The oldest entries of the outbox with an id above `after`, whose target
        begins with `lane`: at most `limit`, and no more once they have `limit_bytes`;
        at least one if any."""
        ...

    async def outbox_totals(self) -> list[OutboxTotal]:
        """What the outbox holds, by target and origin, in no order."""
        ...

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        """Which of the numbers are in the range ledger."""
        ...

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        """Which of the ids are in the id ledger, and not to be forgotten by now."""
        ...

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        """Operation-log blobs of the commits after a number, in order."""
        ...

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        """Forget old log blobs, and up to `limit` ledger ids whose time has passed;
        True when no such id is left. Raises as `commit` does."""
        ...

    async def close(self) -> None:
        """Give the lease back, if it is held. What was committed stays."""
        ...
