"""`twinbus namespaces`: made, listed and removed by command; in the settings; backed
up; and there after a process was killed."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.cli import exit_codes
from twinbus.cli.namespace_tables import host_of

from .command import Serving, complaint, run

PORTS = ("--port", "0", "--http-port", "0", "--tls-port", "0")
CONFIG = """
[queues.orders]

[namespaces.shop]
key = "a key of the file"

[namespaces.shop.queues.orders]
max_delivery_count = 3

[[namespaces.shop.rules]]
key_name = "listener"
primary_key = "another key of the file"
rights = ["Listen"]
"""
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("namespaces")
    (folder / "bus.toml").write_text(CONFIG)
    with Serving("--config", "bus.toml", *PORTS, cwd=folder) as server:
        yield server


def command_of(serving: Serving, folder: Path) -> Command:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        target = ("--connection-string", serving.connection_string)
        return run("namespaces", *arguments, *target, cwd=folder)

    return call


@pytest.fixture
def namespaces(serving: Serving, tmp_path: Path) -> Command:
    return command_of(serving, tmp_path)


def answered(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def send(connection_string: str, queue: str, text: str = "x") -> None:
    with (
        ServiceBusClient.from_connection_string(
            connection_string, retry_total=0
        ) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(text))


def peeked(connection_string: str, queue: str) -> list[str]:
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        return [str(message) for message in receiver.peek_messages(10)]


def create_queue(connection_string: str, queue: str, folder: Path) -> None:
    ended = run(
        *("entities", "create", "queue", queue),
        *("--connection-string", connection_string),
        cwd=folder,
    )
    assert ended.returncode == 0, ended.stderr


def test_namespace_from_its_making_to_its_end(
    namespaces: Command, serving: Serving, tmp_path: Path
) -> None:
    made = answered(namespaces("create", "lab", "--own-port", "0", "--json"))
    assert made["name"] == "lab" and "root_rule" not in made
    text = made["connection_string"]
    create_queue(text, "orders", tmp_path)
    send(text, "orders", "for the lab")
    assert peeked(text, "orders") == ["for the lab"]
    listed = {one["name"]: one for one in answered(namespaces("list", "--json"))}
    assert listed.keys() == {"twinbus", "shop", "lab"}
    assert listed["lab"]["entities"] == {"queue": 1, "topic": 0, "subscription": 0}
    assert listed["twinbus"]["is_default"] and listed["shop"]["is_declared"]
    assert namespaces("delete", "lab", "--yes").stdout == (
        "Deleted the namespace 'lab'.\n"
    )
    with pytest.raises(ServiceBusError):
        send(text, "orders")
    gone = namespaces("show", "lab")
    assert "no namespace 'lab'" in complaint(gone, exit_codes.NOT_FOUND)


def test_key_is_printed_once_and_when_it_is_asked_for(namespaces: Command) -> None:
    printed = namespaces("create", "once").stdout
    assert "Endpoint=sb://once.localhost:" in printed and "SharedAccessKey=" in printed
    for ended in (namespaces("show", "once"), namespaces("list", "--json")):
        assert "SharedAccessKey=" not in ended.stdout
    assert printed == namespaces("show", "once", "--show-keys").stdout
    assert namespaces("delete", "once", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("create", "1st"), "cannot be the name of a namespace", exit_codes.USAGE),
        (("create", "shop"), "already", exit_codes.EXISTS),
        (("create", "twinbus"), "already", exit_codes.EXISTS),
        (("create", "x", "--own-port", "70000"), "of a port", exit_codes.USAGE),
        (("delete", "twinbus", "--yes"), "default namespace", exit_codes.USAGE),
        (("delete", "shop", "--yes"), "configuration file", exit_codes.USAGE),
        (("delete", "nobody", "--yes"), "'nobody'", exit_codes.NOT_FOUND),
        (("delete", "shop"), "give --yes", exit_codes.USAGE),
    ],
)
def test_refusals_say_why(
    namespaces: Command, arguments: tuple[str, ...], text: str, code: int
) -> None:
    assert text in complaint(namespaces(*arguments), code)


def test_port_that_is_in_use_is_refused(namespaces: Command, serving: Serving) -> None:
    ended = namespaces("create", "late", "--own-port", str(serving.port))
    assert "cannot listen at port" in complaint(ended, exit_codes.USAGE)
    assert "late" not in namespaces("list").stdout


def test_declared_one_has_its_entities_and_rules(
    namespaces: Command, serving: Serving, tmp_path: Path
) -> None:
    shown = answered(namespaces("show", "shop", "--show-keys", "--json"))
    assert "SharedAccessKey=a key of the file;" in shown["connection_string"]
    assert "sb://shop.localhost:" in shown["connection_string"]
    assert shown["entities"]["queue"] == 1


def test_host_of_a_namespace_is_beside_that_of_the_default_one() -> None:
    assert host_of("shop", "localhost", "twinbus") == "shop.localhost"
    assert host_of("shop", "twinbus.example.com", "Twinbus") == "shop.example.com"
    assert host_of("shop", "bus.example.com", "twinbus") == "shop.bus.example.com"
    assert host_of("shop", "192.168.0.7", "twinbus") == "shop.localhost"


def test_they_survive_a_kill_and_a_backup(tmp_path: Path) -> None:
    data = ("--data", "data")
    with Serving(*data, *PORTS, cwd=tmp_path) as server:
        call = command_of(server, tmp_path)
        kept = answered(call("create", "kept", "--own-port", "0", "--json"))
        answered(call("create", "gone", "--json"))
        text = kept["connection_string"]
        create_queue(text, "orders", tmp_path)
        send(text, "orders", "kept")
        assert call("delete", "gone", "--yes").returncode == 0
        # It is killed here, as every server of these tests is.
    with Serving(*data, *PORTS, cwd=tmp_path) as server:
        call = command_of(server, tmp_path)
        names = [one["name"] for one in answered(call("list", "--json"))]
        assert names == ["twinbus", "kept"]
        assert peeked(text, "orders") == ["kept"]
        saved = run("backup", "saved", *data, cwd=tmp_path)
        assert saved.returncode == 0, saved.stderr
    restored = run("restore", "saved", "--data", "again", cwd=tmp_path)
    assert restored.returncode == 0, restored.stderr
    with Serving("--data", "again", *PORTS, cwd=tmp_path):
        assert peeked(text, "orders") == ["kept"]


def test_lost_catalog_is_recovered_with_them(tmp_path: Path) -> None:
    data = ("--data", "data")
    with Serving(*data, *PORTS, cwd=tmp_path) as server:
        call = command_of(server, tmp_path)
        kept = answered(call("create", "kept", "--own-port", "0", "--json"))
        answered(call("create", "empty", "--json"))
        text = kept["connection_string"]
        create_queue(text, "orders", tmp_path)
        send(text, "orders", "kept")
        server.stop()
    for file in (tmp_path / "data").glob("catalog.sqlite3*"):
        file.unlink()
    recovered = run("recover", *data, cwd=tmp_path)
    assert recovered.returncode == 0, recovered.stderr
    with Serving(*data, *PORTS, cwd=tmp_path) as server:
        call = command_of(server, tmp_path)
        names = [one["name"] for one in answered(call("list", "--json"))]
        assert names == ["twinbus", "empty", "kept"]
        assert peeked(text, "orders") == ["kept"]
