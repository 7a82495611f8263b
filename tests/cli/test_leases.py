"""Reader leases are seen, by commands, metrics and the log, and can be ended."""

import http.client
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.cli.own_requests import ask_own

from .command import Serving, complaint, run

PORTS = ("--port", "0", "--http-port", "0", "--tls-port", "0")
LEASED = "'nightly' reads orders alone until "


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("leases")
    (folder / "bus.toml").write_text(
        "[queues.orders]\n[queues.spread]\nenable_partitioning = true\n"
    )
    with Serving("--config", "bus.toml", *PORTS, cwd=folder) as server:
        yield server


@pytest.fixture
def twinbus(serving: Serving, tmp_path: Path) -> Callable[..., Any]:
    def call(*arguments: str) -> Any:
        target = ("--connection-string", serving.connection_string)
        return run(*arguments, *target, cwd=tmp_path)

    return call


@pytest.fixture
def leased(serving: Serving) -> Iterator[Callable[..., dict[str, Any]]]:
    """Takes leases, which end with the test."""
    flags = {
        "connection_string": serving.connection_string,
        "data": None,
        "port": None,
    }
    held: list[dict[str, Any]] = []

    def take(path: str, reader: str = "nightly") -> dict[str, Any]:
        wanted = {"reader": reader, "entities": [{"path": path}]}
        given = {**wanted, "duration_ms": 60_000}
        [grant] = ask_own(flags, "POST", "/$bulk/lease", given)["leases"]
        held.append({"reader": reader, **grant})
        return held[-1]

    yield take
    for lease in held:
        entity = {"path": lease["path"], "epoch": lease["epoch"]}
        end = {"reader": lease["reader"], "release": True, "entities": [entity]}
        ask_own(flags, "POST", "/$bulk/lease", end)


def test_lease_is_shown_with_its_entity(
    twinbus: Callable[..., Any], leased: Callable[..., Any]
) -> None:
    assert "read alone by" not in twinbus("entities", "list").stdout
    leased("orders")
    listed = twinbus("entities", "list").stdout
    [line] = [line for line in listed.splitlines() if line.startswith("orders")]
    assert line.split()[-1] == "nightly"
    assert LEASED in twinbus("entities", "show", "orders").stdout
    shown = json.loads(twinbus("entities", "show", "orders", "--json").stdout)
    [lease] = shown["reader_leases"]
    assert (lease["path"], lease["reader"]) == ("orders", "nightly")


def test_leases_of_partitioned_and_dead_letter_queues_are_listed_once(
    twinbus: Callable[..., Any], leased: Callable[..., Any]
) -> None:
    assert twinbus("leases", "list").stdout == (
        "No reader holds a lease: all receivers are served.\n"
    )
    leased("spread")
    leased("orders/$DeadLetterQueue", "other")
    found = json.loads(twinbus("leases", "list", "--json").stdout)
    assert [(one["path"], one["reader"]) for one in found] == [
        ("orders/$DeadLetterQueue", "other"),
        ("spread", "nightly"),
    ]
    table = twinbus("leases", "list").stdout.splitlines()
    assert table[0].split() == ["entity", "reader", "until"]
    assert re.fullmatch(r"spread +nightly +\d{4}-.*", table[2])


def test_receivers_are_served_when_a_lease_is_ended(
    serving: Serving, twinbus: Callable[..., Any], leased: Callable[..., Any]
) -> None:
    leased("orders")
    client = ServiceBusClient.from_connection_string(serving.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("waits"))
        with client.get_queue_receiver("orders") as receiver:
            assert receiver.receive_messages(max_wait_time=0.5) == []
            ended = twinbus("leases", "end", "orders", "--yes")
            assert ended.stdout == "Ended the lease of 'orders' by 'nightly'.\n"
            [message] = receiver.receive_messages(max_wait_time=10)
            receiver.complete_message(message)
    assert "a receiver of 'orders' gets nothing: the reader 'nightly'" in serving.errors
    line = complaint(twinbus("leases", "end", "orders", "--yes"), 9)
    assert "No reader holds a lease of 'orders'" in line


def test_a_lease_is_not_ended_unasked(
    twinbus: Callable[..., Any], leased: Callable[..., Any]
) -> None:
    leased("orders")
    line = complaint(twinbus("leases", "end", "orders"), 2)
    assert "whether to end the lease of 'orders' by 'nightly': give --yes" in line
    assert len(json.loads(twinbus("leases", "list", "--json").stdout)) == 1


def test_metrics_say_how_long_a_lease_lasts(
    serving: Serving, leased: Callable[..., Any]
) -> None:
    leased("spread")
    parts = dict(
        part.partition("=")[::2] for part in serving.connection_string.split(";")
    )
    host = parts["Endpoint"].removeprefix("sb://").strip("/")
    key = f"{parts['SharedAccessKeyName']}:{parts['SharedAccessKey']}"
    connection = http.client.HTTPConnection(host)
    basic = f"Basic {b64encode(key.encode()).decode()}"
    connection.request("GET", "/metrics", headers={"authorization": basic})
    page = connection.getresponse().read().decode()
    connection.close()
    labels = '{entity="spread",reader="nightly"}'
    [value] = re.findall(
        rf"^twinbus_reader_lease_seconds{re.escape(labels)} (\S+)$", page, re.MULTILINE
    )
    assert 0 < float(value) <= 60
