"""A catalog that is lost, empty, old, or of another namespace: nothing is deleted.

A real bus and the official SDK fill a folder; then its catalog is lost in one of
several ways, and `twinbus serve` is started on the folder.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.cli import exit_codes
from twinbus.config.config import Config
from twinbus.process.server import Server
from twinbus.store.base import StoreUnreadable
from twinbus.testing import Bus

from .command import Serving, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")
COUNT = 600


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with 600 messages, beside it its catalog of before them."""
    kept = tmp_path_factory.mktemp("filled")
    with Bus() as bus:
        bus.stop()
        shutil.copy(bus.folder / "catalog.sqlite3", kept / "older.sqlite3")
        bus.start()
        bus.create_queue("orders", user_metadata="kept")
        with (
            ServiceBusClient.from_connection_string(bus.connection_string) as client,
            client.get_queue_sender("orders") as sender,
        ):
            messages = [ServiceBusMessage(str(number)) for number in range(COUNT)]
            sender.send_messages(messages)
        bus.stop()
        shutil.copytree(bus.folder, kept / "data")
    yield kept


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A place for commands, with a copy of that folder."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path


def _is_gone(folder: Path) -> None:
    (folder / "data" / "catalog.sqlite3").unlink()


def _is_empty(folder: Path) -> None:
    (folder / "data" / "catalog.sqlite3").write_bytes(b"")


def _is_older(folder: Path) -> None:
    shutil.copy(folder / "older.sqlite3", folder / "data" / "catalog.sqlite3")


def _is_damaged(folder: Path) -> None:
    catalog = folder / "data" / "catalog.sqlite3"
    catalog.write_bytes(b"\xa5" * catalog.stat().st_size)


LOSSES = (_is_gone, _is_empty, _is_older, _is_damaged)


def stored(folder: Path) -> int:
    """Messages in the store, and none that a purge is about to remove."""
    with closing(sqlite3.connect(folder / "data" / "messages.sqlite3")) as db:
        assert db.execute("SELECT count(*) FROM dropped_fragment").fetchone() == (0,)
        count: int = db.execute("SELECT count(*) FROM message").fetchone()[0]
        return count


def receivable(folder: Path, queue: str, *flags: str) -> int:
    """What a client of a bus on that folder gets to see of a queue."""
    with Serving(*FREE, *flags, cwd=folder) as server:
        with (
            ServiceBusClient.from_connection_string(server.connection_string) as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            count = 0
            while seen := receiver.peek_messages(max_message_count=COUNT):
                count += len(seen)
        assert server.stop() == exit_codes.OK
    return count


@pytest.mark.parametrize("lose", LOSSES)
def test_a_store_that_its_catalog_does_not_know_is_refused(
    folder: Path, lose: Callable[[Path], None]
) -> None:
    lose(folder)
    for _ in range(2):
        with pytest.raises(StoreUnreadable) as refusal:
            asyncio.run(_start(folder))
        text = str(refusal.value)
        assert "catalog.sqlite3" in text
        assert "twinbus recover" in text
        assert "move the file away" not in text
        assert stored(folder) == COUNT


async def _start(folder: Path) -> None:
    config = Config(data=folder / "data", port=0, http_port=0, tls_port=0)
    await Server(config).start()


def test_the_refusal_says_what_is_at_stake(folder: Path) -> None:
    _is_gone(folder)
    ended = run("serve", *FREE, cwd=folder)
    assert ended.returncode == exit_codes.UNREADABLE
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert "'orders'" in line
    assert "1 entity with 600 messages" in line
    assert "data/messages.sqlite3" in line
    assert not (folder / "data" / "catalog.sqlite3").exists()


def test_a_catalog_that_is_put_back_serves_as_before(
    filled: Path, folder: Path
) -> None:
    _is_gone(folder)
    with pytest.raises(StoreUnreadable):
        asyncio.run(_start(folder))
    catalog = Path("data", "catalog.sqlite3")
    shutil.copy(filled / catalog, folder / catalog)
    assert receivable(folder, "orders") == COUNT


def test_another_name_of_the_namespace_deletes_nothing(folder: Path) -> None:
    with Serving(*FREE, "--namespace", "renamed", cwd=folder) as server:
        assert "namespace 'twinbus'" in server.errors
        assert "600 messages" in server.errors
        assert server.stop() == exit_codes.OK
    assert stored(folder) == COUNT
    assert receivable(folder, "orders", "--namespace", "twinbus") == COUNT
