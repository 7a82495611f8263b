"""A disk that gets full, or can only be read, while the bus runs with several stores.

By default the other store keeps what is sent meanwhile (A3).
"""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from small_disk import small_disk

from hostile import witness
from hostile.test_several_stores import (
    QUEUES,
    health,
    healthy,
    holds,
    names,
    stores,
)
from hostile.witness import Witness
from twinbus.cli import exit_codes
from twinbus.client import ClientConnection, LinkClosed, NotAccepted, RequestFailed

MEGABYTE = 1024 * 1024
SHORT_LIMIT = ("--transfer-limit", "3s")


@asynccontextmanager
async def bus(folder: Path, *flags: str) -> AsyncIterator[ServerProcess]:
    """With the queue `other` in the first store, and the witness in the second."""
    with ServerProcess(folder, QUEUES, (*stores(folder), *flags)) as running:
        await running.start()
        await running.stop()
        assert holds(folder / "disk" / "first.sqlite3", "other")
        assert holds(folder / "second.sqlite3", witness.QUEUE)
        await running.start()
        yield running


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk for the first store alone that is soon full."""
    with small_disk(tmp_path / "disk", megabytes=12) as folder:
        yield folder


class FailingDisk:
    """A disk for the first store alone that the kernel stops writing to."""

    def __init__(self, folder: Path, image: Path) -> None:
        self._folder = folder
        self._image = image

    def mount(self) -> bool:
        options = ["-t", "ext4", "-o", "loop,errors=remount-ro"]
        mounting = ["mount", *options, str(self._image), str(self._folder)]
        return subprocess.run(mounting, capture_output=True).returncode == 0

    def turn_read_only(self) -> None:
        """What the kernel does after an error of the disk. A remount is refused while
        files are open."""
        asking = ["findmnt", "-no", "SOURCE", str(self._folder)]
        device = subprocess.run(asking, check=True, capture_output=True, text=True)
        kernel = Path("/sys/fs/ext4") / Path(device.stdout.strip()).name
        (kernel / "trigger_fs_error").write_text("test")

    async def repair(self) -> None:
        """While the bus runs: it closes a store that is away, and looks at it again and
        again."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while (await asyncio.to_thread(self._unmount)).returncode:
            assert time.monotonic() < ends_at
            await asyncio.sleep(0.05)
        await asyncio.to_thread(self._mount_checked)

    def _mount_checked(self) -> None:
        subprocess.run(["e2fsck", "-fy", str(self._image)], capture_output=True)
        assert self.mount()

    def _unmount(self) -> "subprocess.CompletedProcess[bytes]":
        command = ["umount", str(self._folder)]
        return subprocess.run(command, capture_output=True)

    def unmount(self) -> None:
        assert self._unmount().returncode == 0


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[FailingDisk]:
    with failing_disk(tmp_path) as disk:
        yield disk


@contextmanager
def failing_disk(folder: Path) -> Iterator[FailingDisk]:
    image, mounted = folder / "image", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * MEGABYTE)
    disk = FailingDisk(mounted, image)
    making = ["mkfs.ext4", "-q", "-O", "^has_journal", str(image)]
    if os.geteuid() != 0 or subprocess.run(making, capture_output=True).returncode:
        pytest.skip("mounting a disk needs root and mkfs.ext4")
    if not disk.mount():
        pytest.skip("this machine mounts no image of a disk")
    try:
        yield disk
    finally:
        disk.unmount()


async def send_all(connection: ClientConnection, sent: list[str], size: int) -> None:
    """None of them is refused."""
    sender = await connection.sender("other")
    for name in sent:
        await sender.send(messages.named(name, size))


async def refused_for_good(connection: ClientConnection) -> list[str]:
    """Send until it is refused; the names that were accepted."""
    accepted: list[str] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                sender = await connection.sender("other")
                name = f"early-{len(accepted)}"
                await sender.send(messages.named(name, 50_000))
            except (NotAccepted, LinkClosed) as refusal:
                assert refusal.error is not None
                assert refusal.error.condition == "com.microsoft:server-busy"
                return accepted
            accepted.append(name)
            await asyncio.sleep(0.05)


async def names_if_served(connection: ClientConnection) -> list[str]:
    try:
        return await names(connection)
    except RequestFailed:
        return []


async def until_found(connection: ClientConnection, expected: list[str]) -> None:
    """These messages are there, in this order, and no others."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while len(await names_if_served(connection)) < len(expected):
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.1)
    assert await names(connection) == expected


def numbered(first: int, last: int) -> list[str]:
    return [f"m{number}" for number in range(first, last)]


async def test_what_is_sent_to_a_full_store_is_kept(
    small: Path, tmp_path: Path
) -> None:
    async with bus(tmp_path) as server:
        (small / "ballast").write_bytes(bytes(4 * MEGABYTE))
        async with Witness(server), await server.connect() as connection:
            # More than the disk has room for.
            await send_all(connection, numbered(0, 160), 50_000)
            assert 0 < len(await names(connection)) < 160
            (small / "ballast").unlink()
            await send_all(connection, numbered(160, 165), 20)
            await until_found(connection, numbered(0, 165))
            await send_all(connection, ["after all"], 20)
            await until_found(connection, [*numbered(0, 165), "after all"])
        await healthy(server)
        assert "the store is full" in server.errors
        assert await server.stop() == exit_codes.OK


async def test_what_is_kept_for_a_full_store_survives_a_crash(
    small: Path, tmp_path: Path
) -> None:
    async with bus(tmp_path) as server:
        (small / "ballast").write_bytes(bytes(4 * MEGABYTE))
        async with await server.connect() as connection:
            await send_all(connection, numbered(0, 160), 50_000)
        server.kill()
        (small / "ballast").unlink()
        await server.start()
        async with await server.connect() as connection:
            await until_found(connection, numbered(0, 160))


async def test_sends_to_a_store_that_is_full_for_too_long_are_refused(
    small: Path, tmp_path: Path
) -> None:
    async with bus(tmp_path, *SHORT_LIMIT) as server:
        (small / "ballast").write_bytes(bytes(9 * MEGABYTE))
        async with Witness(server), await server.connect() as connection:
            accepted = await refused_for_good(connection)
            assert len(await names(connection)) < len(accepted)
            (small / "ballast").unlink()
            await until_found(connection, accepted)
            await send_all(connection, ["after all"], 20)
            await until_found(connection, [*accepted, "after all"])


async def find_out(connection: ClientConnection) -> list[str]:
    """Send the message with which the bus finds out. Its commit has an unknown outcome,
    so it is not kept; unless another commit was before it. What was accepted."""
    try:
        await send_all(connection, ["first"], 20)
    except NotAccepted as refusal:
        assert "a commit may have failed" in str(refusal)
        return []
    return ["first"]


async def test_what_is_sent_while_the_disk_can_only_be_read_is_kept(
    failing: FailingDisk, tmp_path: Path
) -> None:
    async with bus(tmp_path) as server:
        async with Witness(server), await server.connect() as connection:
            await send_all(connection, numbered(0, 5), 20)
            failing.turn_read_only()
            found_out = await find_out(connection)
            await send_all(connection, numbered(5, 20), 20)
            assert "degraded" in await asyncio.to_thread(health, server)
            await failing.repair()
            await send_all(connection, numbered(20, 25), 20)
            sent = [*numbered(0, 5), *found_out, *numbered(5, 25)]
            await until_found(connection, sent)
        await healthy(server)
        assert await server.stop() == exit_codes.OK


async def test_sends_while_the_disk_can_only_be_read_for_too_long_are_refused(
    failing: FailingDisk, tmp_path: Path
) -> None:
    async with bus(tmp_path, *SHORT_LIMIT) as server:
        async with Witness(server), await server.connect() as connection:
            failing.turn_read_only()
            accepted = await find_out(connection)
            accepted += await refused_for_good(connection)
            assert accepted
            await failing.repair()
            await until_found(connection, accepted)
            await send_all(connection, ["after all"], 20)
            await until_found(connection, [*accepted, "after all"])
