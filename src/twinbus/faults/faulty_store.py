"""A store with faults: it stands between an owner and its real store.

It is slow, fails or is gone where the real one would be: inside a commit, a read, or a
take of the lease. So the owner meets what it would meet with a bad disk or database.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, cast

from twinbus.broker.changes import ChangeSet
from twinbus.clock import Clock
from twinbus.faults.decision import StoreOccasion, added_ms
from twinbus.faults.fault import Effect
from twinbus.faults.fault_table import FaultTable
from twinbus.faults.faults import Faults
from twinbus.store.base import CommitFailed, Store, StoreError
from twinbus.store.lease import StoreLease

_SLOW: Final = frozenset((Effect.SLOW,))
_FAILING: Final = frozenset((Effect.FAILING,))
_GONE: Final = frozenset((Effect.GONE,))

_STEP_SECONDS: Final = 0.05
"""A slow commit looks so often whether its fault was cleared."""


class StoreGone(StoreError):
    """A fault has taken the store away; it comes back when the fault ends."""


class FaultyStore:
    """Has all operations of the store that it stands for."""

    def __init__(
        self,
        store: Store,
        table: FaultTable,
        clock: Clock,
        namespace: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._namespace = namespace
        self._sleep = sleep

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def lease(self) -> "FaultyLease":
        return FaultyLease(self._store.lease, self.check_is_there)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._ask, found) if iscoroutinefunction(found) else found

    async def _ask(self, operation: Any, *given: Any, **named: Any) -> Any:
        self.check_is_there()
        return await operation(*given, **named)

    async def close(self) -> None:
        """Always possible: what was open is not kept open by a fault."""
        await self._store.close()

    async def commit(self, changes: ChangeSet) -> None:
        self._check_before_commit()
        occasion = self._occasion(changes)
        await self._wait(occasion, changes)
        fault = self._table.find(_FAILING, occasion, self._clock.now())
        if fault is not None:
            raise CommitFailed(f"fault {fault.number}, set for a test, lets it fail")
        self._check_before_commit()
        await self._store.commit(changes)

    def _check_before_commit(self) -> None:
        """A store that is gone before a commit begins has done nothing of it. Raises
        CommitFailed."""
        try:
            self.check_is_there()
        except StoreGone as gone:
            raise CommitFailed(str(gone)) from gone

    async def _wait(self, occasion: StoreOccasion, changes: ChangeSet) -> None:
        """Until a store that is as slow as the fault says would be done."""
        fault = self._table.find(_SLOW, occasion, self._clock.now())
        if fault is None:
            return
        left = added_ms(fault, _message_count(changes)) / 1000
        while left > 0 and fault in self._table.active(self._clock.now()):
            await self._sleep(min(left, _STEP_SECONDS))
            left -= _STEP_SECONDS

    def check_is_there(self) -> None:
        """Raises StoreGone."""
        fault = self._table.find(_GONE, self._occasion(None), self._clock.now())
        if fault is not None:
            raise StoreGone(
                f"{self.location} is gone: fault {fault.number}, set for a test"
            )

    def _occasion(self, changes: ChangeSet | None) -> StoreOccasion:
        touched = () if changes is None else changes.touched
        return StoreOccasion(
            store=self.location,
            namespace=self._namespace,
            is_commit=changes is not None,
            entities=tuple(each.settings.path for each in touched),
        )


def faulty_store(store: Store, faults: Faults) -> Store:
    """The store, as the faults let it be."""
    faulty = FaultyStore(store, faults.table, faults.clock, faults.namespace)
    return cast(Store, faulty)


class FaultyLease:
    """The lease of a store that may be gone."""

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
        self._check()
        await self._lease.renew(now)

    async def give_back(self) -> None:
        await self._lease.give_back()


def _message_count(changes: ChangeSet) -> int:
    """Messages that the commit adds, removes or changes."""
    columns = (
        *(changes.active_added, changes.active_moved, changes.active_removed),
        *(changes.active_changed, changes.deferred_added, changes.deferred_moved),
        *(changes.deferred_removed, changes.scheduled_added),
        changes.scheduled_removed,
    )
    return sum(len(column) for column in columns) + changes.ping_count
