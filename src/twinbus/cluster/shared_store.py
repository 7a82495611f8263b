"""A store of this process that other brokers may own as well.

It knows since when the store should be served here and is not. After three terms it is
given up for a while, so that another broker tries: its disk may be away here only. A
store in a file is for the brokers that have the file: on another machine there is none
at its place, or another one.

The lease of a file cannot be given back while its disk can only be read. Then it names
this process, and nobody else can take it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final, final

from twinbus.cluster.announcement import OPENING, LeaseAge
from twinbus.cluster.terms import FORGET_MS, TERM_MS
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import Store, StoreError
from twinbus.store.formats import POSTGRES_STORE, SQLITE_STORE, needs_migration
from twinbus.store.lease import SchemaLease, WatchedLease
from twinbus.store.process_identity import ProcessIdentity
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_lease_row import holder_of, store_uuid_of

HolderOf = Callable[[], ProcessIdentity | None]

_PATIENCE_MS: Final = 3 * TERM_MS
"""Longer than it takes until the lease of a dead owner has ended."""


@final
class SharedStore:
    """One store, with the owner that it has here."""

    def __init__(
        self, owner: StoreOwner, store: Store, holder: HolderOf | None = None
    ) -> None:
        self.owner: StoreOwner = owner
        self._store: Store = store
        # The process that has the lease, where leases name processes.
        self.holder: HolderOf = holder or partial(_holder, store)
        # Since when it should be served here and is not; None: it is, or should not be.
        self._awaited_since: int | None = None
        # Until then others are to try.
        self._given_up_until: int = 0
        # Since when nobody has it, though its lease names this process; None: that is
        # not so.
        self._left_since: int | None = None
        # Which file was last looked at, and the UUID of the store in it.
        self._seen: tuple[tuple[int, int], bytes] | None = None
        # A look at the lease of another.
        self._watching: asyncio.Task[None] | None = None

    @property
    def uuid(self) -> bytes:
        return self.owner.store_uuid

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def epoch(self) -> int:
        """Of an owned one, to be announced."""
        return self.owner.epoch if self.owner.is_serving else OPENING

    def lease_age(self) -> LeaseAge:
        """Of an owned one, to be announced."""
        lease = self.owner.lease
        return LeaseAge(lease.term_ms, lease.age_ms())

    def is_owned(self) -> bool:
        """It is served here, or about to be; or it is still being given back."""
        return self.owner.is_wanted or self.owner.is_serving

    def is_in_reach(self, at: int) -> bool:
        return at >= self._given_up_until and self.is_here()

    def is_here(self) -> bool:
        """Of a file: it is on this machine, and the right one."""
        store = self._store
        if not isinstance(store, SqliteStore):
            return True
        try:
            status = store.path.stat()
        except OSError:
            return False
        file = (status.st_dev, status.st_ino)
        if self._seen is None or self._seen[0] != file:
            found = store_uuid_of(store.path)
            if found is None:
                # Whoever opens it can tell better what is wrong with it.
                return True
            self._seen = file, found
        return self._seen[1] == self.uuid

    def look(self, at: int) -> bool:
        """Time has passed, by the monotonic clock; True if it is given up now."""
        owner = self.owner
        if owner.is_serving:
            self._left_since = None
        if owner.is_serving or not owner.is_wanted:
            self._awaited_since = None
        elif self._awaited_since is None:
            self._awaited_since = at
        elif at - self._awaited_since >= _PATIENCE_MS and not self.was_left:
            self._awaited_since = None
            self._given_up_until = at + FORGET_MS
            owner.give_back()
            return True
        return False

    def is_left(self, at: int, process: ProcessIdentity, *, is_free: bool) -> bool:
        """Nobody owns it (`is_free`), and its lease has named this process for longer
        than it takes to give it back."""
        if self.is_owned():
            return False
        if not is_free or self.holder() != process:
            self._left_since = None
        elif self._left_since is None:
            self._left_since = at
        return self._left_since is not None and at - self._left_since >= TERM_MS

    @property
    def was_left(self) -> bool:
        """Until it is served here again nobody else can take it."""
        return self._left_since is not None

    @property
    def kind(self) -> str:
        """What its format is a format of."""
        return SQLITE_STORE if isinstance(self._store, SqliteStore) else POSTGRES_STORE

    def predecessor_ended(self, epoch: int) -> None:
        """The process that owned the store in that epoch runs no more."""
        lease = self._store.lease
        if epoch != OPENING and isinstance(lease, WatchedLease):
            lease.holder_ended(epoch)

    def watch_lease(self) -> None:
        """Its owner was not heard of for a while: where a lease must be watched for a
        term before it is taken, begin with that."""
        lease = self._store.lease
        if isinstance(lease, WatchedLease) and self._watching is None:
            self._watching = asyncio.create_task(self._watch(lease))

    async def _watch(self, lease: WatchedLease) -> None:
        # Whoever takes it finds out by itself why that fails.
        with contextlib.suppress(StoreError):
            await lease.look()
        self._watching = None

    async def stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    def needs_migration(self) -> bool:
        """To take it would bring it to a newer format."""
        return needs_migration(self._store)

    def guard_migration(self, may_migrate: Callable[[], bool]) -> None:
        """Where that is not known before the store is taken, it is asked then."""
        lease = self._store.lease
        if isinstance(lease, SchemaLease):
            lease.may_migrate = may_migrate


def _holder(store: Store) -> ProcessIdentity | None:
    return holder_of(store.path) if isinstance(store, SqliteStore) else None
