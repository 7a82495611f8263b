"""`twinbus backup` and `twinbus restore`, of buses that run and are sent to."""

import json
import re
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)

from bench.postgres_server import PostgresServer
from twinbus.cli import exit_codes

from .command import Serving, complaint, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")
# The two are in different stores, where there are two: a message is on its way between
# them for a moment.
ENTITIES = """
[queues.in]
forward_to = "out"
[queues.out]
[queues.orders]
requires_session = true
[topics.news.subscriptions.all]
[[topics.news.subscriptions.some.rules]]
name = "blue"
sql_filter = "colour = 'blue'"
"""
SETUPS = ("one file", "two files", "two schemas")


class Place:
    """Where a bus is: its flags, one set for each bus of a test."""

    def __init__(self, setup: str, server: PostgresServer | None) -> None:
        self._setup = setup
        self._server = server
        self._prefix = f"b_{secrets.token_hex(6)}"

    def flags(self, name: str) -> tuple[str, ...]:
        if self._setup == "one file":
            return ("--data", name)
        if self._server is None:
            urls = [f"sqlite:///{name}-{number}.sqlite3" for number in (1, 2)]
            return ("--data", name, "--store", urls[0], "--store", urls[1])
        one, two, catalog = (
            self._server.url(f"{self._prefix}_{name}_{part}") for part in "abc"
        )
        stores = ("--store", one, "--store", two, "--catalog", catalog)
        return ("--data", name, *stores)


@pytest.fixture(params=SETUPS)
def place(request: pytest.FixtureRequest) -> Place:
    server = None
    if request.param == "two schemas":
        server = request.getfixturevalue("postgres_server")
    return Place(request.param, server)


class Sending:
    """Sends one message after the other, and knows which were confirmed."""

    def __init__(self, connection_string: str) -> None:
        self._text = connection_string
        self.confirmed: list[str] = []
        self._is_over = threading.Event()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with (
            ServiceBusClient.from_connection_string(self._text) as client,
            client.get_queue_sender("in") as sender,
        ):
            while not self._is_over.is_set():
                name = str(len(self.confirmed))
                sender.send_messages(ServiceBusMessage(name, message_id=name))
                self.confirmed.append(name)
                if len(self.confirmed) >= 100:
                    self._enough.set()

    def __enter__(self) -> "Sending":
        self._thread.start()
        assert self._enough.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def serving(cwd: Path, *flags: str) -> Iterator[Serving]:
    (cwd / "bus.toml").write_text(ENTITIES)
    with Serving("--config", "bus.toml", *FREE, *flags, cwd=cwd) as server:
        yield server
        assert server.stop() == exit_codes.OK


def connection(cwd: Path, server: Serving, *flags: str) -> str:
    where = [word for word in flags if word != "--store" and "://" not in word]
    if "--catalog" in flags:
        where += [flags[flags.index("--catalog") + 1]]
    match = re.search(r"localhost:(\d+);", server.printed_connection_string)
    assert match is not None
    asked = run("connection-string", "--port", match[1], *where, cwd=cwd)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.strip()


def done(cwd: Path, *arguments: str) -> dict[str, object]:
    ended = run(*arguments, "--json", cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def received(client: ServiceBusClient, queue: str) -> list[str]:
    with client.get_queue_receiver(
        queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        found = []
        while messages := receiver.receive_messages(500, max_wait_time=1):
            found += [str(message) for message in messages]
        return found


def fill(client: ServiceBusClient) -> None:
    """What else a bus has: sessions, dead letters, scheduled and deferred messages."""
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(
            [ServiceBusMessage(f"{n}", session_id=f"s{n % 2}") for n in range(4)]
        )
    with client.get_queue_receiver("orders", session_id="s0") as receiver:
        receiver.session.set_state(b"half way")
        first, second = receiver.receive_messages(2, max_wait_time=5)
        receiver.dead_letter_message(first, reason="bad")
        receiver.defer_message(second)
    with client.get_topic_sender("news") as sender:
        for colour in ("blue", "red"):
            message = ServiceBusMessage(
                colour, application_properties={"colour": colour}
            )
            sender.send_messages(message)


def check_filled(client: ServiceBusClient) -> None:
    with client.get_queue_receiver("orders", session_id="s0") as receiver:
        assert receiver.session.get_state() == b"half way"
        (deferred,) = receiver.receive_deferred_messages(3)
        assert str(deferred) == "2"
    with client.get_queue_receiver(
        "orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER
    ) as receiver:
        (dead,) = receiver.receive_messages(5, max_wait_time=5)
        assert (str(dead), dead.dead_letter_reason) == ("0", "bad")
    for name, colours in (("all", {"blue", "red"}), ("some", {"blue"})):
        with client.get_subscription_receiver("news", name) as receiver:
            messages = receiver.receive_messages(len(colours), max_wait_time=5)
            assert {str(message) for message in messages} == colours


def test_everything_confirmed_before_a_backup_is_in_the_restored_bus(
    place: Place, tmp_path: Path
) -> None:
    flags, others = place.flags("data"), place.flags("restored")
    with serving(tmp_path, *flags) as server:
        text = connection(tmp_path, server, *flags)
        with ServiceBusClient.from_connection_string(text) as client:
            fill(client)
        with Sending(text) as sending:
            for number in range(3):
                before = list(sending.confirmed)
                made = done(tmp_path, "backup", f"backup-{number}", *flags)
        count = len(sending.confirmed)
    assert made["messages"] > 0  # type: ignore[operator]

    restored = done(tmp_path, "restore", "backup-2", *others)
    assert restored["messages"] == made["messages"]
    checked = run("check", *others, cwd=tmp_path)
    assert "No damage was found." in checked.stdout, checked.stdout
    assert "note:" not in checked.stdout, checked.stdout
    with serving(tmp_path, *others) as server:
        text = connection(tmp_path, server, *others)
        with ServiceBusClient.from_connection_string(text) as client:
            check_filled(client)
            found = received(client, "out")
    assert set(before) <= set(found)
    assert max(Counter(found).values()) == 1
    assert len(found) <= count + 1


def test_restored_bus_has_another_identity(place: Place, tmp_path: Path) -> None:
    flags, others = place.flags("data"), place.flags("restored")
    with serving(tmp_path, *flags) as server:
        text = connection(tmp_path, server, *flags)
        with (
            ServiceBusClient.from_connection_string(text) as client,
            client.get_queue_sender("out") as sender,
        ):
            sender.send_messages(ServiceBusMessage("1"))
            made = done(tmp_path, "backup", "backup", *flags)
            done(tmp_path, "restore", "backup", *others)
            # Both run at the same time, and clients of the one know the key of both.
            with serving(tmp_path, *others) as twin:
                key = text.partition("SharedAccessKey=")[2].partition(";")[0]
                assert key in connection(tmp_path, twin, *others)
                address = connection(tmp_path, twin, *others)
                with (
                    ServiceBusClient.from_connection_string(address) as second,
                    second.get_queue_sender("out") as other_sender,
                    second.get_queue_receiver("out") as receiver,
                ):
                    other_sender.send_messages(ServiceBusMessage("2"))
                    found = []
                    while len(found) < 2:
                        found += receiver.receive_messages(2, max_wait_time=5)
    old, new = (one.sequence_number & (1 << 48) - 1 for one in found)
    assert [str(one) for one in found] == ["1", "2"]
    assert new - old >= 1 << 32
    shown = [
        set(done(tmp_path, "catalog", "show", *only_catalog(one))["stores"])  # type: ignore[call-overload]
        for one in (flags, others)
    ]
    assert not shown[0] & shown[1]
    assert len(shown[0]) == len(shown[1])
    if len(made["stores"]) > 1:  # type: ignore[arg-type]
        assert {one["uuid"] for one in made["stores"]} == shown[0]  # type: ignore[attr-defined]


def only_catalog(flags: tuple[str, ...]) -> tuple[str, ...]:
    pairs = list(zip(flags[::2], flags[1::2], strict=True))
    return tuple(word for pair in pairs if pair[0] != "--store" for word in pair)


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bus and its backup."""
    folder = tmp_path_factory.mktemp("backed-up")
    with serving(folder, "--data", "data"):
        done(folder, "backup", "backup")
    return folder


def test_existing_data_is_never_written_over(backed_up: Path, tmp_path: Path) -> None:
    backup = str(backed_up / "backup")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").write_text("mine")
    line = run("restore", backup, cwd=tmp_path).stderr.splitlines()[-1]
    assert "data is not empty (notes.txt)" in line
    (tmp_path / "a.sqlite3").write_text("mine")
    flags = ("--data", "new", "--store", "sqlite:///a.sqlite3")
    ended = run("restore", backup, *flags, cwd=tmp_path)
    assert ended.returncode == exit_codes.EXISTS
    assert (tmp_path / "a.sqlite3").read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_backup_does_not_write_over_another(backed_up: Path) -> None:
    ended = run("backup", "backup", cwd=backed_up)
    assert "backup is there already" in complaint(ended, exit_codes.USAGE)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _changed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("harm", [_cut, _changed, Path.unlink])
@pytest.mark.parametrize("name", ["store-1.sqlite3", "catalog.json", "root-key"])
def test_damaged_backup_is_not_restored(
    backed_up: Path, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    copy = tmp_path / "backup"
    copy.mkdir()
    for file in (backed_up / "backup").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    whole = run("restore", "backup", "--dry-run", cwd=tmp_path)
    assert "is whole" in whole.stdout, whole.stderr
    harm(copy / name)
    ended = run("restore", "backup", cwd=tmp_path)
    assert ended.returncode == exit_codes.DAMAGED
    assert name in ended.stderr.splitlines()[-1]
    assert not (tmp_path / "data").exists()


def test_changed_manifest_is_noticed(backed_up: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    text = (backed_up / "backup" / "manifest.json").read_text()
    changed = text.replace('"entity_count": ', '"entity_count": 1')
    assert changed != text
    (tmp_path / "backup" / "manifest.json").write_text(changed)
    ended = run("restore", "backup", cwd=tmp_path)
    assert "its digest is another" in complaint(ended, exit_codes.DAMAGED)


def test_stores_of_another_number_are_refused(backed_up: Path, tmp_path: Path) -> None:
    two = ("--store", "sqlite:///a.db", "--store", "sqlite:///b.db")
    ended = run("restore", str(backed_up / "backup"), *two, cwd=tmp_path)
    assert "The backup has these stores: sqlite." in complaint(ended, exit_codes.USAGE)


def test_store_that_was_not_named_is_missed(tmp_path: Path) -> None:
    flags = Place("two files", None).flags("data")
    with serving(tmp_path, *flags):
        ended = run("backup", "backup", *flags[:4], cwd=tmp_path)
    line = ended.stderr.splitlines()[-1]
    assert ended.returncode == exit_codes.USAGE
    assert "data-2.sqlite3, which is not among those that are backed up" in line
    assert not (tmp_path / "backup").exists()


def test_damaged_store_is_not_backed_up(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", "data"):
        pass
    with closing(sqlite3.connect(tmp_path / "data" / "messages.sqlite3")) as db, db:
        db.execute("UPDATE fragment SET active_count = active_count + 1")
    ended = run("backup", "backup", cwd=tmp_path)
    assert ended.returncode == exit_codes.UNREADABLE
    assert "is damaged, and is not backed up" in ended.stderr.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("bus.toml", "data", "stderr")
    ]
