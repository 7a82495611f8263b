"""`twinbus check` finds damaged and missing data, and can accept the loss."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from cli.command import run
from crash import messages
from crash.server_process import ServerProcess

from hostile.conftest import QUEUES
from twinbus.cli import exit_codes
from twinbus.client import ClientError

SENT = 40

# Two subscriptions share the bodies of what they get.
CONFIG = f"{QUEUES}\n[topics.news.subscriptions.more]\n"


async def fill(server: ServerProcess) -> None:
    """A queue, and a topic whose messages share their bodies."""
    async with await server.connect() as connection:
        for path in ("target", "news"):
            sender = await connection.sender(path)
            for number in range(SENT):
                await sender.send(messages.named(f"m{number}", 2_000))


async def names_in(server: ServerProcess) -> list[str]:
    async with await server.connect() as connection:
        return [item.name for item in await messages.peek_all(connection, "target")]


def checked(server: ServerProcess, code: int, *flags: str) -> dict[str, Any]:
    ended = run("check", "--json", *flags, cwd=server.folder)
    assert ended.returncode == code, ended.stdout + ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def change(statement: str) -> Callable[[Path], None]:
    def damage(store: Path) -> None:
        with closing(sqlite3.connect(store)) as db, db:
            db.execute(statement)

    return damage


async def test_check_of_a_whole_store(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await fill(server)
        # A bus that runs has the files for itself.
        ended = run("check", cwd=server.folder)
        assert ended.returncode == exit_codes.IN_USE
        assert f"in use by process {server.pid}" in ended.stderr
        server.kill()
        report = checked(server, exit_codes.OK)
        assert report["whole"] and not report["findings"]
        assert report["messages"] == 3 * SENT
        assert report["commit"] == report["confirmed"]
        # It has left the log of the killed bus alone.
        assert (server.data / "messages.sqlite3-wal").stat().st_size > 0
        ended = run("check", cwd=server.folder)
        assert "No damage was found." in ended.stdout
        assert "counters against messages" in ended.stderr
        await server.start()
        assert len(await names_in(server)) == SENT


async def test_a_lost_end_can_be_accepted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await server.stop()
        await server.start()
        await fill(server)
        server.kill()
        (server.data / "messages.sqlite3-wal").unlink()
        report = checked(server, exit_codes.DAMAGED)
        assert report["confirmed"] - report["commit"] >= 2 * SENT
        assert "--accept-loss" in report["next"]
        report = checked(server, exit_codes.OK, "--accept-loss")
        assert report["done"]
        assert checked(server, exit_codes.OK)["whole"]
        await server.start()
        assert await names_in(server) == []


@pytest.mark.parametrize(
    ("statement", "words", "is_acceptable"),
    [
        (
            "DELETE FROM message WHERE row_id IN (SELECT row_id FROM message "
            "WHERE NOT is_shared ORDER BY row_id LIMIT 10 OFFSET 5)",
            f"active: {SENT} expected, {SENT - 10} found",
            True,
        ),
        (
            "DELETE FROM shared_body",
            f"lacks the shared body of {2 * SENT} messages",
            True,
        ),
        ("UPDATE body_use SET use_count = 3", "counts the uses of", False),
        ("UPDATE fragment SET next_sequence = 1", "would give out 1 next", False),
        (
            "INSERT INTO rule VALUES (99, 999, 'x', '{}', 1)",
            "has rows of fragment 999",
            False,
        ),
    ],
)
async def test_check_tells_what_is_gone(
    tmp_path: Path, statement: str, words: str, is_acceptable: bool
) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await fill(server)
        await server.stop()
        change(statement)(server.data / "messages.sqlite3")
        report = checked(server, exit_codes.DAMAGED)
        assert words in " ".join(item["text"] for item in report["findings"])
        assert ("--accept-loss" in report["next"]) == is_acceptable


async def test_counters_of_what_is_gone_can_be_accepted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await fill(server)
        await server.stop()
        change("DELETE FROM message WHERE NOT is_shared AND row_id % 2 = 0")(
            server.data / "messages.sqlite3"
        )
        report = checked(server, exit_codes.OK, "--accept-loss")
        assert "counters of 1 fragments" in report["done"][0]
        assert checked(server, exit_codes.OK)["whole"]
        await server.start()
        assert len(await names_in(server)) == SENT // 2


async def test_check_finds_a_damaged_page(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await fill(server)
        await server.stop()
        store = server.data / "messages.sqlite3"
        content = bytearray(store.read_bytes())
        # Halves a page of messages: its cells point behind its end.
        page = content.index(b"\x0d", len(content) - 16_384)
        content[page + 3 : page + 5] = b"\x00\x00"
        store.write_bytes(content)
        ended = run("check", cwd=server.folder)
        assert ended.returncode in (exit_codes.DAMAGED, exit_codes.UNREADABLE)
        assert "Restore a backup" in ended.stdout or "backup" in ended.stderr


def test_check_without_a_store(tmp_path: Path) -> None:
    ended = run("check", "--data", tmp_path / "none", cwd=tmp_path)
    assert ended.returncode == exit_codes.UNREADABLE
    ended = run("check", "--store", "memory:", cwd=tmp_path)
    assert ended.returncode == exit_codes.USAGE
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("which", ["BETWEEN 5 AND 14", ">= 20"])
async def test_a_read_that_finds_too_few_is_no_silence(
    tmp_path: Path, which: str
) -> None:
    """Whoever receives gets what is there; then the bus says what is not."""
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        await fill(server)
        await server.stop()
        change(f"DELETE FROM message WHERE NOT is_shared AND row_id & 65535 {which}")(
            server.data / "messages.sqlite3"
        )
        await server.start()
        async with await server.connect() as connection:
            with suppress(ClientError):
                receiver = await connection.receiver("target", credit=SENT)
                await receiver.receive_batch(SENT, timeout_seconds=20)
                await receiver.receive_batch(SENT, timeout_seconds=20)
        assert await server.ended() == exit_codes.STORE_FAILED
        line = server.errors.splitlines()[-1]
        assert f"has {SENT} active messages by its counter" in line
        assert "'target'" in line and "twinbus check" in line
        # Those who accept it go on with what is left.
        assert checked(server, exit_codes.OK, "--accept-loss")["done"]
        await server.start()
        assert 0 < len(await names_in(server)) < SENT
