"""A disk that is full or read-only: requests are refused clearly, nothing is lost."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from small_disk import small_disk

from hostile import witness
from hostile.conftest import QUEUES
from twinbus.cli import exit_codes
from twinbus.client import ClientConnection, NotAccepted

MEGABYTE = 1024 * 1024


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, of the data folder alone."""
    with small_disk(tmp_path / "data", megabytes=12) as folder:
        yield folder


def forbid_writing(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


async def fill(connection: ClientConnection) -> tuple[list[str], NotAccepted]:
    """Send until it is refused; what was accepted, and the refusal."""
    sender = await connection.sender("target")
    accepted: list[str] = []
    for number in range(10_000):
        name = f"m{number}"
        try:
            await sender.send(messages.named(name, 20_000))
        except NotAccepted as refusal:
            return accepted, refusal
        accepted.append(name)
    raise AssertionError("there was always room")


async def send_in_the_end(connection: ClientConnection, name: str) -> None:
    """Try again as long as the bus says that it is busy: a full store is spared."""
    sender = await connection.sender("target")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await sender.send(messages.named(name))
                return
            except NotAccepted as refusal:
                assert refusal.error is not None
                assert refusal.error.condition == "com.microsoft:server-busy"
            await asyncio.sleep(0.05)


async def names_in(connection: ClientConnection) -> list[str]:
    return [item.name for item in await messages.peek_all(connection, "target")]


async def test_a_full_disk_refuses_and_loses_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(4 * MEGABYTE))
        async with await server.connect() as connection:
            accepted, refusal = await fill(connection)
            assert refusal.error is not None
            assert refusal.error.condition == "com.microsoft:server-busy"
            assert "store is full" in refusal.error.description
            # Looking and receiving go on.
            assert await names_in(connection) == accepted
            receiver = await connection.receiver("target", credit=3)
            batch = await receiver.receive_batch(3, timeout_seconds=10)
            assert messages.found(batch[0].payload).name == accepted[0]
            await receiver.close()
            # With room again everything works on the same connection.
            ballast.unlink()
            await send_in_the_end(connection, "after all")
            assert await names_in(connection) == [*accepted, "after all"]
        assert await server.stop() == exit_codes.OK
        await server.start()
        async with await server.connect() as connection:
            assert await names_in(connection) == [*accepted, "after all"]


async def test_a_full_disk_and_a_crash_lose_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(4 * MEGABYTE))
        async with await server.connect() as connection:
            accepted, _ = await fill(connection)
        server.kill()
        ballast.unlink()
        await server.start()
        async with await server.connect() as connection:
            assert await names_in(connection) == accepted


async def test_completing_on_a_full_disk_is_refused_or_done(
    tmp_path: Path, small_disk: Path
) -> None:
    """A settlement needs room, too; without any the message stays."""
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(4 * MEGABYTE))
        async with await server.connect() as connection:
            accepted, _ = await fill(connection)
            receiver = await connection.receiver("target", credit=1)
            (delivery,) = await receiver.receive_batch(1, timeout_seconds=10)
            at = delivery.delivery_id
            with contextlib.suppress(NotAccepted):
                await receiver.settle_confirmed(at, at)
                accepted = accepted[1:]
            assert await names_in(connection) == accepted


async def test_a_disk_that_may_only_be_read(tmp_path: Path, small_disk: Path) -> None:
    forbid_writing(small_disk)
    with ServerProcess(tmp_path, QUEUES) as server:
        server.spawn()
        assert await server.ended() == exit_codes.UNREADABLE
        (line,) = server.errors.splitlines()
        assert "Read-only file system" in line


async def test_a_store_that_became_read_only(tmp_path: Path, small_disk: Path) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        await server.stop()
        forbid_writing(small_disk)
        server.spawn()
        assert await server.ended() == exit_codes.UNREADABLE
        (line,) = server.errors.splitlines()
        assert "messages.sqlite3" in line


async def test_a_second_server_leaves_the_first_alone(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        async with witness.Witness(server):
            with ServerProcess(tmp_path, QUEUES) as rival:
                rival.spawn()
                assert await rival.ended() == exit_codes.IN_USE
        (line,) = server.errors.splitlines()
        assert f"in use by process {server.pid}" in line


@pytest.mark.parametrize("name", ["messages.sqlite3", "catalog.sqlite3"])
@pytest.mark.parametrize("damage", ["header", "schema", "cut"])
async def test_a_damaged_file(tmp_path: Path, name: str, damage: str) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        await server.stop()
        file = server.data / name
        content = bytearray(file.read_bytes())
        if damage == "header":
            content[:100] = b"\xa5" * 100
        elif damage == "schema":
            content[100:4_000] = b"\xa5" * 3_900
        else:
            del content[len(content) // 2 :]
        file.write_bytes(content)
        server.spawn()
        assert await server.ended() == exit_codes.UNREADABLE
        (line,) = server.errors.splitlines()
        assert line.startswith("twinbus: ")
        assert name in line
        # What is left of it is left alone.
        assert file.read_bytes() == content


async def drain(connection: ClientConnection, count: int) -> list[str]:
    """Receive and complete as many, each confirmed; their names."""
    receiver = await connection.receiver("target", credit=50)
    names: list[str] = []
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while len(names) < count:
            for delivery in await receiver.receive_batch(50, timeout_seconds=5):
                at = delivery.delivery_id
                await receiver.settle_confirmed(at, at)
                names.append(messages.found(delivery.payload).name)
    await receiver.close()
    return names


async def keep_sending(connection: ClientConnection, refused: list[str]) -> None:
    """A sender that does not give up before it got some through, beside those who
    drain."""
    sender = await connection.sender("other")
    accepted_count = 0
    while accepted_count < 20:
        try:
            await sender.send(messages.named("more", 20_000))
            accepted_count += 1
        except NotAccepted as refusal:
            assert refusal.error is not None
            refused.append(refusal.error.condition)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("ballast_bytes", [0, 4 * MEGABYTE], ids=["own", "others"])
async def test_a_disk_filled_by_messages_can_be_drained(
    tmp_path: Path, small_disk: Path, ballast_bytes: int
) -> None:
    """Everything is received and completed, no lock is lost, and then it takes
    messages again by itself, though nobody freed any space."""
    with ServerProcess(tmp_path, f"{QUEUES}\n[queues.other]\n") as server:
        await server.start()
        async with (
            await server.connect() as connection,
            await server.connect() as second,
        ):
            accepted, refusal = await fill(connection)
            assert refusal.error is not None
            assert refusal.error.condition == "com.microsoft:server-busy"
            assert "store is full" in refusal.error.description
            # Then somebody else takes what is left of the disk.
            take_all(small_disk / "ballast", ballast_bytes)
            refused: list[str] = []
            sending = asyncio.create_task(keep_sending(second, refused))
            assert await drain(connection, len(accepted)) == accepted
            sending.cancel()
            assert set(refused) <= {"com.microsoft:server-busy"}
            await send_in_the_end(connection, "after all")
            assert await names_in(connection) == ["after all"]
        assert await server.stop() == exit_codes.OK
        assert "refused, the store is full" not in server.errors


def take_all(ballast: Path, limit: int) -> None:
    """Write up to so many bytes, until the disk has no more."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.tell() < limit:
            file.write(bytes(4096))
