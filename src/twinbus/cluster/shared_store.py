"""A store of this process that other brokers may own as well.

It knows since when the store should be served here and is not. After three terms it is
given up for a while, so that another broker tries: its disk may be away here only.
"""

from typing import Final, final

from twinbus.cluster.announcement import OPENING
from twinbus.cluster.terms import FORGET_MS, TERM_MS
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import Store
from twinbus.store.formats import needs_migration
from twinbus.store.process_identity import ProcessIdentity
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_lease_row import holder_of

_PATIENCE_MS: Final = 3 * TERM_MS
"""Longer than it takes until the lease of a dead owner has ended."""


@final
class SharedStore:
    """One store, with the owner that it has here."""

    def __init__(self, owner: StoreOwner, store: Store) -> None:
        self.owner: StoreOwner = owner
        self._store: Store = store
        # Since when it should be served here and is not; None: it is, or should not be.
        self._awaited_since: int | None = None
        # Until then others are to try.
        self._given_up_until: int = 0

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

    def is_owned(self) -> bool:
        """It is served here, or about to be; or it is still being given back."""
        return self.owner.is_wanted or self.owner.is_serving

    def is_in_reach(self, at: int) -> bool:
        return at >= self._given_up_until

    def look(self, at: int) -> bool:
        """Time has passed, by the monotonic clock; True if it is given up now."""
        owner = self.owner
        if owner.is_serving or not owner.is_wanted:
            self._awaited_since = None
        elif self._awaited_since is None:
            self._awaited_since = at
        elif at - self._awaited_since >= _PATIENCE_MS:
            self._awaited_since = None
            self._given_up_until = at + FORGET_MS
            owner.give_back()
            return True
        return False

    def holder(self) -> ProcessIdentity | None:
        """The process that has the lease, where leases name processes."""
        store = self._store
        return holder_of(store.path) if isinstance(store, SqliteStore) else None

    def needs_migration(self) -> bool:
        """To take it would bring it to a newer format."""
        return needs_migration(self._store)
