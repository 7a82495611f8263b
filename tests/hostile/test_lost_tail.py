"""A store whose last commits are lost is detected at the start.

The write-ahead log of a killed bus is removed, cut short, or has one byte flipped.
SQLite would accept the rest as complete; the bus does not.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.conftest import QUEUES
from twinbus.cli import exit_codes

SENT = 60


def remove(log: Path) -> None:
    log.unlink()


def cut(log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(content[: len(content) // 2])


def flip(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)


def content_of(log: Path) -> bytes:
    return log.read_bytes() if log.exists() else b""


async def send(server: ServerProcess, count: int) -> None:
    """Each in a commit of its own."""
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        for number in range(count):
            await sender.send(messages.named(f"m{number}", 2_000))


async def names_in(server: ServerProcess) -> list[str]:
    async with await server.connect() as connection:
        return [item.name for item in await messages.peek_all(connection, "target")]


@pytest.mark.parametrize("damage", [remove, cut, flip])
async def test_a_damaged_log_is_no_clean_start(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        await send(server, SENT)
        server.kill()
        log = server.data / "messages.sqlite3-wal"
        damage(log)
        left = content_of(log)
        server.spawn()
        assert await server.ended() == exit_codes.UNREADABLE
        line = server.errors.splitlines()[-1]
        assert "messages.sqlite3" in line and "commit" in line
        assert "--accept-loss" in line
        # Refusing changes nothing: what is left of the log may be of use.
        assert content_of(log) == left


async def test_an_undamaged_log_is_one(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, QUEUES) as server:
        await server.start()
        await send(server, SENT)
        server.kill()
        await server.start()
        assert len(await names_in(server)) == SENT
        server.kill()
        await server.start()
        assert len(await names_in(server)) == SENT
        assert await server.stop() == exit_codes.OK
        assert server.errors == ""
