"""`twinbus check` and `twinbus recover` with a store in PostgreSQL."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli.command import run
from crash import messages
from crash.server_process import ServerProcess

from bench.postgres_server import PostgresServer
from hostile.conftest import QUEUES
from twinbus.cli import exit_codes

SENT = 40

# Two subscriptions share the bodies of what they get.
CONFIG = f"{QUEUES}\n[topics.news.subscriptions.more]\n"


class Schema:
    """A bus, and the schema that it keeps its messages in."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self._server = server
        self.name = f"t_{secrets.token_hex(8)}"
        self.url = server.url(self.name)
        self.bus = ServerProcess(folder, CONFIG, ("--store", self.url))

    def change(self, statement: str) -> None:
        with psycopg.connect(self._server.conninfo, autocommit=True) as db:
            db.execute(f"SET search_path = {self.name}")
            db.execute(statement)

    async def fill(self) -> None:
        async with await self.bus.connect() as connection:
            for path in ("target", "news"):
                sender = await connection.sender(path)
                for number in range(SENT):
                    await sender.send(messages.named(f"m{number}", 2_000))

    def checked(self, code: int) -> dict[str, Any]:
        ended = run("check", "--json", "--store", self.url, cwd=self.bus.folder)
        assert ended.returncode == code, ended.stdout + ended.stderr
        report: dict[str, Any] = json.loads(ended.stdout)
        return report


@pytest.fixture
def schema(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Schema]:
    made = Schema(tmp_path, postgres_server)
    with made.bus:
        yield made


async def test_check_of_a_whole_store_while_it_is_served(schema: Schema) -> None:
    await schema.bus.start()
    await schema.fill()
    report = schema.checked(exit_codes.OK)
    assert report["whole"] and report["findings"] == []
    assert report["messages"] == 3 * SENT
    await schema.bus.stop()
    assert schema.checked(exit_codes.OK)["commit"] >= report["commit"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "DELETE FROM message WHERE row_id IN (SELECT row_id FROM message "
            "WHERE is_shared = 0 ORDER BY row_id LIMIT 10 OFFSET 5)",
            f"active: {SENT} expected, {SENT - 10} found",
        ),
        ("DELETE FROM shared_body", f"lacks the shared body of {2 * SENT} messages"),
        ("UPDATE body_use SET use_count = 3", "counts the uses of"),
        (
            "INSERT INTO rule (fragment_number, name, definition, created_at)"
            " VALUES (999, 'x', '{}', 1)",
            "has rows of fragment 999",
        ),
        (
            "INSERT INTO message SELECT * FROM message WHERE is_shared = 0 LIMIT 3",
            "has 3 messages twice",
        ),
        (
            "UPDATE message SET row_id = row_id + 1000 WHERE row_id ="
            " (SELECT max(row_id) FROM message WHERE is_shared = 0)",
            "and would give out",
        ),
    ],
)
async def test_check_tells_what_is_wrong(
    schema: Schema, statement: str, words: str
) -> None:
    await schema.bus.start()
    await schema.fill()
    await schema.bus.stop()
    schema.change(statement)
    report = schema.checked(exit_codes.DAMAGED)
    assert any(words in one["text"] for one in report["findings"]), report
    assert "restore a backup of the database" in report["next"]


async def test_check_of_a_schema_that_is_not_there(schema: Schema) -> None:
    (schema.bus.folder / "data").mkdir()
    ended = run("check", "--store", schema.url, cwd=schema.bus.folder)
    assert ended.returncode == exit_codes.UNREADABLE
    assert "There is no store" in ended.stderr


async def test_lost_catalog_is_recovered_from_a_schema(schema: Schema) -> None:
    await schema.bus.start()
    await schema.fill()
    # Its lease is not given back.
    schema.bus.kill()
    for file in schema.bus.data.glob("catalog.sqlite3*"):
        file.unlink()
    recover = ("recover", "--store", schema.url)
    ended = run(*recover, "--dry-run", cwd=schema.bus.folder)
    assert ended.returncode == exit_codes.OK, ended.stderr
    assert "would be recovered. Nothing was changed." in ended.stdout
    ended = run(*recover, cwd=schema.bus.folder)
    assert ended.returncode == exit_codes.OK, ended.stderr
    assert f"queue 'target' with {SENT} messages" in ended.stdout
    await schema.bus.start()
    async with await schema.bus.connect() as connection:
        found = await messages.peek_all(connection, "news/subscriptions/more")
    assert len(found) == SENT


async def test_schema_that_is_served_is_not_recovered(schema: Schema) -> None:
    await schema.bus.start()
    await schema.fill()
    for file in schema.bus.data.glob("catalog.sqlite3*"):
        file.unlink()
    ended = run("recover", "--store", schema.url, cwd=schema.bus.folder)
    assert ended.returncode == exit_codes.IN_USE
    assert "is in use by" in ended.stderr
