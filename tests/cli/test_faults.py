"""`twinbus faults`, on a server that allows it and on one that does not (A1)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from .command import Serving, complaint, run

PORTS = ("--port", "0", "--http-port", "0", "--tls-port", "0")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Serving(*PORTS, "--allow-faults", cwd=tmp_path) as server:
        yield server


def here(serving: Serving, *arguments: str) -> tuple[str, ...]:
    return (*arguments, "--connection-string", serving.connection_string)


def test_fault_is_set_listed_and_cleared(serving: Serving, tmp_path: Path) -> None:
    run(*here(serving, "entities", "create", "queue", "orders"), cwd=tmp_path)
    done = run(
        *here(serving, "faults", "set", "refuse", "--operation", "send"),
        *("--entity", "ord*", "--for", "10m"),
        cwd=tmp_path,
    )
    assert (done.stdout, done.returncode) == ("Fault 1 is set.\n", 0), done.stderr
    client = ServiceBusClient.from_connection_string(
        serving.connection_string, retry_total=0
    )
    with client, client.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusError, match="twinbus faults clear 1"):
            sender.send_messages(ServiceBusMessage("refused"))
        table = run(*here(serving, "faults", "list"), cwd=tmp_path).stdout
        assert "refuse" in table
        assert "entity ord*" in table
        listed = run(*here(serving, "faults", "list", "--json"), cwd=tmp_path)
        (fault,) = json.loads(listed.stdout)
        assert (fault["number"], fault["operations"]) == (1, ["send"])
        cleared = run(*here(serving, "faults", "clear", "1"), cwd=tmp_path)
        assert cleared.stdout == "Cleared 1 fault.\n"
        sender.send_messages(ServiceBusMessage("taken"))
    assert (
        "No fault is set." in run(*here(serving, "faults", "list"), cwd=tmp_path).stdout
    )
    assert "fault 1 is set: refuse, send, entity ord*" in serving.errors
    assert "fault 1 is cleared" in serving.errors


def test_connections_can_be_refused_and_allowed_again(
    serving: Serving, tmp_path: Path
) -> None:
    run(
        *here(serving, "faults", "set", "refuse", "--operation", "connect"),
        cwd=tmp_path,
    )
    listing = here(serving, "entities", "list")
    assert run(*listing, cwd=tmp_path).returncode == 7
    run(*here(serving, "faults", "clear"), cwd=tmp_path)
    assert run(*listing, cwd=tmp_path).returncode == 0


def test_store_can_be_taken_away_and_comes_back(
    serving: Serving, tmp_path: Path
) -> None:
    created = here(serving, "entities", "create", "queue", "orders")
    run(*here(serving, "faults", "set", "gone"), cwd=tmp_path)
    assert run(*created, cwd=tmp_path).returncode == 1
    run(*here(serving, "faults", "clear"), cwd=tmp_path)
    while "is back" not in serving.errors:
        assert run(*here(serving, "entities", "list"), cwd=tmp_path).returncode == 0
    assert run(*created, cwd=tmp_path).returncode == 0
    assert serving.stop() == 0


def test_mistake_is_explained(serving: Serving, tmp_path: Path) -> None:
    ended = run(*here(serving, "faults", "set", "explode"), cwd=tmp_path)
    assert "expected one of refuse" in complaint(ended, 2)
    ended = run(*here(serving, "faults", "clear", "9"), cwd=tmp_path)
    assert "No fault has the number 9" in complaint(ended, 9)


def test_server_without_the_setting_names_it(tmp_path: Path) -> None:
    with Serving(*PORTS, cwd=tmp_path) as serving:
        ended = run(*here(serving, "faults", "list"), cwd=tmp_path)
        assert "--allow-faults" in complaint(ended, 9)
        wrong = serving.connection_string.replace(serving.key, "another-key-of-nobody")
        ended = run("faults", "list", "--connection-string", wrong, cwd=tmp_path)
        complaint(ended, 8)
