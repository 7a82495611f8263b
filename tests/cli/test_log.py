"""`twinbus log`: what happened is shown, and exported once, beside a running bus."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.cli import exit_codes

from .command import PATIENCE_SECONDS, Serving, complaint, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")
QUEUE = "[queues.orders]\n"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """In the order of commits, from segments that count."""
    found: list[dict[str, Any]] = []
    for file in sorted((folder / "segments").glob("store-*.json")):
        one = json.loads(file.read_text())
        content = pyarrow.parquet.ParquetFile(folder / one["file"])
        found += content.read().to_pylist()
    return found


def sent(folder: Path) -> list[str]:
    return [row["message_id"] for row in rows_of(folder) if row["operation"] == "send"]


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@contextmanager
def sender_of(server: Serving) -> Iterator[Callable[[str], None]]:
    client = ServiceBusClient.from_connection_string(server.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        yield lambda name: sender.send_messages(ServiceBusMessage("x", message_id=name))


def exporter_of(server: Serving) -> int | None:
    """The process that exports beside the server."""
    folder = Path(f"/proc/{server.pid}/task")
    for children in folder.glob("*/children"):
        for pid in children.read_text().split():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"export" in line.split(b"\0"):
                return int(pid)
    return None


def test_a_running_bus_is_shown_and_exported(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(QUEUE)
    with Serving("--config", "bus.toml", *FREE, cwd=tmp_path) as server:
        with sender_of(server) as send:
            send("first")
        shown = run("log", "show", "--json", "--entity", "orders", cwd=tmp_path)
        [row] = [r for r in json.loads(shown.stdout) if r["operation"] == "send"]
        assert (row["message_id"], row["sequence_number"]) == ("first", 1)
        assert row["key_name"] == "RootManageSharedAccessKey"
        export = ("log", "export", "--folder", "out", "--json")
        assert run(*export, cwd=tmp_path).returncode == 0
        with sender_of(server) as send:
            send("sec\x1bond")
        assert run(*export, cwd=tmp_path).returncode == 0
    assert sent(tmp_path / "out") == ["first", "sec\x1bond"]
    table = run("log", "show", cwd=tmp_path).stdout
    # A stranger writes nothing on a terminal.
    assert "sec ond" in table and "\x1b" not in table
    assert "RootManageSharedAccessKey" in table


def test_an_exporter_beside_the_server_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(QUEUE)
    flags = ("--config", "bus.toml", "--operation-log-folder", "out", *FREE)
    out = tmp_path / "out"
    with Serving(*flags, cwd=tmp_path) as server:
        # Closed before the server is: the SDK forgets sockets that are reset.
        with sender_of(server) as send:
            send("first")
            until(lambda: exporter_of(server) is not None)
            killed = exporter_of(server)
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            send("second")
            until(lambda: exporter_of(server) not in (None, killed))
            send("third")
        # Rows wait for a file for up to a minute, or for the end.
        assert server.stop() == 0
    assert sent(out) == ["first", "second", "third"]
    gaps = [
        gap
        for file in (out / "segments").glob("store-*.json")
        for gap in json.loads(file.read_text())["gaps"]
    ]
    assert gaps == []


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    ended = run("log", "export", "--folder", "out", cwd=tmp_path)
    assert "There is no store" in complaint(ended, exit_codes.UNREADABLE)
    ended = run("log", "show", "--store", "memory:", cwd=tmp_path)
    assert "memory" in complaint(ended, exit_codes.USAGE)


def test_a_message_is_traced_in_the_store_and_in_an_export(tmp_path: Path) -> None:
    config = "[queues.archive]\n[topics.news.subscriptions.all]\n"
    config += 'forward_to = "archive"\n'
    (tmp_path / "bus.toml").write_text(config)
    with Serving("--config", "bus.toml", *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client, client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("x", message_id="n-1"))
            sender.send_messages(ServiceBusMessage("x", message_id="n-2"))
        in_store = ("trace", "n-1", "--data", "data", "--json")
        until(lambda: len(traced(in_store, tmp_path)) == len(WAY))
        assert traced(in_store, tmp_path) == WAY
        export = ("log", "export", "--data", "data", "--folder", "out")
        assert run(*export, cwd=tmp_path).returncode == 0
        assert traced(("trace", "n-1", "--log", "out", "--json"), tmp_path) == WAY
        nobody = run("trace", "nobody", "--data", "data", cwd=tmp_path)
        assert "'nobody'" in complaint(nobody, exit_codes.NOT_FOUND)


def test_a_message_is_traced_through_fragments_of_several_stores(
    tmp_path: Path,
) -> None:
    config = "[queues.archive]\nenable_partitioning = true\n"
    config += "[topics.news]\nenable_partitioning = true\n"
    config += '[topics.news.subscriptions.all]\nforward_to = "archive"\n'
    stores = ("--store", "sqlite:///one.sqlite3", "--store", "sqlite:///two.sqlite3")
    (tmp_path / "bus.toml").write_text(config)
    names = [f"n-{number}" for number in range(6)]
    with Serving("--config", "bus.toml", *stores, *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client, client.get_topic_sender("news") as sender:
            for name in names:
                # Keys that differ lead to fragments that differ.
                message = ServiceBusMessage("x", message_id=name, partition_key=name)
                sender.send_messages(message)
        for name in names:
            in_stores = ("trace", name, *stores, "--json")
            until(lambda it=in_stores: len(traced(it, tmp_path)) == len(WAY))
            assert sorted(traced(in_stores, tmp_path)) == sorted(WAY)
        # The catalog remembers where the stores are.
        assert sorted(traced(("trace", names[0], "--json"), tmp_path)) == sorted(WAY)
        shown = run("log", "show", "--last", "100", "--json", cwd=tmp_path)
        assert len({row["source"] for row in json.loads(shown.stdout)}) == 2
        export = ("log", "export", *stores, "--folder", "out")
        assert run(*export, cwd=tmp_path).returncode == 0
        for name in names:
            in_log = ("trace", name, "--log", "out", "--json")
            assert sorted(traced(in_log, tmp_path)) == sorted(WAY)
    rows = [row for row in rows_of(tmp_path / "out") if row["operation"] == "send"]
    assert len({row["fragment"] for row in rows}) > 1


@pytest.mark.parametrize("words", ["trace m", "log show", "brokers", "check"])
def test_looking_in_the_wrong_folder_makes_nothing(words: str, tmp_path: Path) -> None:
    assert run(*words.split(), cwd=tmp_path).returncode != exit_codes.OK
    assert list(tmp_path.iterdir()) == []


WAY = [
    ("send", "news"),
    ("arrive", "news/Subscriptions/all"),
    ("forward", "news/Subscriptions/all"),
    ("arrive", "archive"),
]


def traced(command: tuple[str, ...], folder: Path) -> list[tuple[str, str]]:
    done = run(*command, cwd=folder)
    events = json.loads(done.stdout)["events"]
    return [(one["operation"], one["entity"]) for one in events]
