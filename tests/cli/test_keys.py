"""`twinbus keys`: rules of the namespace and of entities, by command."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from twinbus.cli import exit_codes

from .command import Serving, complaint, run

PORTS = ("--port", "0", "--http-port", "0", "--tls-port", "0")
CONFIG = """
[[rules]]
key_name = "fixed"
primary_key = "a key of the file"
rights = ["Listen"]
[queues.orders]
[queues.other]
[topics.news.subscriptions.all]
"""
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "bus.toml").write_text(CONFIG)
    with Serving("--config", "bus.toml", *PORTS, cwd=folder) as server:
        yield server


@pytest.fixture
def keys(serving: Serving, tmp_path: Path) -> Command:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        target = ("--connection-string", serving.connection_string)
        return run("keys", *arguments, *target, cwd=tmp_path)

    return call


def answered(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def send(connection_string: str, queue: str) -> None:
    with (
        ServiceBusClient.from_connection_string(
            connection_string, retry_total=0
        ) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_key_of_an_entity_from_its_making_to_its_end(keys: Command) -> None:
    named = ("shop", "--entity", "orders")
    shown = ("--show-keys", "--json")
    made = answered(keys("create", *named, "--right", "send", *shown))
    assert (made["rights"], made["entity_path"]) == (["Send"], "orders")
    primary, secondary = (
        made[f"{which}_connection_string"] for which in ("primary", "secondary")
    )
    send(primary, "orders")
    send(secondary, "orders")
    # The SDK itself refuses another entity than that of the string.
    with pytest.raises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
        send(primary.replace("EntityPath=orders;", ""), "other")
    renewed = answered(keys("regenerate", *named, "--key", "primary", *shown))
    assert renewed["secondary_connection_string"] == secondary
    with pytest.raises(ServiceBusAuthenticationError):
        send(primary, "orders")
    send(renewed["primary_connection_string"], "orders")
    assert keys("delete", *named, "--yes").stdout == "Deleted the rule 'shop'.\n"
    with pytest.raises(ServiceBusAuthenticationError):
        send(secondary, "orders")


def test_keys_are_shown_only_if_that_is_asked_for(keys: Command) -> None:
    made = keys("create", "quiet", "--right", "Manage")
    shown = answered(keys("list", "--show-keys", "--json"))
    secrets = [rule[f"{which}_key"] for rule in shown for which in ("primary",)]
    assert all(len(secret) > 10 for secret in secrets)
    for ended in (made, keys("list"), keys("list", "--json")):
        assert ended.returncode == 0
        assert not [secret for secret in secrets if secret in ended.stdout]
        assert "SharedAccessKey=" not in ended.stdout
    printed = keys("list", "--show-keys").stdout
    assert all(f"SharedAccessKey={secret};" in printed for secret in secrets)


def test_rules_of_the_settings_are_marked_and_kept(keys: Command) -> None:
    rules = {rule["key_name"]: rule for rule in answered(keys("list", "--json"))}
    assert rules["fixed"]["is_fixed"]
    assert rules["RootManageSharedAccessKey"]["is_fixed"]
    for command in (
        ("delete", "fixed", "--yes"),
        ("regenerate", "RootManageSharedAccessKey", "--key", "secondary"),
        ("create", "fixed", "--right", "Send"),
    ):
        line = complaint(keys(*command), exit_codes.FAILED)
        assert "comes from the settings of the server" in line


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (("create", "x", "--right", "Fly"), exit_codes.USAGE, "'Fly' is not a right"),
        (("create", "x"), exit_codes.USAGE, "Missing option '--right'"),
        (
            ("regenerate", "x", "--key", "third"),
            exit_codes.USAGE,
            "'primary' or 'secondary'",
        ),
        (
            ("delete", "nobody", "--yes"),
            exit_codes.NOT_FOUND,
            "has no authorization rule 'nobody'. 'twinbus keys list' shows",
        ),
        (("delete", "nobody"), exit_codes.USAGE, "give --yes"),
        (("list", "--entity", "nothing"), exit_codes.NOT_FOUND, "could not be found"),
        (
            ("create", "x", "--entity", "news/Subscriptions/all", "--right", "Send"),
            exit_codes.USAGE,
            "rules of its topic apply",
        ),
    ],
)
def test_mistakes_are_told(
    keys: Command, command: tuple[str, ...], code: int, text: str
) -> None:
    assert text in complaint(keys(*command), code)


def test_name_is_used_once(keys: Command) -> None:
    create = ("create", "twice", "--entity", "news", "--right", "Listen")
    assert keys(*create).returncode == 0
    assert "already has" in complaint(keys(*create), exit_codes.EXISTS)
    listed = answered(keys("list", "--entity", "news", "--json"))
    assert [rule["key_name"] for rule in listed] == ["twice"]


def test_rules_are_there_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "bus.toml").write_text(CONFIG)
    arguments = ("--config", "bus.toml", *PORTS)
    with Serving(*arguments, cwd=tmp_path) as server:
        target = ("--connection-string", server.connection_string)
        create = ("keys", "create", "all-over", "--right", "Send", "--json")
        made = answered(run(*create, "--show-keys", *target, cwd=tmp_path))
    with Serving(*arguments, cwd=tmp_path) as server:
        port = made["primary_connection_string"].partition(";")[0].rpartition(":")[2]
        now = server.connection_string.partition(";")[0].rpartition(":")[2]
        send(made["primary_connection_string"].replace(port, now, 1), "orders")
