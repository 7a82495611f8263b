"""The supervisor: starts several brokers on one machine, and starts them again.

    start: open the listening sockets, prepare the stores, start all brokers
    ready: all brokers know who serves which store, and none is about to move
    a broker ends: start another one in its place
    a broker is frozen: kill it
    stop: SIGTERM to all brokers, which give their stores back

It serves nothing itself. If it is killed its brokers stop: see `seat.py`.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import Final

from twinbus.clock import Clock, SystemClock
from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.cluster.membership import Membership
from twinbus.cluster.restarts import Restarts
from twinbus.cluster.running_brokers import announced_brokers
from twinbus.process.broker_process import BrokerProcess
from twinbus.process.seat import Seat, Sockets
from twinbus.store.base import StoreError
from twinbus.store.catalog import Catalog
from twinbus.store.process_identity import is_visible

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2

_STOP_SECONDS: Final = 10.0
"""How long brokers may take to stop before they are killed."""


class BrokerFailed(Exception):
    """A broker ended before all were ready, so another start would not help."""

    def __init__(self, name: str, exit_code: int) -> None:
        super().__init__(f"Broker {name} could not start.")
        self.exit_code = exit_code


class Supervisor:
    """Of the brokers of one machine."""

    def __init__(
        self,
        catalog: Catalog,
        store_uuids: Sequence[bytes],
        sockets: Sockets,
        broker_count: int,
        arguments: Sequence[str],
        *,
        tell: Callable[[str], None],
        name_of: Callable[[str], str],
        name_exit: Callable[[int], str],
        clock: Clock | None = None,
    ) -> None:
        """`arguments` are those of this command, for brokers; `tell` gets each line
        that they write."""
        self._catalog = catalog
        self._store_uuids = store_uuids
        self._sockets = sockets
        self._broker_count = broker_count
        self._arguments = arguments
        self._tell = tell
        # The name that a broker with that number announces.
        self._name_of = name_of
        # What an exit code means, for people.
        self._name_exit = name_exit
        self._clock = clock or SystemClock()
        # Its end tells brokers that the supervisor is gone.
        self._life_line, self._life = os.pipe()
        # Running ones, by name.
        self._brokers: dict[str, BrokerProcess] = {}
        self._membership = Membership()
        self.is_ready = False
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # Those that pass a signal on.
        self._passing: set[asyncio.Task[None]] = set()

    # --- life -----------------------------------------------------------------

    async def start(self) -> None:
        """Start all brokers, and wait until they are ready. Raises BrokerFailed,
        StoreError, OSError."""
        names = [str(number) for number in range(1, self._broker_count + 1)]
        self._tasks = [asyncio.create_task(self._keep(name)) for name in names]
        ready = asyncio.create_task(self._until_ready())
        done, _ = await asyncio.wait(
            {ready, *self._tasks}, return_when=asyncio.FIRST_COMPLETED
        )
        if ready not in done:
            ready.cancel()
        for task in done:
            task.result()
        self.is_ready = True
        self._tasks.append(asyncio.create_task(self._watch()))

    async def run(self) -> None:
        """Until it is cancelled. Raises what is a bug."""
        await asyncio.gather(*self._tasks)

    def reload(self) -> None:
        """Have all brokers read the certificate again."""
        self._pass_on(signal.SIGHUP)

    def diagnose(self) -> None:
        """Have all brokers write a diagnosis."""
        self._pass_on(signal.SIGUSR2)

    def _pass_on(self, number: signal.Signals) -> None:
        passing = asyncio.create_task(self._pass_on_to_announced(number))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)

    async def _pass_on_to_announced(self, number: signal.Signals) -> None:
        """One that is not announced may not heed signals yet, and would be ended by
        this one. It reads the certificate when it starts."""
        try:
            announced = await announced_brokers(self._catalog)
        except StoreError as error:
            _log.warning("%s is not passed on to brokers: %s", number.name, error)
            return
        for broker in list(self._brokers.values()):
            if any(_is_among({broker.pid}, one) for one in announced):
                broker.signal(number)

    async def stop(self) -> None:
        """Stop all brokers, and wait for their end."""
        self._stopping.set()
        for broker in self._brokers.values():
            broker.signal(signal.SIGTERM)
        _, left = await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        for broker in self._brokers.values():
            _log.warning("broker %s does not stop, and is killed", broker.seat.name)
            broker.signal(signal.SIGKILL)
        if left:
            await asyncio.wait(left)
        os.close(self._life)
        os.close(self._life_line)

    # --- brokers --------------------------------------------------------------

    async def _keep(self, name: str) -> None:
        """Start a broker again and again. Raises BrokerFailed, OSError."""
        restarts = Restarts()
        while not self._stopping.is_set():
            code = await self._run_once(name, restarts)
            if self._stopping.is_set():
                return
            if not self.is_ready and code > 0:
                raise BrokerFailed(name, code)
            pause_ms = restarts.ended(self._clock.monotonic())
            _log.error(
                "broker %s has ended (%s); the next start is in %d ms",
                *(name, self._name_exit(code), pause_ms),
            )
            await self._pause(pause_ms)

    async def _pause(self, pause_ms: int) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_ms / 1000)

    async def _run_once(self, name: str, restarts: Restarts) -> int:
        seat = Seat(
            name=self._name_of(name),
            broker_count=self._broker_count,
            number=int(name),
            sockets=self._sockets,
            life_line=self._life_line,
        )
        broker = BrokerProcess(seat, self._arguments)
        restarts.started(self._clock.monotonic())
        await broker.start(lambda line: self._tell(f"[broker {name}] {line}"))
        self._brokers[name] = broker
        if self._stopping.is_set():
            broker.signal(signal.SIGTERM)
        try:
            return await broker.ended()
        finally:
            del self._brokers[name]

    # --- watching -------------------------------------------------------------

    async def _until_ready(self) -> None:
        """All brokers answer, and all stores are served, as each of them knows: a
        client may be connected to any of them."""
        directory = BrokerDirectory(me=b"")
        while True:
            pids = {broker.pid for broker in list(self._brokers.values())}
            brokers = await announced_brokers(self._catalog)
            own = [one for one in brokers if _is_among(pids, one)]
            directory.learn(brokers)
            is_complete = len(own) == self._broker_count
            is_known = is_complete and all(one.is_settled for one in own)
            if is_known and directory.serves_all(self._store_uuids):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _watch(self) -> None:
        """Kill brokers that are frozen: other brokers take their stores, but their
        clients would wait for ever."""
        while not self._stopping.is_set():
            try:
                await self._look()
            except StoreError as error:
                _log.warning("the brokers cannot be watched: %s", error)
            await self._pause(1_000)

    async def _look(self) -> None:
        brokers = await announced_brokers(self._catalog)
        beats = {one.broker_uuid: one.beat for one in brokers}
        self._membership.observe(beats, self._clock.monotonic())
        if not self._membership.alive():
            # Then it is the catalog that nobody can write to.
            return
        silent = [
            one for one in brokers if one.broker_uuid in self._membership.silent()
        ]
        for broker in list(self._brokers.values()):
            if any(_is_among({broker.pid}, one) for one in silent):
                _log.error("broker %s is frozen, and is killed", broker.seat.name)
                broker.signal(signal.SIGKILL)


def _is_among(pids: set[int], broker: Announcement) -> bool:
    """It is one of these processes, and not one of another machine."""
    return broker.process.pid in pids and is_visible(broker.process)
