"""The leases of stores that simulated brokers share: of a database, and of a file.

Whether a lease of a database may be taken decides the code of the real one. Its row is
simulated: commits and renewals change it, and whoever takes it ends the connections of
its holder, so nothing that these had asked for happens later.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from simulator.broker_pauses import Moment
from twinbus.store.base import LeaseLost, StoreError, StoreInUse, StoreUnreadable
from twinbus.store.postgres_lease_claim import LeaseClaim, LeaseRow
from twinbus.store.postgres_lease_watch import LeaseWatch

if TYPE_CHECKING:
    from simulator.broker_store import BrokerStore

TERM_MS: Final = 6_000


class DatabaseLease:
    """Lent for a term, as PostgreSQL does it."""

    def __init__(self, store: "BrokerStore") -> None:
        self._store = store
        self._shared = store.shared
        watch = LeaseWatch(store.process.clock.monotonic)
        self._claim = LeaseClaim(store.location, TERM_MS, watch)
        self._tenure = 0
        # Read and set by `refuse_missing` and by the cluster, as of the real one.
        self.may_make = True
        self.may_migrate: Callable[[], bool] = lambda: True

    @property
    def term_ms(self) -> int:
        return TERM_MS

    # --- take -----------------------------------------------------------------

    async def take(self, owner: str, now: int) -> int:
        store = self._store
        if store.epoch != 0:
            raise StoreInUse(f"{store.location} is open already")
        self._tenure += 1
        name = f"{store.process.place} {store.process.identity.pid} {self._tenure}"
        await store.pause(Moment.BEFORE_TAKE)
        store.begin_session(name)
        await store.ask(self._open_schema)
        holder = await store.ask(self._read)
        self._claim.refuse_if_held(holder)
        if holder.application is not None:
            await store.ask(partial(self._end_sessions, holder.application))
        self._claim.begin_taking(name)
        store.epoch = await store.ask(partial(self._take, holder, owner, name))
        self._claim.taken(holder, name)
        await store.pause(Moment.AFTER_TAKE)
        return store.epoch

    async def _open_schema(self) -> None:
        """Raises StoreUnreadable, StoreInUse."""
        shared, newest = self._shared, self._store.newest_format
        if shared.format > newest:
            raise StoreUnreadable(f"{shared.name} has the format {shared.format}")
        if shared.format < newest:
            if not self.may_migrate():
                raise StoreInUse(f"{shared.name} waits until all are updated")
            self._claim.refuse_if_held(shared.lease_row())
            shared.migrate(newest)

    async def _read(self) -> LeaseRow:
        return self._shared.lease_row()

    async def _end_sessions(self, application: str) -> None:
        self._shared.end_sessions(application)

    async def _take(self, holder: LeaseRow, owner: str, name: str) -> int:
        if self._shared.lease_row().sign != holder.sign:
            raise StoreInUse(f"{self._shared.name}: another was quicker")
        self._shared.check_writable()
        self._shared.owner, self._shared.application = owner, name
        return self._shared.taken()

    async def look(self) -> None:
        """Long before it may have to be taken."""
        if self._store.epoch == 0:
            self._claim.saw(await self._store.look(self._read))

    def holder_ended(self, epoch: int) -> None:
        self._claim.holder_ended(epoch)

    # --- held -----------------------------------------------------------------

    async def renew(self, now: int) -> None:
        await self._store.pause(Moment.BEFORE_RENEWAL)
        await self._store.ask(self._renew, seconds=self._store.late_seconds())
        await self._store.pause(Moment.AFTER_RENEWAL)

    async def _renew(self) -> None:
        if self._store.epoch == 0:
            raise StoreError(f"{self._shared.name} is not open")
        if self._store.epoch != self._shared.epoch:
            raise LeaseLost(f"{self._shared.name} has been taken over")
        self._shared.check_writable()
        self._shared.beat += 1

    async def give_back(self) -> None:
        if self._store.epoch == 0:
            return
        epoch, self._store.epoch = self._store.epoch, 0
        try:
            await self._store.ask(partial(self._give_back, epoch))
        except StoreError:
            return  # it ends with its term

    async def _give_back(self, epoch: int) -> None:
        self._shared.check_writable()
        if epoch == self._shared.epoch:
            self._shared.owner = None


class FileLease:
    """Of a file: it ends with the process that holds it, if others can see that."""

    def __init__(self, store: "BrokerStore") -> None:
        self._store = store
        self._shared = store.shared

    @property
    def term_ms(self) -> int:
        return 0

    async def take(self, owner: str, now: int) -> int:
        await self._store.pause(Moment.BEFORE_TAKE)
        self._store.epoch = await self._store.write_here(self._take)
        await self._store.pause(Moment.AFTER_TAKE)
        return self._store.epoch

    async def _take(self) -> int:
        shared, process = self._shared, self._store.process
        holder = shared.holder
        is_ours = holder is process and self._store.epoch == 0
        if holder is not None and not is_ours:
            if self._store.processes.is_running(holder.identity):
                raise StoreInUse(f"{shared.name} is in use by a process")
        shared.check_writable()
        shared.holder = process
        return shared.taken()

    async def renew(self, now: int) -> None:
        """There is nothing to renew."""

    async def give_back(self) -> None:
        if self._store.epoch == 0:
            return
        epoch, self._store.epoch = self._store.epoch, 0
        try:
            await self._store.write_here(partial(self._give_back, epoch))
        except StoreError:
            return  # it ends with the process

    async def _give_back(self, epoch: int) -> None:
        self._shared.check_writable()
        if epoch == self._shared.epoch:
            self._shared.holder = None
