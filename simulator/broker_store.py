"""A store that several simulated brokers share, as each of them reaches it.

One kind is in a database: what a broker asks for travels to the server and back, and
the server goes on when the broker is frozen, or dead. What is not answered is given up
after a while, and may happen until the broker has a new connection. The other kind is
a file: what is written is written by the process itself, which locks the file
meanwhile, also if it is frozen then.

Content and commits are those of the store in memory; `broker_leases.py` has the leases.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, TypeVar, cast

from simulator.broker_leases import DatabaseLease, FileLease
from simulator.broker_network import Cuts
from simulator.broker_pauses import Moment, Pauses
from simulator.process_loop import OUTSIDE, SimulatedProcess
from simulator.shortage import Capacity
from simulator.sighting import Violation
from twinbus.broker.changes import ChangeSet
from twinbus.store.base import CommitUnknown, LeaseLost, Opened, Store, StoreError
from twinbus.store.lease import StoreLease
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.postgres_lease_claim import LeaseRow
from twinbus.store.process_identity import Processes, ProcessIdentity

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

FIRST_FORMAT: Final = 1

_ANSWER_SECONDS: Final = 5.0
"""How long a broker waits for a database, as the real one does."""

_BUSY_SECONDS: Final = 2.0
"""How long it waits for a file that another process writes to."""


class CommonStore:
    """The store itself: its content and its lease."""

    def __init__(
        self,
        name: str,
        random: Random,
        cuts: Cuts,
        fail: Callable[[Violation], None],
        on_migrated: Callable[["CommonStore"], None],
    ) -> None:
        self.name = name
        self.is_file = False
        self.disk = MemoryDisk()
        self.disk.store_uuid = random.randbytes(16)
        self.cuts = cuts
        self._fail = fail
        self._on_migrated = on_migrated
        self.random = random
        self.is_away = False
        self.capacity = Capacity()
        self.format = FIRST_FORMAT
        # Of a database: who has the lease, over connections of which name, and a sign
        # of its life.
        self.owner: str | None = None
        self.application: str | None = None
        self.beat = 0
        # How many connections holders have made anew.
        self.connection = 0
        # The last connection of each name that was heard of, and that a taker has
        # ended. A proxy may keep its own ones.
        self.sessions: dict[str, int] = {}
        self.ended_sessions: dict[str, int] = {}
        self.ends_sessions = random.random() < 0.6
        # Of a file: who has the lease, and who is writing.
        self.holder: SimulatedProcess | None = None
        self.writer: SimulatedProcess | None = None
        # When each epoch began, in virtual seconds.
        self.began_at: dict[int, float] = {}

    @property
    def epoch(self) -> int:
        return self.disk.epoch

    @property
    def is_held(self) -> bool:
        """Somebody has its lease."""
        return self.owner is not None or self.holder is not None

    def ended_at(self, epoch: int) -> float | None:
        """When another broker took it; None: that epoch is the last one."""
        return self.began_at.get(epoch + 1)

    def lease_row(self) -> LeaseRow:
        """Of a database."""
        return LeaseRow(
            epoch=self.disk.epoch,
            connection=self.connection,
            owner=self.owner,
            application=self.application,
            beat=self.beat,
            batch=self.disk.batch,
            store_uuid=self.disk.store_uuid,
        )

    def end_sessions(self, application: str) -> None:
        """What was asked for over these connections does not happen any more."""
        if self.ends_sessions:
            self.ended_sessions[application] = self.sessions.get(application, 0)

    def check_writable(self, changes: ChangeSet | None = None) -> None:
        """Before a commit, or before something else is written. Raises StoreFull,
        CommitFailed."""
        self.capacity.check(changes, is_file=self.is_file)

    def migrate(self, newer: int) -> None:
        """Bring it to a newer format. Raises StoreFull, CommitFailed."""
        self.check_writable()
        self.format = newer
        self._on_migrated(self)

    def taken(self) -> int:
        self.disk.epoch += 1
        self.began_at[self.disk.epoch] = asyncio.get_running_loop().time()
        return self.disk.epoch

    def check_commit(self, changes: ChangeSet) -> None:
        """Notes a violation if a commit has happened that must not."""
        if changes.epoch != self.disk.epoch:
            self._fail(
                Violation(
                    f"{self.name}: a commit of epoch {changes.epoch} happened in epoch "
                    f"{self.disk.epoch}"
                )
            )

    def holder_identity(self) -> ProcessIdentity | None:
        """The process in the lease of a file."""
        return None if self.holder is None else self.holder.identity


class BrokerStore:
    """A store as one process has it."""

    def __init__(
        self,
        shared: CommonStore,
        process: SimulatedProcess,
        processes: Processes,
        newest_format: int,
    ) -> None:
        self.shared = shared
        self.process = process
        self.processes = processes
        # That its code reads, and makes.
        self.newest_format = newest_format
        self.inner = MemoryStore(shared.disk)
        self._random = Random(shared.random.random())
        # The name of its connections, and the number of the last one.
        self._application = process.place
        self._session = 1
        self._is_session_lost = False
        self.lease: StoreLease = cast(
            StoreLease, FileLease(self) if shared.is_file else DatabaseLease(self)
        )
        # What becomes of the next commit: seconds until it arrives, and whether its
        # outcome stays unknown.
        self.slow_seconds = 0.0
        self.is_unknown_next = False
        self.is_committing = False
        # All that it asks for takes up to so many seconds more, for a while.
        self.lag_seconds = 0.0
        self.pauses = Pauses(process)
        process.on_end.append(self._unlock_file)

    @property
    def location(self) -> str:
        return self.shared.name

    @property
    def epoch(self) -> int:
        """In which this process has the lease, as it knows; 0: it has not."""
        return self.inner.lease.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.inner.lease.epoch = epoch

    def rest(self) -> None:
        """No more trouble with it."""
        self.is_unknown_next = False
        self.slow_seconds = self.lag_seconds = 0.0

    async def pause(self, moment: Moment) -> None:
        await self.pauses.come(moment)

    def late_seconds(self) -> float:
        """For how long something is under way beside the usual time."""
        return self._random.uniform(0, self.lag_seconds) if self.lag_seconds else 0.0

    # --- asking ---------------------------------------------------------------

    def begin_session(self, application: str) -> None:
        """A new connection, of that name."""
        self._application = application
        self._is_session_lost = True

    async def ask(
        self,
        work: Work[T],
        lost: type[StoreError] = StoreError,
        seconds: float = 0.0,
    ) -> T:
        """Have the store do something, if it is asked in the epoch of its lease.
        Raises `lost` if it does not answer."""
        if self.shared.is_file:
            return await self._do_here(work)
        return await self._ask_server(work, lost, seconds)

    async def look(self, work: Work[T]) -> T:
        """Have a database do something that needs no lease."""
        return await self._ask_server(work, StoreError, 0.0, is_look=True)

    async def _ask_server(
        self,
        work: Work[T],
        lost: type[StoreError],
        seconds: float,
        *,
        is_look: bool = False,
    ) -> T:
        if self.shared.is_away:
            await asyncio.sleep(self._random.uniform(0.001, 0.2))
            raise lost(f"{self.location} does not answer")
        if self._is_session_lost and not is_look:
            self._session += 1
            self._is_session_lost = False
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        name = "" if is_look else self._application
        asked = _Asked(name, self._session, self.epoch, lost)
        loop.call_later(
            self._random.uniform(0.0002, 0.004) + seconds,
            partial(self._serve, work, answer, asked, loop),
            context=OUTSIDE.copy(),
        )
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            self._is_session_lost = True
            raise lost(f"{self.location} did not answer in time") from None

    def _serve(
        self,
        work: Work[T],
        answer: asyncio.Future[T],
        asked: "_Asked",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """At the server."""
        shared, place = self.shared, self.process.place
        if shared.is_away or shared.cuts.has(place, shared.name):
            return
        try:
            reply = partial(_answer, answer, self._served(work, asked))
        except StoreError as error:
            reply = partial(_refuse, answer, error)
        if not shared.cuts.has(shared.name, place):
            seconds = self._random.uniform(0.0002, 0.004)
            loop.call_later(seconds, reply, context=OUTSIDE.copy())

    def _served(self, work: Work[T], asked: "_Asked") -> T:
        """Raises the error of a lost connection. The first request of a new one is
        refused if another has the lease."""
        shared, name = self.shared, asked.application
        if name:
            heard = shared.sessions.get(name, 0)
            if asked.session < heard or asked.session <= shared.ended_sessions.get(
                name, 0
            ):
                self._is_session_lost = self._is_session_lost or (
                    asked.session == self._session
                )
                raise asked.lost(f"{self.location}: the connection was ended")
            if asked.session > heard:
                shared.sessions[name] = asked.session
                self._reconnect(asked)
        return _done(work())

    def _reconnect(self, asked: "_Asked") -> None:
        if asked.epoch not in (0, self.shared.epoch):
            raise LeaseLost(f"{self.location} has been taken over")
        if asked.epoch:
            self.shared.connection += 1

    async def _do_here(self, work: Work[T]) -> T:
        """In the file, which others can read meanwhile."""
        await asyncio.sleep(self._random.uniform(0.0001, 0.002))
        self._check_reach()
        return _done(work())

    async def write_here(self, work: Work[T], seconds: float = 0.0) -> T:
        """In the file, locked while this process writes to it."""
        await self._lock_file()
        self.shared.writer = self.process
        try:
            if self.is_committing:
                await self.pause(Moment.WITHIN_COMMIT)
            await asyncio.sleep(self._random.uniform(0.0002, 0.004) + seconds)
            self._check_reach()
            return _done(work())
        finally:
            self._unlock_file()

    def _unlock_file(self) -> None:
        """As the system does when a process ends."""
        if self.shared.writer is self.process:
            self.shared.writer = None

    async def _lock_file(self) -> None:
        ends_at = self.process.clock.monotonic() + 1000 * _BUSY_SECONDS
        while self.shared.writer is not None:
            if self.process.clock.monotonic() >= ends_at:
                raise StoreError(f"{self.location} is locked by another process")
            await asyncio.sleep(0.05)

    def _check_reach(self) -> None:
        shared = self.shared
        if shared.is_away or shared.cuts.between(self.process.place, shared.name):
            raise StoreError(f"{self.location} cannot be read")

    # --- the store ------------------------------------------------------------

    async def load(self) -> Opened:
        return await self.ask(self.inner.load)

    async def commit(self, changes: ChangeSet) -> None:
        async def commit() -> None:
            self.shared.check_writable(changes)
            await self.inner.commit(changes)
            self.shared.check_commit(changes)
            self.shared.capacity.written(changes)

        is_unknown, self.is_unknown_next = self.is_unknown_next, False
        await self.pause(Moment.BEFORE_COMMIT)
        self.is_committing = True
        try:
            if not is_unknown or self._random.random() < 0.5:
                await self._commit(commit)
        finally:
            self.is_committing = False
        await self.pause(Moment.AFTER_COMMIT)
        if is_unknown:
            self._is_session_lost = True
            raise CommitUnknown(f"{self.location}: the connection was lost")

    async def _commit(self, commit: Work[None]) -> None:
        seconds, self.slow_seconds = self.slow_seconds, 0.0
        seconds += self.late_seconds()
        if self.shared.is_file:
            await self.write_here(commit, seconds)
            return
        # The commit leaves all the same, and the process reads no answer.
        self.pauses.stops(Moment.WITHIN_COMMIT)
        await self.ask(commit, CommitUnknown, seconds)

    async def _write(self, work: Work[T]) -> T:
        async def write() -> T:
            self.shared.check_writable()
            return await work()

        if self.shared.is_file:
            return await self.write_here(write)
        return await self.ask(write, CommitUnknown)

    async def purge(self, fragment_number: int, limit: int) -> bool:
        return await self._write(lambda: self.inner.purge(fragment_number, limit))

    async def trim(self, **given: Any) -> bool:
        return await self._write(lambda: self.inner.trim(**given))

    async def room(self) -> int:
        async def room() -> int:
            return self.shared.capacity.told()

        return await self.ask(room)

    async def close(self) -> None:
        await self.lease.give_back()

    def __getattr__(self, name: str) -> Any:
        """Reads."""
        found: Callable[..., Coroutine[Any, Any, Any]] = getattr(self.inner, name)

        def read(*given: Any, **named: Any) -> Awaitable[Any]:
            return self.ask(lambda: found(*given, **named))

        return read

    def as_store(self) -> Store:
        return cast(Store, self)


class _Asked(NamedTuple):
    """Over which connection a server is asked."""

    # Empty: over one for this request alone.
    application: str
    session: int
    # Of the lease as whoever asks knows it; 0: it has none.
    epoch: int
    # What is raised if the connection is lost.
    lost: type[StoreError]


def _done(work: Coroutine[Any, Any, T]) -> T:
    """The result of what never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("a store in memory does not wait")


def _answer(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _refuse(answer: asyncio.Future[T], error: StoreError) -> None:
    if not answer.done():
        answer.set_exception(error)
