"""A disk or a database that does not take all that is written to it.

| shortage          | what the bus sees                                               |
|-------------------|-----------------------------------------------------------------|
| little room       | `room` tells a part of it; a commit that adds more: StoreFull;  |
|                   | what removes as much as it adds passes, and makes room          |
| no room at all    | `room` tells none; every commit, and who takes a lease:         |
|                   | StoreFull                                                       |
| can only be read  | every commit, and who takes a lease: StoreReadOnly; of a        |
|                   | database CommitFailed, which says no more                       |

Nothing of such a commit happens, and all that was committed before can be read. A real
store tells less room than it has, for a message takes more than its own size.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.store.base import (
    CommitFailed,
    Store,
    StoreFull,
    StoreReadOnly,
)
from twinbus.store.lease import StoreLease

_COST: Final = 3
"""A third of the room is told, as a store in a file does it."""

_SMALLEST: Final = 500
"""Less than so many bytes count as none."""

_FREED: Final = 300
"""So much room a message leaves that is removed, or goes on to another store."""

_FIRST_ROOM: Final = (0, 0, 1_600, 6_000)


class Shortage(Enum):
    """What is lacking."""

    NOTHING = "has room again"
    ROOM = "has little room"
    ALL_ROOM = "has no room at all"
    WRITING = "can only be read"


class Capacity:
    """Of one disk or database."""

    def __init__(self) -> None:
        self.shortage = Shortage.NOTHING
        # Of `Shortage.ROOM`.
        self._room_bytes = 0
        # Since when its owner was told that it has no room, though it takes what only
        # removes.
        self._told_since: float | None = None

    @property
    def is_short(self) -> bool:
        return self.shortage is not Shortage.NOTHING

    @property
    def takes_leases(self) -> bool:
        """Whoever has a lease can renew it, and another can take it."""
        return self.shortage in (Shortage.NOTHING, Shortage.ROOM)

    def begin(self, shortage: Shortage, random: Random) -> None:
        self.shortage = shortage
        self._room_bytes = random.choice(_FIRST_ROOM)
        self._note_room()

    def end(self) -> None:
        self.shortage = Shortage.NOTHING
        self._note_room()

    def _note_room(self) -> None:
        if self.shortage is not Shortage.ROOM or self.room() > 0:
            self._told_since = None

    def told(self) -> int:
        """Its room, as its owner is told it."""
        self._note_room()
        told = self.room()
        if self.shortage is Shortage.ROOM and told == 0 and self._told_since is None:
            self._told_since = asyncio.get_running_loop().time()
        return told

    def full_seconds(self) -> float:
        """For how long its owner has known that it has no room, but takes what only
        removes."""
        since = self._told_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def room(self) -> int:
        if self.shortage is Shortage.ALL_ROOM:
            return 0
        if self.shortage is not Shortage.ROOM:
            return NO_LIMIT
        told = self._room_bytes // _COST
        return told if told >= _SMALLEST else 0

    def check(self, changes: ChangeSet | None, *, is_file: bool) -> None:
        """Before a commit, or before something else is written. Raises StoreFull,
        CommitFailed."""
        shortage = self.shortage
        if shortage is Shortage.WRITING:
            raise (StoreReadOnly if is_file else CommitFailed)("it can only be read")
        added = 0 if changes is None else _added_bytes(changes)
        lacks_room = shortage is Shortage.ROOM and added > self._room_bytes
        if shortage is Shortage.ALL_ROOM or lacks_room:
            raise StoreFull("there is no room")

    def written(self, changes: ChangeSet) -> None:
        """A commit has happened."""
        if self.shortage is Shortage.ROOM:
            self._room_bytes -= _added_bytes(changes)
            self._note_room()


def _added_bytes(changes: ChangeSet) -> int:
    removed_count = len(changes.active_removed) + len(changes.outbox_removed)
    return changes.pending_bytes - _FREED * removed_count


class ShortStore:
    """A store on such a disk, of one process."""

    def __init__(self, store: Store, capacity: Capacity) -> None:
        self._store = store
        self._capacity = capacity

    @property
    def lease(self) -> "ShortLease":
        return ShortLease(self._store.lease, self._check)

    def _check(self, changes: ChangeSet | None = None) -> None:
        """Raises StoreFull, StoreReadOnly."""
        self._capacity.check(changes, is_file=True)

    async def commit(self, changes: ChangeSet) -> None:
        self._check(changes)
        await self._store.commit(changes)
        self._capacity.written(changes)

    async def purge(self, fragment_number: int, limit: int) -> bool:
        self._check()
        return await self._store.purge(fragment_number, limit)

    async def trim(self, **given: Any) -> bool:
        self._check()
        return await self._store.trim(**given)

    async def room(self) -> int:
        return self._capacity.told()

    def __getattr__(self, name: str) -> Any:
        """Reads."""
        return getattr(self._store, name)


class ShortLease:
    """Its lease."""

    def __init__(self, lease: StoreLease, check: Callable[[], None]) -> None:
        self._lease = lease
        self._check = check

    @property
    def term_ms(self) -> int:
        return self._lease.term_ms

    async def take(self, owner: str, now: int) -> int:
        self._check()
        return await self._lease.take(owner, now)

    async def renew(self, now: int) -> None:
        await self._lease.renew(now)

    async def give_back(self) -> None:
        await self._lease.give_back()
