"""A3 with several brokers: sends succeed while no broker can serve a store, whichever
broker they come to, and appear in their order when it is back."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash import messages

from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.entities.store_entries import remembered_stores
from twinbus.store.sqlite_catalog import SqliteCatalog

from .processes import Brokers, until
from .queues_at import made_at, names_in


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


async def _sent(brokers: Brokers, broker: str, path: str, name: str) -> None:
    """Send until it is acknowledged; what was refused is not stored."""

    async def is_sent() -> bool:
        try:
            async with await brokers.connect(broker) as connection:
                sender = await connection.sender(path)
                async with asyncio.timeout(5):
                    await sender.send(messages.named(name))
        except (ClientError, OSError, TimeoutError):
            return False
        return True

    await until(is_sent)


async def _sent_first(
    connections: list[ClientConnection], path: str, name: str
) -> None:
    """Send it to whoever accepts it first."""

    async def is_sent() -> bool:
        for connection in connections:
            try:
                sender = await connection.sender(path)
                async with asyncio.timeout(5):
                    await sender.send(messages.named(name))
            except (ClientError, OSError, TimeoutError):
                continue
            return True
        return False

    await until(is_sent)
    for connection in connections:
        await connection.close()


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
    await _sent(brokers, "2", "q", "before")
    hidden = brokers.folder / "hidden"
    _take_away(store, hidden)
    os.kill((await brokers.alive())[owner].process.pid, signal.SIGKILL)
    names = ["before"]
    for number in range(9):
        await _sent(brokers, "12"[number % 2], "q", f"during {number}")
        names.append(f"during {number}")
    assert await names_in(brokers, "q") is None
    connections = [await brokers.connect(name) for name in "12"]
    _bring_back(store, hidden)
    # The new owner is the first to know that it serves the store; who keeps its
    # messages learns that a moment later.
    await _sent_first(connections, "q", "after")
    names.append("after")
    for number in range(4):
        await _sent(brokers, "12"[number % 2], "q", f"after {number}")
        names.append(f"after {number}")

    async def are_all_there() -> bool:
        return len(await names_in(brokers, "q") or ()) >= len(names)

    await until(are_all_there)
    assert await names_in(brokers, "q") == names
