"""A store that fails, but only in ways that a real one may.

| fault                    | what the bus sees           | why recovery must succeed |
|--------------------------|-----------------------------|---------------------------|
| crash before a commit    | the process ends            | nothing was acknowledged  |
| crash after a commit     | the process ends, no reply  | the commit is durable     |
| torn commit              | the process ends inside it  | a commit is whole or not  |
| failed commit            | CommitFailed                | nothing of it happened    |
| full                     | StoreFull, for a while      | nothing of it happened    |
| full for long            | no room; adding: StoreFull  | what removes passes       |
| unknown, happened        | CommitUnknown               | `last_batch` tells        |
| unknown, did not happen  | CommitUnknown               | `last_batch` tells        |
| slow commit, slow read   | time passes, others go on   | the order of commits stays|
| lost lease               | LeaseLost                   | the new owner has all     |

What is never injected: a lost or changed row, a read that is not of the last commit
or the one under way, an error that lies. Those are damage, which no bus survives.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

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
from twinbus.store.base import (
    TRIMMED_IDS,
    CommitFailed,
    CommitUnknown,
    ExpiryCursor,
    Opened,
    Store,
    StoreFull,
    WindowRefill,
)
from twinbus.store.lease import StoreLease

T = TypeVar("T")

_LONG_SECONDS = 10.0
"""Of a full disk: long enough to be drained."""

_CALLS_IN_NO_TIME = 2_000
"""More at one instant, and the bus goes round in circles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often each fault happens, of one commit or read."""

    crash_before: float = 0.0
    crash_after: float = 0.0
    torn: float = 0.0
    failed: float = 0.0
    full: float = 0.0
    unknown: float = 0.0
    slow_commit: float = 0.0
    slow_read: float = 0.0


class Surroundings(Protocol):
    """The world, as far as a store can do something to it."""

    def crash(self, how: str, *, torn: bool = False) -> None:
        """The process ends here."""

    def about_to_commit(self) -> None:
        """From here to the reply the commit is under way."""

    def commit_did_not_happen(self) -> None:
        """The bus will start over."""

    def bus_has_started_over(self) -> None:
        """It has read its store, and what it did meanwhile is void."""

    def is_going_in_circles(self) -> None:
        """The bus does not let time pass."""

    def store_calls_overlap(self) -> None:
        """The owner breaks the contract of its store."""

    def note(self, what: str) -> None: ...


class FaultyStore:
    """Stands between an owner and its store."""

    def __init__(
        self, store: Store, faults: Faults, random: Random, world: Surroundings
    ) -> None:
        self.store = store
        self.faults = faults
        self._random = random
        self._world = world
        # The process that used this store is dead: nothing returns any more.
        self.is_dead = False
        # The disk is full until then, in the loop's time; what only removes may be
        # written all the same.
        self._full_until = 0.0
        self._has_reserve = False
        # The write under way adds messages.
        self._adds = False
        # A commit did not happen, and the bus has not read all it needs since.
        self._is_recovering = False
        # The write under way is a commit; purging and trimming are writes too.
        self._is_committing = False
        self._calls: tuple[float, int] = (0.0, 0)
        # An operation that is to be alone is under way.
        self._is_occupied = False

    # --- faults ---------------------------------------------------------------

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    async def _suspend(self, probability: float) -> None:
        """Perhaps let time pass; a dead process waits for ever."""
        self._count_call()
        if self._chance(probability):
            await asyncio.sleep(self._random.choice((0, 0.001, 0.02, 0.3)))
        await self._stop_if_dead()

    async def _stop_if_dead(self) -> None:
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    def _count_call(self) -> None:
        time = asyncio.get_running_loop().time()
        count = self._calls[1] + 1 if self._calls[0] == time else 1
        self._calls = (time, count)
        if count > _CALLS_IN_NO_TIME:
            self._world.is_going_in_circles()

    async def _crash(self, how: str, *, torn: bool = False) -> None:
        self._world.crash(how, torn=torn)
        await self._stop_if_dead()

    def _refuse_if_full(self) -> None:
        time = asyncio.get_running_loop().time()
        if self._chance(self.faults.full):
            lasts = self._random.choice((0.001, 0.5, _LONG_SECONDS))
            self._full_until = time + lasts
            # A short one is sudden, and takes all there is.
            self._has_reserve = lasts == _LONG_SECONDS
        if time < self._full_until and (self._adds or not self._has_reserve):
            self._world.note("store: full")
            self._did_not_happen()
            raise StoreFull("simulated")

    def _did_not_happen(self) -> None:
        if self._is_committing:
            self._is_recovering = True
            self._world.commit_did_not_happen()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The owner calls one operation at a time; only those of `StoreReader` may run
        beside another."""
        if self._is_occupied:
            self._world.store_calls_overlap()
        self._is_occupied = True
        try:
            yield
        finally:
            self._is_occupied = False

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        """A commit, a purge or a trim, with all that may befall it."""
        with self._alone():
            return await self._try_to_write(write)

    async def _try_to_write(self, write: Callable[[], Awaitable[T]]) -> T:
        await self._suspend(self.faults.slow_commit)
        if self._chance(self.faults.crash_before):
            await self._crash("before a commit")
        self._refuse_if_full()
        if self._chance(self.faults.failed):
            self._world.note("store: commit failed")
            self._did_not_happen()
            raise CommitFailed("simulated")
        is_unknown = self._chance(self.faults.unknown)
        if is_unknown and self._random.random() < 0.5:
            self._world.note("store: unknown, did not happen")
            self._did_not_happen()
            raise CommitUnknown("simulated")
        self._world.about_to_commit()
        result = await write()
        await self._after_write(is_unknown)
        return result

    async def _after_write(self, is_unknown: bool) -> None:
        if self._chance(self.faults.torn):
            await self._crash("inside a commit", torn=True)
        if self._chance(self.faults.crash_after):
            await self._crash("after a commit")
        await self._suspend(self.faults.slow_commit)
        if is_unknown:
            self._world.note("store: unknown, happened")
            raise CommitUnknown("simulated")

    async def _read(self, read: Awaitable[T]) -> T:
        """What was read is used before the next operation."""
        with self._alone():
            return await self._read_beside(read)

    async def _read_beside(self, read: Awaitable[T]) -> T:
        """Time may pass after the read: what was read may be old by then."""
        result = await read
        await self._suspend(self.faults.slow_read)
        return result

    # --- the store ------------------------------------------------------------

    @property
    def location(self) -> str:
        return self.store.location

    @property
    def lease(self) -> StoreLease:
        return self.store.lease

    async def load(self) -> Opened:
        return await self.store.load()

    async def commit(self, changes: ChangeSet) -> None:
        self._is_committing = True
        self._adds = changes.pending_bytes > 0
        try:
            await self._write(lambda: self.store.commit(changes))
        finally:
            self._is_committing = self._adds = False

    async def purge(self, fragment_number: int, limit: int) -> bool:
        return await self._write(lambda: self.store.purge(fragment_number, limit))

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        return await self._write(
            lambda: self.store.trim(
                operations_through=operations_through, now=now, limit=limit
            )
        )

    async def room(self) -> int:
        if asyncio.get_running_loop().time() < self._full_until:
            return 0
        return await self.store.room()

    async def last_batch(self) -> int:
        return await self._read(self.store.last_batch())

    async def fragments(self) -> list[FragmentRecord]:
        return await self._read(self.store.fragments())

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        return await self._read(
            self.store.read_active(fragment_number, after, limit, limit_bytes)
        )

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        return await self._read(self.store.read_refills(refills, limit, limit_bytes))

    async def count_active(self, fragment_number: int) -> int:
        return await self.store.count_active(fragment_number)

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        return await self._read(self.store.read_deferred(row_ids))

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        return await self._read(self.store.deferred_bytes(row_ids))

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        return await self._read(self.store.read_scheduled(row_ids))

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        return await self._read_beside(
            self.store.browse(fragment_number, from_sequence, limit, limit_bytes)
        )

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        return await self._read(
            self.store.browse_deferred(
                fragment_number, from_sequence, limit, limit_bytes
            )
        )

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        return await self._read(
            self.store.read_session(
                fragment_number, session_id, after, limit, limit_bytes
            )
        )

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        return await self._read_beside(
            self.store.browse_session(
                fragment_number, session_id, from_sequence, limit, limit_bytes
            )
        )

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        return await self._read(
            self.store.active_sessions(fragment_number, after, limit)
        )

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        return await self._read_beside(
            self.store.sessions(fragment_number, after, limit)
        )

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        return await self._read_beside(
            self.store.sessions_updated(fragment_number, since, after, limit)
        )

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        return await self._read_beside(
            self.store.session_state(fragment_number, session_id)
        )

    async def rules(self) -> list[StoredRule]:
        rules = await self._read(self.store.rules())
        if self._is_recovering:
            # They are read last. Whoever was served meanwhile was served from memory
            # that is void.
            self._is_recovering = False
            self._world.bus_has_started_over()
        return rules

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        return await self._read(
            self.store.outlines(fragment_number, first, last, limit)
        )

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        return await self._read(self.store.read_numbered(row_ids))

    async def reader_leases(self) -> list[ReaderLease]:
        return await self._read(self.store.reader_leases())

    async def entities(self) -> list[StoredEntity]:
        return await self._read(self.store.entities())

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        return await self._read(self.store.due(now, limit, without))

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        return await self._read(self.store.next_scheduled_at(without))

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        return await self._read(self.store.expired(now, after, limit))

    async def outbox(
        self,
        limit: int,
        *,
        lane: str = "",
        after: int = 0,
        limit_bytes: int = NO_LIMIT,
    ) -> list[OutboxEntry]:
        return await self._read(
            self.store.outbox(limit, lane=lane, after=after, limit_bytes=limit_bytes)
        )

    async def outbox_totals(self) -> list[OutboxTotal]:
        return await self._read(self.store.outbox_totals())

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        return await self._read(self.store.restored(source, generation, sequences))

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        return await self._read(self.store.seen(fragment_number, unique_ids, now))

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        return await self._read(self.store.operations(after_batch, limit))

    async def close(self) -> None:
        await self.store.close()
