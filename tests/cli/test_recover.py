"""`twinbus recover`: restores the entities of a lost catalog from the store.

One folder has an entity of every kind, made by a real bus and the official SDK. Each
test loses its catalog in one way, and checks what the bus serves afterwards.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.cli import exit_codes, main
from twinbus.testing import Bus, rule

from .command import Serving
from .test_lost_catalog import FREE, LOSSES

CATALOG = Path("data", "catalog.sqlite3")
STORE = Path("data", "messages.sqlite3")
LISTENER = AccessRule(key_name="reader", primary_key="secret", rights=("Listen",))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    kept = tmp_path_factory.mktemp("filled")
    with Bus() as bus:
        bus.stop()
        shutil.copy(bus.folder / "catalog.sqlite3", kept / "older.sqlite3")
        bus.start()
        bus.create_queue("target")
        bus.create_queue("orders", user_metadata="made", max_delivery_count=3)
        bus.update_queue(
            "orders",
            user_metadata="changed",
            forward_dead_lettered_messages_to="target",
            authorization_rules=[LISTENER],
        )
        bus.create_queue("letters", requires_session=True)
        bus.create_topic("events")
        bus.create_subscription("events", "all")
        bus.create_subscription(
            "events", "red", [rule("r", sql_filter="colour = 'red'")]
        )
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            _fill(client)
        bus.advance(2)
        bus.stop()
        shutil.copytree(bus.folder, kept / "data")
    yield kept


def _fill(client: ServiceBusClient) -> None:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(5)])
    with client.get_queue_sender("letters") as sender:
        sender.send_messages(ServiceBusMessage("of s", session_id="s"))
    with client.get_topic_sender("events") as sender:
        for colour in ("red", "blue"):
            properties: Any = {"colour": colour}
            sender.send_messages(
                ServiceBusMessage(colour, application_properties=properties)
            )
    with client.get_subscription_receiver("events", "all") as receiver:
        (first,) = receiver.receive_messages(1, max_wait_time=20)
        receiver.dead_letter_message(first, reason="bad")


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path


def recover(folder: Path, *flags: str) -> str:
    """What the command prints; in this process, because it is run often."""
    with redirect_stdout(StringIO()) as out:
        code = main.run(["recover", "--data", str(folder / "data"), *flags])
    assert code == exit_codes.OK
    return out.getvalue()


def content(folder: Path, file: Path = CATALOG) -> str:
    """Of a SQLite file, whatever its bytes are."""
    with closing(sqlite3.connect(folder / file)) as db:
        return "\n".join(db.iterdump())


def entities(folder: Path) -> list[Any]:
    """What the catalog says of all entities."""
    with closing(sqlite3.connect(folder / CATALOG)) as db:
        # Without versions: those of a catalog that was made again begin again.
        rows = db.execute("SELECT * FROM entity ORDER BY 1, 2").fetchall()
        return [row[:10] for row in rows]


@contextmanager
def client_of(folder: Path) -> Iterator[ServiceBusClient]:
    with Serving(*FREE, cwd=folder) as server:
        with ServiceBusClient.from_connection_string(
            server.connection_string
        ) as client:
            yield client
        assert server.stop() == exit_codes.OK


def bodies(receiver: ServiceBusReceiver) -> list[str]:
    with receiver:
        seen = receiver.peek_messages(50)
    return [b"".join(message.body).decode() for message in seen]


@pytest.mark.parametrize("lose", LOSSES)
def test_everything_is_as_it_was(
    filled: Path, folder: Path, lose: Callable[[Path], None]
) -> None:
    """Names, settings, access rules, ages; the catalog is the same row by row."""
    lose(folder)
    text = recover(folder)
    assert "queue 'orders' with 5 messages" in text
    assert "subscription 'events/Subscriptions/all' with 2 messages" in text
    assert entities(folder) == entities(filled)
    assert "lacks nothing" in recover(folder)


def test_messages_rules_sessions_and_dead_letters_are_served_again(
    folder: Path,
) -> None:
    (folder / CATALOG).unlink()
    recover(folder)
    with client_of(folder) as client:
        assert bodies(client.get_queue_receiver("orders")) == list("01234")
        letters = client.get_queue_receiver("letters", session_id="s")
        assert bodies(letters) == ["of s"]
        dead = client.get_subscription_receiver(
            "events", "all", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        )
        assert bodies(dead) == ["red"]
        with client.get_topic_sender("events") as sender:
            for colour in ("red", "green"):
                properties: Any = {"colour": colour}
                sender.send_messages(
                    ServiceBusMessage(colour, application_properties=properties)
                )
        red = client.get_subscription_receiver("events", "red")
        assert bodies(red) == ["red", "red"]
        with client.get_queue_receiver("orders") as receiver:
            (message,) = receiver.receive_messages(1, max_wait_time=20)
            receiver.dead_letter_message(message)
        target = client.get_queue_receiver("target", max_wait_time=20)
        with target:
            assert len(target.receive_messages(1)) == 1


def test_a_folder_that_lacks_nothing_stays_as_it_is(folder: Path) -> None:
    before = content(folder), content(folder, STORE)
    assert "lacks nothing" in recover(folder)
    assert json.loads(recover(folder, "--json"))["entities"] == []
    assert (content(folder), content(folder, STORE)) == before


def test_a_dry_run_changes_nothing_and_says_what_would_be(folder: Path) -> None:
    (folder / CATALOG).unlink()
    before = content(folder, STORE)
    assert "would be recovered" in recover(folder, "--dry-run")
    told = json.loads(recover(folder, "--dry-run", "--json"))
    assert not (folder / CATALOG).exists()
    assert content(folder, STORE) == before
    done = json.loads(recover(folder, "--json"))
    assert done == {**told, "is_dry_run": False}
    (orders,) = [one for one in done["entities"] if one["path"] == "orders"]
    assert (orders["kind"], orders["message_count"]) == ("queue", 5)
    assert orders["recovered"] == "as it was"


def test_an_unreadable_catalog_is_set_aside(folder: Path) -> None:
    (folder / CATALOG).write_bytes(b"precious")
    aside = json.loads(recover(folder, "--json"))["catalog_set_aside"]
    assert (folder / aside).read_bytes() == b"precious"


def test_a_store_of_before_comes_back_under_other_names(folder: Path) -> None:
    """It has no records of its entities, and is of format 3."""
    (folder / CATALOG).unlink()
    with closing(sqlite3.connect(folder / STORE, isolation_level=None)) as db:
        db.execute("DROP TABLE entity")
        db.execute("UPDATE meta SET format_version = 3, min_reader_version = 3")
    done = json.loads(recover(folder, "--json"))["entities"]
    assert {one["kind"] for one in done} == {"queue"}
    assert {one["recovered"] for one in done} == {"renamed"}
    by_count = {one["message_count"]: one["path"] for one in done}
    assert by_count[5].startswith("recovered-")
    with client_of(folder) as client:
        assert bodies(client.get_queue_receiver(by_count[5])) == list("01234")


def test_an_older_catalog_keeps_what_it_says_and_gets_the_rest(folder: Path) -> None:
    """A queue that was deleted since comes back empty; one that was made anew since
    is that of the store."""
    with closing(sqlite3.connect(folder / CATALOG, isolation_level=None)) as db:
        db.execute("DELETE FROM entity WHERE path = 'events'")
        row = db.execute("SELECT * FROM entity WHERE path = 'orders'").fetchone()
        deleted = ["gone" if value == "orders" else value for value in row]
        deleted[5] = bytes(16)
        older = [bytes([1]) * 16 if value == row[5] else value for value in row]
        for made in (deleted, older):
            marks = ", ".join("?" * len(made))
            db.execute(f"INSERT OR REPLACE INTO entity VALUES ({marks})", made)
    done = json.loads(recover(folder, "--json"))["entities"]
    told = {one["path"]: (one["recovered"], one["message_count"]) for one in done}
    assert told["gone"] == ("empty", 0)
    assert told["orders"] == ("as it was", 5)
    assert told["events"][0] == "as it was"
    with client_of(folder) as client:
        assert bodies(client.get_queue_receiver("gone")) == []
        assert bodies(client.get_queue_receiver("orders")) == list("01234")


# --- refusals ---------------------------------------------------------------------


def refusal(folder: Path, *flags: str, code: int) -> str:
    out, errors = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        ended = main.run(["recover", "--data", str(folder / "data"), *flags])
    (line,) = errors.getvalue().splitlines()
    assert ended == code, line
    assert out.getvalue() == ""
    return line


def test_a_bus_that_runs_is_not_disturbed(folder: Path) -> None:
    with Serving(*FREE, cwd=folder) as server:
        for flags in ((), ("--dry-run",)):
            line = refusal(folder, *flags, code=exit_codes.IN_USE)
            assert f"process {server.pid}" in line
        assert server.stop() == exit_codes.OK


def test_the_catalog_of_another_store_is_left_alone(folder: Path) -> None:
    with closing(sqlite3.connect(folder / STORE, isolation_level=None)) as db:
        db.execute("UPDATE meta SET store_uuid = randomblob(16)")
    before = content(folder)
    line = refusal(folder, code=exit_codes.UNREADABLE)
    assert "in another store" in line
    assert content(folder) == before


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    assert "--data" in refusal(tmp_path, code=exit_codes.USAGE)
    (tmp_path / "data").mkdir()
    line = refusal(tmp_path, code=exit_codes.UNREADABLE)
    assert f"no message store {tmp_path / STORE}" in line
    memory = refusal(tmp_path, "--store", "memory:", code=exit_codes.USAGE)
    assert "keeps nothing" in memory


def test_a_newer_catalog_is_not_set_aside(folder: Path) -> None:
    with closing(sqlite3.connect(folder / CATALOG, isolation_level=None)) as db:
        db.execute("UPDATE meta SET format_version = 99, min_reader_version = 99")
    assert "newer twinbus" in refusal(folder, code=exit_codes.UNREADABLE)
    assert (folder / CATALOG).exists()


def test_steps_are_rolled_back_with_a_look(folder: Path) -> None:
    """A look at a store of an older format does not bring it to the newer one."""
    with closing(sqlite3.connect(folder / STORE, isolation_level=None)) as db:
        db.execute("DROP TABLE entity")
        db.execute("UPDATE meta SET format_version = 3, min_reader_version = 3")
    before = content(folder, STORE)
    assert "lacks nothing" in recover(folder)
    assert content(folder, STORE) == before
