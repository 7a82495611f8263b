"""A store whose disk hangs beside one that is well: only its own clients notice."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from crash import messages

from twinbus.amqp.sasl import plain
from twinbus.client import ClientConnection, ClientSender, NotAccepted, connect
from twinbus.config.config import ROOT_KEY_NAME, Config
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import StoreOwner
from twinbus.process.server import Server
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog

PATIENCE_SECONDS = 3
"""Instead of ten seconds."""

SLOWEST_SECONDS = 2.5
"""Far above what a send takes, and below the time for which a sync hangs."""


async def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.02)


class Disk:
    """Syncs that can be held up."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_held = threading.Event()

    def sync(self, descriptor: int) -> None:
        if not self.goes_on.is_set():
            self.is_held.set()
            self.goes_on.wait()
        os.fdatasync(descriptor)


class TwoStores:
    """A bus with two stores, and a queue in each; the first one can hang."""

    def __init__(self, folder: Path) -> None:
        self.disk = Disk()
        self._paths = [folder / "hanging.sqlite3", folder / "well.sqlite3"]
        logs = [
            ApartLog(self._paths[0], self.disk.sync, PATIENCE_SECONDS),
            ApartLog(self._paths[1]),
        ]
        config = Config(
            data=folder / "data",
            port=0,
            http_port=0,
            tls_port=0,
            key="key",
            queues={"one": {}, "two": {}},
            # Otherwise another store takes what is sent to the one that is away.
            transfer_conventional="off",
        )
        stores = [
            SqliteStore(path, log) for path, log in zip(self._paths, logs, strict=True)
        ]
        self.server = Server(config, stores=stores)

    def owner_of(self, queue: str) -> StoreOwner:
        fragment = self.server.namespace.queue(queue).fragment()
        (owner,) = [one for one in self.server.owners if one is fragment.home]
        return owner

    @property
    def hanging(self) -> str:
        """The queue whose store hangs."""
        hung, _ = self.server.owners
        return "one" if self.owner_of("one") is hung else "two"

    @property
    def well(self) -> str:
        return "two" if self.hanging == "one" else "one"

    async def connect(self) -> ClientConnection:
        sasl = plain(ROOT_KEY_NAME, "key")
        return await connect("127.0.0.1", self.server.port, sasl=sasl)

    async def until(self, state: OwnerState) -> None:
        await until(lambda: self.owner_of(self.hanging).state is state)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[TwoStores]:
    bus = TwoStores(tmp_path)
    await bus.server.start()
    yield bus
    bus.disk.goes_on.set()
    await bus.server.stop()


async def slowest_of(sender: ClientSender, count: int) -> float:
    """The longest time that one of so many sends takes."""
    slowest = 0.0
    for number in range(count):
        began = time.monotonic()
        await sender.send(messages.named(f"well-{number}"))
        slowest = max(slowest, time.monotonic() - began)
    return slowest


async def test_a_disk_that_hangs_is_noticed_by_its_own_clients_only(
    bus: TwoStores,
) -> None:
    async with await bus.connect() as connection, await bus.connect() as other:
        hanging = await connection.sender(bus.hanging)
        well = await other.sender(bus.well)
        await hanging.send(messages.named("before"))
        bus.disk.goes_on.clear()
        waiting = asyncio.create_task(hanging.send(messages.named("waits")))
        await asyncio.to_thread(bus.disk.is_held.wait, 10)
        assert await slowest_of(well, 100) < SLOWEST_SECONDS
        # After its patience the store is out of service, and says so.
        with pytest.raises(NotAccepted):
            await waiting
        await bus.until(OwnerState.UNAVAILABLE)
        assert await slowest_of(well, 100) < SLOWEST_SECONDS
        with pytest.raises(NotAccepted) as refused:
            await hanging.send(messages.named("refused"))
        assert refused.value.error is not None
        assert refused.value.error.condition == "com.microsoft:server-busy"
        # The sync returns: its outcome is found out, and the store serves again.
        bus.disk.goes_on.set()
        await bus.until(OwnerState.SERVING)
        await hanging.send(messages.named("after"))
        found = await messages.peek_all(connection, bus.hanging)
        assert [item.name for item in found] == ["before", "waits", "after"]


async def test_a_flood_to_a_store_that_hangs_is_refused_before_others_wait(
    bus: TwoStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a store is limited. With one store all reading would pause."""
    owner = bus.owner_of(bus.hanging)
    monkeypatch.setattr(owner, "pending_limit_bytes", 100_000)
    owner._store._file.apart._patience_seconds = 5  # type: ignore[attr-defined]
    async with await bus.connect() as connection, await bus.connect() as other:
        hanging = await connection.sender(bus.hanging)
        well = await other.sender(bus.well)
        bus.disk.goes_on.clear()
        first = asyncio.create_task(hanging.send(messages.named("first")))
        await asyncio.to_thread(bus.disk.is_held.wait, 10)
        flood = [
            asyncio.create_task(hanging.send(messages.named(f"f{n}", 50_000)))
            for n in range(8)
        ]
        await until(lambda: any(task.done() for task in flood))
        assert not bus.server.owners.is_under_pressure()
        assert await slowest_of(well, 20) < SLOWEST_SECONDS
        refused = [task.exception() for task in flood if task.done()]
        assert all(isinstance(error, NotAccepted) for error in refused)
        bus.disk.goes_on.set()
        await first
        await asyncio.gather(*flood, return_exceptions=True)


async def test_a_stop_does_not_wait_for_a_disk_that_hangs(bus: TwoStores) -> None:
    async with await bus.connect() as connection:
        hanging = await connection.sender(bus.hanging)
        bus.disk.goes_on.clear()
        waiting = asyncio.create_task(hanging.send(messages.named("waits")))
        await asyncio.to_thread(bus.disk.is_held.wait, 10)
        async with asyncio.timeout(15):
            await bus.server.stop()
        assert isinstance(
            (await asyncio.gather(waiting, return_exceptions=True))[0], Exception
        )
