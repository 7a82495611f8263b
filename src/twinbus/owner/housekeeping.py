"""What the owner of a store does on disk because time has passed.

- Scheduled messages whose time has come are activated, in portions.
- Messages that outlived their time on disk are expired, bucket by bucket.
- Rows of deleted entities are purged, in portions.
- The operation log and the id ledger are trimmed to their retention.

Portions keep each turn of the owner's loop short; what is left is due again.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from twinbus.broker import expiry, schedule
from twinbus.broker.row_id import fragment_number_of
from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    ExpiryCursor,
    Store,
    StoreFull,
)

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)

_PORTION: Final = 1_000
_SMALL_PORTION: Final = 20
"""While the store is full: what is moved must fit into the space for removals."""

_SWEEP_MS: Final = 60_000
"""One pass over the expiry buckets per bucket."""

_TRIM_MS: Final = 60_000
_OPERATIONS_KEPT: Final = 100_000
"""Commits of which the operation log is kept here until files take it over."""

_CAN_WAIT: Final = (StoreFull, CommitFailed, CommitUnknown)
"""Errors after which clearing up is tried again later. It may be done twice, and a full
disk must not end the bus."""


class Housekeeping:
    """Work of one store that is due at certain times."""

    def __init__(self, owner: "StoreOwner", store: Store) -> None:
        self._owner = owner
        self._store = store
        # The earliest scheduled message, 0 if there is none.
        self.next_scheduled_at = 0
        self._next_sweep_at = 0
        self._next_trim_at = 0
        # Where a sweep that was too long for one turn goes on.
        self._sweep_cursor: ExpiryCursor | None = None
        # Fragment numbers of which a portion is purged next, in this order.
        self._to_purge: deque[int] = deque()

    def begin(self, next_scheduled_at: int, now: int) -> None:
        self.next_scheduled_at = next_scheduled_at
        self._next_sweep_at = now
        self._next_trim_at = now + _TRIM_MS
        self._sweep_cursor = None

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        if self.next_scheduled_at == 0 or scheduled_at < self.next_scheduled_at:
            self.next_scheduled_at = scheduled_at

    def is_due(self, now: int) -> bool:
        return (
            0 < self.next_scheduled_at <= now
            or self._next_sweep_at <= now
            or self._sweep_cursor is not None
            or self._next_trim_at <= now
            or bool(self._owner.table.purging())
        )

    async def run(self) -> None:
        """Do a portion of everything that is due."""
        now = self._owner.clock.now()
        if 0 < self.next_scheduled_at <= now:
            await self._activate(now)
        if self._next_sweep_at <= now or self._sweep_cursor is not None:
            await self._sweep(now)
        if self._owner.table.purging():
            await self._purge()
        if self._next_trim_at <= now:
            await self._trim(now)

    def _portion(self) -> int:
        return _SMALL_PORTION if self._owner.is_full else _PORTION

    async def _activate(self, now: int) -> None:
        owner = self._owner
        has_activated = False
        kept = owner.table.kept_numbers()
        for message in await self._store.due(now, self._portion(), kept):
            fragment = owner.table.by_number(fragment_number_of(message.row_id))
            if fragment is not None:
                schedule.activate(fragment, message, now, owner.changes)
                has_activated = True
        # The rows leave the schedule with the commit, so ask again after it.
        if not await owner.commit_now():
            return
        self.next_scheduled_at = await self._store.next_scheduled_at(kept)
        # If nothing was activated, what is due belongs to a deleted queue and is purged
        # with it.
        if has_activated and 0 < self.next_scheduled_at <= now:
            owner.wake()

    async def _sweep(self, now: int) -> None:
        owner = self._owner
        cursor = self._sweep_cursor or ExpiryCursor()
        messages, cursor = await self._store.expired(now, cursor, self._portion())
        for message in owner.without_leaving(messages):
            fragment = owner.table.by_number(fragment_number_of(message.row_id))
            if fragment is not None:
                expiry.expire_unloaded(fragment, message, now, owner.changes)
        if messages and await owner.commit_now():
            self._sweep_cursor = cursor
            owner.wake()
        else:
            self._sweep_cursor = None
            self._next_sweep_at = now + _SWEEP_MS

    async def _purge(self) -> None:
        owner = self._owner
        number = self._next_to_purge()
        if number is None:
            return
        try:
            is_purged = await self._store.purge(number, _PORTION)
        except _CAN_WAIT as error:
            _log.warning("purging a deleted queue is put off: %s", error)
            return
        if is_purged:
            owner.table.purged(number)
        if owner.table.purging():
            owner.wake()

    def _next_to_purge(self) -> int | None:
        """In turn: the number of a topic is not free before its subscriptions are
        purged, which share its bodies."""
        purging, dropped = self._owner.table.purging(), self._owner.changes.dropped
        if not self._to_purge:
            self._to_purge.extend(sorted(purging))
        while self._to_purge:
            number = self._to_purge.popleft()
            # A number is free for others once it is purged, so its removal must be
            # durable before.
            if number in purging and number not in dropped:
                return number
        return None

    async def _trim(self, now: int) -> None:
        self._next_trim_at = now + _TRIM_MS
        try:
            is_trimmed = await self._store.trim(
                operations_through=self._owner.last_batch - _OPERATIONS_KEPT,
                now=now,
            )
        except _CAN_WAIT as error:
            _log.warning("trimming the operation log is put off: %s", error)
            return
        if not is_trimmed:
            self._next_trim_at = now
            self._owner.wake()
