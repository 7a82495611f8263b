"""A3 with several brokers: sends succeed while no broker can serve a store, whichever
broker they come to, and appear in their order when it is back."""

import asyncio
import os
import signal
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from crash import messages

from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError, NotAccepted
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.entities.store_entries import remembered_stores
from twinbus.store.sqlite_catalog import SqliteCatalog

from .processes import Brokers, until
from .queues_at import made_at, names_in

_ANSWER_SECONDS = 15
"""Longer than a busy machine takes; a broker that was killed ends its connections."""


async def _place_of(brokers: Brokers, path: str) -> tuple[Path, str]:
    """The store that has a queue, and the broker that serves it."""
    catalog = SqliteCatalog(brokers.data / "catalog.sqlite3")
    await catalog.open()
    try:
        records = (await catalog.snapshot()).entities
    finally:
        await catalog.close()
    places = {uuid: place for place, uuid in remembered_stores(records).items()}
    (uuid,) = next(one.placement for one in records if one.path == path)
    owner = owners_of_stores((await brokers.alive()).values())[uuid]
    return Path(places[uuid]), owner.name


def _files(store: Path) -> list[Path]:
    return sorted(store.parent.glob(f"{store.name}*"))


def _take_away(store: Path, hidden: Path) -> None:
    """Nobody can open the store any more."""
    hidden.mkdir()
    for file in _files(store):
        file.rename(hidden / file.name)
    store.mkdir()


def _bring_back(store: Path, hidden: Path) -> None:
    store.rmdir()
    for file in _files(store):
        file.unlink()
    for file in hidden.iterdir():
        file.rename(store.parent / file.name)


class Sends:
    """To one queue, one after the other, each until it is acknowledged."""

    def __init__(self, brokers: Brokers, path: str) -> None:
        self._brokers = brokers
        self._path = path
        self.names: list[str] = []
        # An attempt had no answer: they may be there more than once. What was refused
        # is not stored.
        self._doubtful: set[str] = set()

    async def by(self, broker: str, name: str) -> None:
        """Send it by way of this broker."""

        async def is_sent() -> bool:
            try:
                async with await self._brokers.connect(broker) as connection:
                    return await self._is_accepted(connection, name)
            except (ClientError, OSError, TimeoutError):
                return False

        await until(is_sent)
        self.names.append(name)

    async def by_first(self, connections: list[ClientConnection], name: str) -> None:
        """Send it to whoever accepts it first."""

        async def is_sent() -> bool:
            for connection in connections:
                if await self._is_accepted(connection, name):
                    return True
            return False

        await until(is_sent)
        self.names.append(name)
        for connection in connections:
            await connection.close()

    async def _is_accepted(self, connection: ClientConnection, name: str) -> bool:
        try:
            sender = await connection.sender(self._path)
        except (ClientError, OSError, TimeoutError):
            return False
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await sender.send(messages.named(name))
        except NotAccepted:
            return False
        except (ClientError, OSError, TimeoutError):
            self._doubtful.add(name)
            return False
        return True

    async def are_all_there(self) -> bool:
        return set(self.names) <= set(await names_in(self._brokers, self._path) or ())

    async def check_order(self) -> None:
        found = await names_in(self._brokers, self._path) or []
        kept = [name for name, _ in groupby(found)]
        assert kept == self.names
        assert {name for name in found if found.count(name) > 1} <= self._doubtful


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    """Two stores, one for each of two brokers."""
    with Brokers(tmp_path, ("a", "b")) as made:
        yield made


async def test_a03_order_is_kept_over_all_brokers(two: Brokers) -> None:
    """Each broker has a store. That of the first is away, and when it is back the first
    broker takes it again; the second one has kept its messages."""
    brokers = two
    await brokers.start("--brokers=2")
    await made_at(brokers, "1", "q")
    store, owner = await _place_of(brokers, "q")
    sends = Sends(brokers, "q")
    await sends.by("2", "before")
    hidden = brokers.folder / "hidden"
    _take_away(store, hidden)
    os.kill((await brokers.alive())[owner].process.pid, signal.SIGKILL)
    for number in range(9):
        await sends.by("12"[number % 2], f"during {number}")
    assert await names_in(brokers, "q") is None
    connections = [await brokers.connect(name) for name in "12"]
    _bring_back(store, hidden)
    # The new owner is the first to know that it serves the store; who keeps its
    # messages learns that a moment later.
    await sends.by_first(connections, "after")
    for number in range(4):
        await sends.by("12"[number % 2], f"after {number}")
    await until(sends.are_all_there)
    await sends.check_order()
