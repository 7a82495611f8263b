"""Takes the lease of a store, and keeps it as long as its owner serves.

Some stores lend it for a term only. Then it is renewed several times in a term. A
renewal that fails is tried again; when the term is nearly over by our own clock, the
lease counts as lost: from then on another owner may have it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from twinbus.clock import Clock
from twinbus.store.base import LeaseInDoubt, LeaseLost, Opened, Store, StoreError
from twinbus.store.lease import HeldLease
from twinbus.store.opening import another_store, open_store, refuse_missing

_log = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 0.25
"""How often a lease is looked at whose holder may be dead."""


Take = Callable[[str, bytes], Awaitable[Opened]]
"""Takes the lease of a store, by the owner's description and the expected uuid."""


class LeaseKeeper:
    """Holds the lease of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held = HeldLease(0, 0, 0)
        # Otherwise there is nothing to renew.
        self.has_term = False
        # Its term counts: until then nobody is served.
        self._is_kept = False

    async def take_from_the_dead(
        self, description: str, store_uuid: bytes = b""
    ) -> Opened:
        """As `take`, but waits for the end of a lease whose holder is not heard of: it
        may be that of this broker before it was killed."""
        while True:
            try:
                return await self.take(description, store_uuid)
            except LeaseInDoubt as error:
                _log.info("waiting for a lease to end: %s", error)
            await asyncio.sleep(_WATCH_SECONDS)

    async def take(self, description: str, store_uuid: bytes = b"") -> Opened:
        """Become the owner, and learn what there is. Raises StoreError, also if it is
        another store than expected."""
        asked_at = self._clock.monotonic()
        if store_uuid:
            refuse_missing(self._store)
        opened = await open_store(self._store, description, self._clock.now())
        if store_uuid and opened.store_uuid != store_uuid:
            await self._store.close()
            raise another_store(self._store, opened.store_uuid, store_uuid)
        self._held = HeldLease(opened.epoch, self._store.lease.term_ms, asked_at)
        self.has_term = self._held.term_ms > 0
        self._is_kept = False
        return opened

    async def begin(self) -> None:
        """Keep it from now on. To open all stores may have taken longer than a term:
        that harms nobody, unless another has taken it meanwhile. Raises StoreError."""
        at = self._clock.monotonic()
        if self._held.must_renew(at):
            await self._store.lease.renew(self._clock.now())
            self._held.renewed(at)
        self._is_kept = True

    @property
    def term_ms(self) -> int:
        """0: it ends with this process."""
        return self._held.term_ms

    def age_ms(self) -> int:
        """How long ago it was last taken or renewed."""
        return self._held.age_ms(self._clock.monotonic())

    def is_due(self) -> bool:
        """It is time to renew it, or too late for that."""
        return self._held.must_renew(self._clock.monotonic())

    def is_over(self) -> bool:
        """It was not renewed in time."""
        return self._is_kept and self._held.is_expired(self._clock.monotonic())

    async def keep(self) -> None:
        """Renew it if that is due. Raises LeaseLost."""
        at = self._clock.monotonic()
        if self._held.is_expired(at):
            raise LeaseLost(
                f"{self._store.location}: the lease was not renewed within its term "
                f"of {self._held.term_ms} ms."
            )
        if not self._held.must_renew(at):
            return
        try:
            await self._store.lease.renew(self._clock.now())
        except LeaseLost:
            raise
        except StoreError as error:
            _log.warning("the lease is not renewed, and is tried again: %s", error)
        else:
            self._held.renewed(at)
