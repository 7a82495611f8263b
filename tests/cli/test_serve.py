"""`twinbus serve`: its output, its settings, and how it stops."""

import asyncio
import json
import signal
import sqlite3
import stat
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.sasl import plain
from twinbus.cli import exit_codes
from twinbus.client import ClientError, connect

from .command import Serving, run

# Listens where it is free, and on nothing well-known.
FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")

QUEUE = "[queues.orders]\nmax_delivery_count = 3\n"


def queues_of(server: Serving, cwd: Path) -> dict[str, int]:
    """The server's queues, and how often each delivers."""
    listing = run(
        "entities",
        *("list", "--json", "--connection-string", server.connection_string),
        cwd=cwd,
    )
    return {
        entity["path"]: entity["properties"]["max_delivery_count"]
        for entity in json.loads(listing.stdout)
    }


def test_what_it_prints_is_all_that_the_sdk_needs(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(QUEUE)
    with Serving("--config", "bus.toml", *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
            with client.get_queue_receiver("orders") as receiver:
                (message,) = receiver.receive_messages(max_wait_time=20)
                assert str(message) == "hello"
                receiver.complete_message(message)
        assert server.errors == ""


async def offered_by(server: Serving) -> set[str]:
    """What the bus says of itself when it opens a connection."""
    sasl = plain("RootManageSharedAccessKey", server.key)
    async with await connect("localhost", server.port, sasl=sasl) as connection:
        return {str(name) for name in connection.peer_properties}


@pytest.mark.parametrize(
    ("flags", "env", "names"),
    [
        ((), {}, {"product", "twinbus:extensions"}),
        (("--strict",), {}, set()),
        ((), {"TWINBUS_STRICT": "true"}, set()),
    ],
    ids=["default", "flag", "variable"],
)
def test_strict_offers_nothing_of_its_own(
    tmp_path: Path, flags: tuple[str, ...], env: dict[str, str], names: set[str]
) -> None:
    with Serving(*flags, *FREE, cwd=tmp_path, env=env) as server:
        assert asyncio.run(offered_by(server)) == names
        # The command line goes on reaching it.
        assert queues_of(server, tmp_path) == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with Serving(*FREE, cwd=tmp_path) as server:
        server.signal(number)
        assert server.ended() == exit_codes.OK
        assert server.errors == ""


async def accepted_until_stopped(server: Serving) -> list[int]:
    """Send many at once, stop the server meanwhile; returns what it accepted."""
    accepted: list[int] = []
    is_under_way = asyncio.Event()
    connection = await connect(
        "localhost", server.port, sasl=plain("RootManageSharedAccessKey", server.key)
    )
    sender = await connection.sender("orders")

    async def send(number: int) -> None:
        try:
            await sender.send(encode_message(Message(body=Data((b"%d" % number,)))))
        except ClientError:
            return  # the server ended the connection without an answer to this one
        accepted.append(number)
        if len(accepted) == 100:
            is_under_way.set()

    in_flight = [asyncio.create_task(send(number)) for number in range(1_000)]
    await is_under_way.wait()
    server.signal(signal.SIGTERM)
    await asyncio.gather(*in_flight)
    connection.abort()
    return accepted


async def test_stopping_finishes_what_was_accepted(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(QUEUE)
    arguments = ("--config", "bus.toml", *FREE)
    with Serving(*arguments, cwd=tmp_path) as server:
        accepted = await accepted_until_stopped(server)
        assert server.ended() == exit_codes.OK
    database = sqlite3.connect(tmp_path / "data" / "messages.sqlite3")
    (active,) = database.execute("SELECT sum(active_count) FROM fragment").fetchone()
    database.close()
    assert len(accepted) == active


def test_the_key_is_made_once_and_kept_secret(tmp_path: Path) -> None:
    with Serving(*FREE, cwd=tmp_path) as server:
        first = server.key
        server.stop()
    with Serving(*FREE, cwd=tmp_path) as server:
        assert server.key == first
        # What is printed is kept in logs.
        assert first not in "\n".join(server.lines)
        assert "<in data/root-key>" in server.printed_connection_string
        (command,) = (line for line in server.lines if "twinbus connection-" in line)
        wanted = command.removeprefix("With the key: twinbus ").split()
        assert run(*wanted, cwd=tmp_path).stdout.strip() == server.connection_string
    mode = stat.S_IMODE((tmp_path / "data" / "root-key").stat().st_mode)
    assert mode == 0o600


def test_flags_win_over_variables_and_they_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text('[server]\nkey = "file"\nport = 0\nhttp_port = 0\ntls_port = 0\n')
    of_flags = ("--config", file, "--key", "flag")
    with Serving(*of_flags, cwd=tmp_path, env={"TWINBUS_KEY": "variable"}) as server:
        assert accepted_keys(server) == {"flag"}
        server.stop()
    variables = {"TWINBUS_KEY": "variable", "TWINBUS_CONFIG": str(file)}
    with Serving(cwd=tmp_path, env=variables) as server:
        assert accepted_keys(server) == {"variable"}
        server.stop()
    with Serving("--config", file, cwd=tmp_path) as server:
        assert accepted_keys(server) == {"file"}


def accepted_keys(server: Serving) -> set[str]:
    """Which of the keys opens it; none of them is printed."""
    assert "<the key that was given>" in server.printed_connection_string

    async def opens(key: str) -> bool:
        sasl = plain("RootManageSharedAccessKey", key)
        try:
            async with await connect("localhost", server.port, sasl=sasl):
                return True
        except ClientError:
            return False

    return {key for key in ("flag", "variable", "file") if asyncio.run(opens(key))}


WARNED = """
[[rules]]
key_name = "worker"
rights = ["Listen"]
primary_key = "long enough for it"
secondary_key = "short"
[queues.orders]
authorization_rules = [{ key_name = "clerk", primary_key = "x", rights = ["Send"] }]
"""


def test_keys_that_can_be_guessed_or_read_are_warned_about(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(WARNED)
    with Serving("--config", "bus.toml", *FREE, "--key", "k", cwd=tmp_path) as server:
        (line,) = server.errors.splitlines()
        assert "warning: the key of RootManageSharedAccessKey, worker, clerk of" in line
        assert "'orders' has fewer than 12 characters" in line
        server.stop()
    with Serving(*FREE, cwd=tmp_path) as server:
        assert server.errors == ""
        server.stop()
    (tmp_path / "data" / "root-key").chmod(0o640)
    with Serving(*FREE, cwd=tmp_path) as server:
        assert "chmod 600 data/root-key" in server.errors


def test_the_emulators_own_key_is_not_warned_about(tmp_path: Path) -> None:
    with Serving(*FREE, "--key", "SAS_KEY_VALUE", cwd=tmp_path) as server:
        assert server.errors == ""


def test_the_emulators_file_makes_queues(tmp_path: Path) -> None:
    queue = {"Name": "orders", "Properties": {"MaxDeliveryCount": 7}}
    namespaces = [{"Name": "sbemulatorns", "Queues": [queue], "Topics": []}]
    document = {"UserConfig": {"Namespaces": namespaces, "Logging": {"Type": "File"}}}
    (tmp_path / "Config.json").write_text(json.dumps(document))
    with Serving("--config", "Config.json", *FREE, cwd=tmp_path) as server:
        assert queues_of(server, tmp_path) == {"orders": 7}


def test_the_next_start_follows_the_changed_file(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text(QUEUE + "[queues.gone]\n")
    with Serving("--config", file, *FREE, cwd=tmp_path) as server:
        assert queues_of(server, tmp_path) == {"orders": 3, "gone": 10}
        server.stop()
    file.write_text("[queues.orders]\nmax_delivery_count = 4\n")
    with Serving("--config", file, *FREE, cwd=tmp_path) as server:
        # A queue that the file no longer names is nobody's to delete.
        assert queues_of(server, tmp_path) == {"orders": 4, "gone": 10}


def test_the_memory_store_leaves_nothing_behind(tmp_path: Path) -> None:
    with Serving("--store", "memory:", *FREE, cwd=tmp_path) as server:
        assert server.stop() == exit_codes.OK
    assert {path.name for path in tmp_path.iterdir()} == {"stderr"}


def test_a_listener_for_the_network_is_warned_about(tmp_path: Path) -> None:
    with Serving("--host", "0.0.0.0", *FREE, cwd=tmp_path) as server:
        assert "plain TCP on 0.0.0.0 is open to the network" in server.errors
        assert server.connection_string.startswith("Endpoint=sb://localhost:")


def test_a_store_that_fails_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(QUEUE)
    with Serving("--config", "bus.toml", *FREE, cwd=tmp_path) as server:
        rival = sqlite3.connect(tmp_path / "data" / "messages.sqlite3")
        rival.execute("UPDATE lease SET epoch = epoch + 1")
        rival.commit()
        rival.close()
        client = ServiceBusClient.from_connection_string(
            server.connection_string, retry_total=0
        )
        # Whatever it commits first shows it, perhaps before the client is there.
        with pytest.raises(Exception, match=r"."), client:
            with client.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage("too late"))
        assert server.ended() == exit_codes.STORE_FAILED
        last = server.errors.splitlines()[-1]
        assert last.startswith("twinbus: The store can't go on: ")
        assert "Traceback" not in server.errors


def test_other_languages_read_two_lines(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text("[queues.orders]\n")
    flags = ("--store", "memory:", "--config", "bus.toml", "--print-connection-string")
    with Serving(*FREE, *flags, cwd=tmp_path) as server:
        text, ready = server.lines
        assert ready == "ready"
        with (
            ServiceBusClient.from_connection_string(text) as client,
            client.get_queue_sender("orders") as sender,
        ):
            sender.send_messages(ServiceBusMessage("hello"))
        assert server.stop() == exit_codes.OK


def test_key_that_was_made_before_is_printed_if_it_is_asked_for(tmp_path: Path) -> None:
    for _ in range(2):
        with Serving(*FREE, "--print-connection-string", cwd=tmp_path) as server:
            key = (tmp_path / "data" / "root-key").read_text().strip()
            assert f"SharedAccessKey={key};" in server.lines[0]
            assert len(server.lines) == 2
