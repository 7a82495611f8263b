"""`twinbus entities`: manages the entities of a server."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.free_port import free_port
from twinbus.cli import exit_codes

from .command import PATIENCE_SECONDS, Serving, complaint, environment, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "bus.toml").write_text(
        '[[rules]]\nkey_name = "sender"\nprimary_key = "k"\nrights = ["Send"]\n'
    )
    free = ("--port", "0", "--http-port", "0", "--tls-port", "0")
    with Serving("--config", "bus.toml", *free, cwd=folder) as running:
        yield running


@pytest.fixture
def entities(server: Serving, tmp_path: Path) -> Any:
    """Runs `twinbus entities` against the server."""

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {"TWINBUS_CONNECTION_STRING": server.connection_string}
        return run("entities", *arguments, cwd=tmp_path, env=variables)

    return ask


def succeeded(ended: subprocess.CompletedProcess[str]) -> Any:
    """What a command with --json said."""
    assert (ended.returncode, ended.stderr) == (exit_codes.OK, "")
    return json.loads(ended.stdout)


def test_a_queue_from_its_making_to_its_end(entities: Any) -> None:
    made = succeeded(
        entities(
            *("create", "queue", "life", "--json"),
            *("--lock-duration", "30s", "--max-delivery-count", "3"),
            *("--default-message-time-to-live", "PT1H"),
            *("--dead-lettering-on-message-expiration",),
            *("--max-size-in-megabytes", "2048"),
            *("--max-message-size-in-kilobytes", "64"),
            *("--requires-session", "--requires-duplicate-detection"),
            *("--duplicate-detection-history-time-window", "1m"),
            *("--auto-delete-on-idle", "1d", "--forward-dead-lettered-messages-to", ""),
            *("--status", "SendDisabled", "--user-metadata", "mine"),
        )
    )
    assert made["path"] == "life"
    assert made["kind"] == "queue"
    assert made["properties"] == {
        "lock_duration_ms": 30_000,
        "max_size_in_megabytes": 2048,
        "default_message_time_to_live_ms": 3_600_000,
        "dead_lettering_on_message_expiration": True,
        "max_delivery_count": 3,
        "max_message_size_in_kilobytes": 64,
        "enable_batched_operations": True,
        "status": "SendDisabled",
        "user_metadata": "mine",
        "authorization_rules": [],
        "requires_session": True,
        "requires_duplicate_detection": True,
        "duplicate_detection_history_time_window_ms": 60_000,
        "forward_to": "",
        "forward_dead_lettered_messages_to": "",
        "auto_delete_on_idle_ms": 86_400_000,
        "enable_partitioning": False,
        "enable_express": False,
    }
    zero = {"active": 0, "deferred": 0, "scheduled": 0, "dead_letter": 0}
    assert (made["counts"], made["size_bytes"]) == (zero, 0)
    assert succeeded(entities("show", "life", "--json")) == made
    assert made in succeeded(entities("list", "--json"))

    changed = succeeded(
        entities(
            *("update", "life", "--json", "--status", "Active"),
            *("--default-message-time-to-live", "unlimited"),
            "--no-dead-lettering-on-message-expiration",
        )
    )
    assert changed["properties"] == {
        **made["properties"],
        "status": "Active",
        "default_message_time_to_live_ms": 0,
        "dead_lettering_on_message_expiration": False,
    }
    deleted = succeeded(entities("delete", "life", "--yes", "--json"))
    assert deleted == {"deleted": "life"}
    complaint(entities("show", "life"), exit_codes.NOT_FOUND)


def test_a_topic_with_its_subscription_and_rules(entities: Any) -> None:
    topic = succeeded(
        entities(
            "create", "topic", "news", "--default-message-time-to-live", "7d", "--json"
        )
    )
    assert (topic["path"], topic["kind"]) == ("news", "topic")
    assert topic["properties"]["default_message_time_to_live_ms"] == 604_800_000
    path = "news/Subscriptions/eu"
    made = succeeded(
        entities(
            "create", "subscription", "news", "eu", "--lock-duration", "5s", "--json"
        )
    )
    assert (made["path"], made["kind"]) == (path, "subscription")
    assert [rule["name"] for rule in made["rules"]] == ["$Default"]
    sql = succeeded(
        entities(
            *("create", "rule", "news", "eu", "large", "--json"),
            *("--sql-filter", "total > 100", "--action", "SET large = TRUE"),
        )
    )
    assert sql["path"] == f"{path}/Rules/large"
    assert sql["rule"]["filter"]["text"] == "total > 100"
    assert sql["rule"]["action"]["text"] == "SET large = TRUE"
    correlation = succeeded(
        entities(
            *("create", "rule", "news", "eu", "match", "--json"),
            *("--correlation", "label=eu", "--correlation", "colour=red"),
        )
    )
    assert correlation["rule"]["filter"]["fields"] == {"label": "eu"}
    assert correlation["rule"]["filter"]["properties"] == {"colour": ["string", "red"]}
    shown = entities("show", path).stdout.splitlines()
    rows = [" ".join(line.split()) for line in shown]
    assert "rule $Default every message" in rows
    assert "rule large total > 100" in rows
    assert "rule match label=eu, colour=red" in rows
    rule = entities("show", f"{path}/rules/LARGE").stdout
    assert "SET large = TRUE" in rule
    listed = succeeded(entities("list", "--json"))
    paths = [item["path"] for item in listed]
    assert paths.index("news") + 1 == paths.index(path)
    line = complaint(entities("delete", f"{path}/Rules/large"), exit_codes.USAGE)
    assert f"whether to delete the rule '{path}/Rules/large': give --yes" in line
    for each in (f"{path}/Rules/large", path, "news"):
        deleted = succeeded(entities("delete", each, "--yes", "--json"))
        assert deleted == {"deleted": each}
        complaint(entities("show", each), exit_codes.NOT_FOUND)


def test_messages_that_a_rule_cannot_judge_may_pass_by(entities: Any) -> None:
    entities("create", "topic", "odd")
    flag = "dead-lettering-on-filter-evaluation-exceptions"
    made = succeeded(
        entities("create", "subscription", "odd", "all", f"--no-{flag}", "--json")
    )
    name = flag.replace("-", "_")
    assert made["properties"][name] is False
    path = "odd/Subscriptions/all"
    changed = succeeded(entities("update", path, f"--{flag}", "--json"))
    assert changed["properties"][name] is True


def test_what_an_entity_has_not_cannot_be_changed(entities: Any) -> None:
    entities("create", "topic", "loud")
    ended = entities("update", "loud", "--lock-duration", "5s")
    line = complaint(ended, exit_codes.USAGE)
    assert "'loud' has no property 'lock_duration_ms'" in line
    changed = succeeded(entities("update", "loud", "--status", "Disabled", "--json"))
    assert changed["properties"]["status"] == "Disabled"


def test_tables_are_for_people(entities: Any) -> None:
    name = "sales/" + "eu-" * 60 + "1"
    made = entities("create", "queue", name, "--lock-duration", "90s")
    assert made.returncode == exit_codes.OK
    rows = [line.split() for line in made.stdout.splitlines()]
    assert ["name", name] in rows
    assert ["lock_duration", "1m30s"] in rows
    assert ["default_message_time_to_live", "unlimited"] in rows
    listing = entities("list").stdout.splitlines()
    assert listing[0].split()[:4] == ["name", "kind", "status", "active"]
    assert any(line.split()[:3] == [name, "queue", "Active"] for line in listing)


def test_what_is_there_already(entities: Any) -> None:
    assert entities("create", "queue", "twice").returncode == exit_codes.OK
    line = complaint(entities("create", "queue", "TWICE"), exit_codes.EXISTS)
    assert "'TWICE' already exists" in line


@pytest.mark.parametrize("command", [("show",), ("update", "--status", "Active")])
def test_what_is_not_there(entities: Any, command: tuple[str, ...]) -> None:
    ended = entities(command[0], "nowhere", *command[1:])
    line = complaint(ended, exit_codes.NOT_FOUND)
    assert "'nowhere' could not be found. 'twinbus entities list' shows" in line


def test_what_has_the_name_may_be_something_else(entities: Any) -> None:
    entities("create", "queue", "jobs")
    ended = entities("create", "subscription", "jobs", "all")
    line = complaint(ended, exit_codes.NOT_FOUND)
    assert "'jobs' could not be found. A queue has this name." in line


def test_rules_are_looked_for_at_their_subscription(entities: Any) -> None:
    entities("create", "topic", "paper")
    entities("create", "subscription", "paper", "all")
    line = complaint(
        entities("show", "paper/Subscriptions/all/Rules/r"), exit_codes.NOT_FOUND
    )
    assert "'twinbus entities show paper/Subscriptions/all' shows the rules" in line
    rule = "paper/Subscriptions/all/Rules/$Default"
    ended = entities("update", rule, "--status", "Active")
    assert "Delete it and create it anew" in complaint(ended, exit_codes.USAGE)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("create", "queue", "bad$name"), "'bad$name' is not a valid entity path"),
        (("create", "queue", "q", "--lock-duration", "1s"), "from 5000 ms to 300"),
        (("create", "queue", "q", "--lock-duration", "x"), "is not a duration"),
        (("create", "queue", "q", "--status", "Off"), "must be one of Active"),
        (("create", "queue"), "Missing argument 'NAME'"),
        (("update", "q"), "There is nothing to change in 'q'"),
        (("create", "stream", "s"), "No such command 'stream'"),
        (
            ("create", "rule", "t", "s", "r", "--sql-filter", "a = = 1"),
            "line 1, column 5",
        ),
        (("create", "rule", "t", "s", "r", "--correlation", "x"), "not NAME=VALUE"),
        (
            (
                *("create", "rule", "t", "s", "r"),
                *("--correlation", "x=1", "--sql-filter", "x = 1"),
            ),
            "--sql-filter or --correlation, not both",
        ),
    ],
)
def test_what_cannot_be_meant(
    entities: Any, arguments: tuple[str, ...], text: str
) -> None:
    assert text in complaint(entities(*arguments), exit_codes.USAGE)


def test_deleting_unasked_needs_a_word(entities: Any) -> None:
    assert entities("create", "queue", "kept").returncode == exit_codes.OK
    line = complaint(entities("delete", "kept"), exit_codes.USAGE)
    assert "the queue 'kept' and its 0 messages: give --yes" in line
    assert entities("show", "kept").returncode == exit_codes.OK


@pytest.mark.parametrize(
    ("answer", "code"), [(b"y\n", exit_codes.OK), (b"n\n", exit_codes.FAILED)]
)
def test_at_a_terminal_deleting_asks(
    entities: Any, server: Serving, answer: bytes, code: int
) -> None:
    entities("create", "queue", "asked")
    terminal, other_end = pty.openpty()
    os.write(terminal, answer)
    variables = {"TWINBUS_CONNECTION_STRING": server.connection_string}
    ended = subprocess.run(
        [sys.executable, "-m", "twinbus", "entities", "delete", "asked"],
        env=environment(variables),
        stdin=other_end,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    os.close(terminal)
    os.close(other_end)
    assert ended.returncode == code
    assert "Delete the queue 'asked' and its 0 messages?" in ended.stderr
    is_there = entities("show", "asked").returncode == exit_codes.OK
    assert is_there is (code != exit_codes.OK)


def test_some_of_many_are_listed(entities: Any) -> None:
    for name in ("some-1", "some-2", "other"):
        assert entities("create", "queue", name).returncode == exit_codes.OK
    listed = json.loads(entities("list", "some-*", "OTHER", "--json").stdout)
    assert [one["path"] for one in listed] == ["other", "some-1", "some-2"]
    assert entities("list", "zzz*").stdout == "No entity matches.\n"
    line = complaint(entities("list", "othe"), exit_codes.NOT_FOUND)
    assert "Did you mean 'other'?" in line


def test_no_server(tmp_path: Path) -> None:
    port = str(free_port())
    ended = run(
        *("entities", "list", "--port", port), cwd=tmp_path, env={"TWINBUS_KEY": "k"}
    )
    line = complaint(ended, exit_codes.UNREACHABLE)
    assert f"No server answers at localhost:{port}" in line
    assert "start one with 'twinbus serve'" in line


def test_the_server_of_this_machine_needs_no_connection_string(
    server: Serving, tmp_path: Path
) -> None:
    wanted = ("entities", "list", "--json", "--port", str(server.port))
    line = complaint(run(*wanted, cwd=tmp_path), exit_codes.USAGE)
    assert "data/root-key: No such file or directory" in line
    assert "--data" in line
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "root-key").write_text(server.key + "\n")
    assert isinstance(succeeded(run(*wanted, cwd=tmp_path)), list)


def test_a_wrong_key_and_one_without_the_right(server: Serving, tmp_path: Path) -> None:
    wanted = ("entities", "list", "--connection-string")
    wrong = server.connection_string.replace(server.key, "wrong")
    line = complaint(run(*wanted, wrong, cwd=tmp_path), exit_codes.UNAUTHORIZED)
    assert "does not know the key 'RootManageSharedAccessKey'" in line
    weak = server.connection_string.replace(server.key, "k")
    weak = weak.replace("RootManageSharedAccessKey", "sender")
    line = complaint(run(*wanted, weak, cwd=tmp_path), exit_codes.UNAUTHORIZED)
    assert "The key 'sender' lacks the Manage right on the namespace" in line


def test_half_a_connection_string(tmp_path: Path) -> None:
    wanted = ("entities", "list", "--connection-string", "Endpoint=sb://localhost")
    line = complaint(run(*wanted, cwd=tmp_path), exit_codes.USAGE)
    assert "SharedAccessKeyName and SharedAccessKey" in line


def test_a_partitioned_queue_shows_its_fragments(entities: Any) -> None:
    made = succeeded(
        entities("create", "queue", "spread", "--enable-partitioning", "--json")
    )
    assert made["properties"]["enable_partitioning"]
    assert made["properties"]["max_size_in_megabytes"] == 16 * 1024
    shown = succeeded(entities("show", "spread", "--json"))
    assert shown["is_available"]
    assert [one["index"] for one in shown["fragments"]] == list(range(16))
    assert {one["state"] for one in shown["fragments"]} == {"serving"}
    assert shown["fragments"][1]["next"] == (1 << 48) + 1
    table = entities("show", "spread")
    assert "fragment 15" in table.stdout
