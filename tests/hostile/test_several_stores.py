"""Several stores in a real process: one is full, read-only or missing, others go on."""

import asyncio
import http.client
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from small_disk import small_disk

from hostile import witness
from hostile.witness import Witness
from twinbus.cli import exit_codes
from twinbus.client import ClientConnection, LinkClosed, NotAccepted

MEGABYTE = 1024 * 1024
# One of them is in each store; the witness is in the second.
QUEUES = f"[queues.other]\n{witness.CONFIG}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system for the first store alone."""
    with small_disk(tmp_path / "disk", megabytes=12) as folder:
        yield folder


def stores(folder: Path) -> tuple[str, ...]:
    first, second = folder / "disk" / "first.sqlite3", folder / "second.sqlite3"
    urls = ("--store", f"sqlite:///{first}", "--store", f"sqlite:///{second}")
    return urls


# Otherwise the other store takes what is sent to the one that is away.
KEEPS_NOTHING = ("--transfer-conventional", "off")


def holds(store: Path, queue: str) -> bool:
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT definition FROM entity").fetchall()
    return any(f'"path": "{queue}"' in text for (text,) in rows)


@pytest.fixture
async def server(disk: Path, tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """With the queue `other` in the first store."""
    flags = (*stores(tmp_path), *KEEPS_NOTHING)
    with ServerProcess(tmp_path, QUEUES, flags) as running:
        await running.start()
        await running.stop()
        assert holds(tmp_path / "disk" / "first.sqlite3", "other")
        assert holds(tmp_path / "second.sqlite3", witness.QUEUE)
        yield running


async def refusal_of(connection: ClientConnection, size: int = 20) -> str:
    """Send until a message is refused; the reason."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                sender = await connection.sender("other")
                await sender.send(messages.named("fills", size))
            except (NotAccepted, LinkClosed) as refusal:
                error = refusal.error
                assert error is not None
                assert error.condition == "com.microsoft:server-busy"
                return str(error.description)


async def send_in_the_end(connection: ClientConnection, name: str) -> None:
    """Try again as long as the bus is busy."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                sender = await connection.sender("other")
                await sender.send(messages.named(name))
                return
            except (NotAccepted, LinkClosed) as refusal:
                assert refusal.error is not None
                assert refusal.error.condition == "com.microsoft:server-busy"
            await asyncio.sleep(0.1)


def remount(disk: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


def move_all(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
        file.unlink()


def names_of_files(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def health(server: ServerProcess) -> str:
    asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with closing(asked):
        asked.request("GET", "/health")
        answer = asked.getresponse()
        assert answer.status == 200
        return answer.read().decode()


async def healthy(server: ServerProcess) -> None:
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while await asyncio.to_thread(health, server) != "healthy\n":
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.1)


async def names(connection: ClientConnection) -> list[str]:
    return [item.name for item in await messages.peek_all(connection, "other")]


async def test_a_full_disk_of_one_store(disk: Path, server: ServerProcess) -> None:
    await server.start()
    (disk / "ballast").write_bytes(bytes(4 * MEGABYTE))
    async with Witness(server), await server.connect() as connection:
        assert "store is full" in await refusal_of(connection, 50_000)
        (disk / "ballast").unlink()
        await send_in_the_end(connection, "after all")
        assert (await names(connection))[-1] == "after all"
    await healthy(server)
    assert await server.stop() == exit_codes.OK


async def test_a_disk_that_can_only_be_read(disk: Path, server: ServerProcess) -> None:
    remount(disk, "ro")
    await server.start()
    async with Witness(server), await server.connect() as connection:
        assert "'other'" in await refusal_of(connection)
        told = await asyncio.to_thread(health, server)
        assert told.startswith("degraded\nstore first.sqlite3: ")
        assert "can only be read" in told
        remount(disk, "rw")
        await send_in_the_end(connection, "after all")
        assert await names(connection) == ["after all"]
    await healthy(server)


async def test_a_store_that_is_missing_at_the_start(
    disk: Path, server: ServerProcess, tmp_path: Path
) -> None:
    await server.start()
    async with await server.connect() as connection:
        await send_in_the_end(connection, "before")
    await server.stop()
    move_all(disk, tmp_path / "aside")
    await server.start()
    async with Witness(server), await server.connect() as connection:
        assert "'other'" in await refusal_of(connection)
        assert "store first.sqlite3" in await asyncio.to_thread(health, server)
        # An empty one in its place would look like the right one.
        assert names_of_files(disk) == []
        move_all(tmp_path / "aside", disk)
        await send_in_the_end(connection, "after all")
        assert await names(connection) == ["before", "after all"]
    await healthy(server)
    assert "a store is away, the bus starts without it" in server.errors
    assert await server.stop() == exit_codes.OK


async def test_a_crash_loses_nothing_of_any_store(
    disk: Path, server: ServerProcess
) -> None:
    await server.start()
    async with Witness(server), await server.connect() as connection:
        for number in range(50):
            await send_in_the_end(connection, f"m{number}")
    server.kill()
    await server.start()
    async with await server.connect() as connection:
        assert await names(connection) == [f"m{number}" for number in range(50)]
