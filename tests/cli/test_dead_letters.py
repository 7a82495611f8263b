"""`twinbus dead-letters`: lists, resubmits and removes dead letters."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from twinbus.cli import exit_codes

from .command import PATIENCE_SECONDS, Serving, complaint, environment, run
from .pairs import NAME, QUEUES, client_of, divert, served, variables

NEWS = "news"
ALL, OTHER = "news/Subscriptions/all", "news/Subscriptions/other"
IN_ORDER = ["one", "two", "three"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bus") / "bus"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    plain = ("orders", "asked", "chosen", "gone", "empty")
    declared = {path: "" for path in (*QUEUES, *plain)}
    declared["unique"] = "requires_duplicate_detection = true"
    with served(folder, **declared) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Serving) -> Iterator[Any]:
    with client_of(server) as opened:
        yield opened


@pytest.fixture
def known(server: Serving, folder: Path) -> dict[str, str]:
    """What commands are told by variables."""
    text = server.connection_string
    return variables(text, text, folder) | {"TWINBUS_CONNECTION_STRING": text}


@pytest.fixture
def command(known: dict[str, str], tmp_path: Path) -> Any:
    """Runs `twinbus dead-letters` against the server."""

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run("dead-letters", *arguments, cwd=tmp_path, env=known)

    return ask


def told(ended: subprocess.CompletedProcess[str]) -> Any:
    assert (ended.returncode, ended.stderr) == (exit_codes.OK, "")
    return json.loads(ended.stdout)


def bury(client: Any, queue: str, count: int, reason: str = "Impossible") -> None:
    """Dead-letter so many messages of a queue."""
    with client.get_queue_receiver(queue) as receiver:
        while count:
            [message] = receiver.receive_messages(1, max_wait_time=20)
            receiver.dead_letter_message(
                message, reason=reason, error_description=f"{reason}\x1b[2J, twice"
            )
            count -= 1


def bodies(client: Any, queue: str, sub_queue: Any = None) -> list[str]:
    with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
        return [str(message) for message in receiver.peek_messages(50)]


def fill(client: Any, queue: str, *texts: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for text in texts:
            sender.send_messages(
                ServiceBusMessage(
                    text, message_id=f"id of {text}", application_properties={"n": 1}
                )
            )
    bury(client, queue, len(texts))


def test_dead_letters_are_listed_with_their_reasons(command: Any, client: Any) -> None:
    fill(client, "orders", "a unicorn", "a dragon")
    found = told(command("list", "orders", "--json"))
    assert [item["message_id"] for item in found] == [
        "id of a unicorn",
        "id of a dragon",
    ]
    assert found[0]["reason"] == "Impossible"
    assert found[0]["description"] == "Impossible\x1b[2J, twice"
    assert (found[0]["entity"], found[0]["path"]) == ("orders", "")
    assert 0 <= found[0]["age_ms"] < 60_000
    assert found[0]["message"]["body"] == "a unicorn"
    assert found[0]["message"]["application_properties"] == {"n": "1"}
    assert found[0]["message"]["application_property_types"] == {"n": "int"}
    shown = command("list", "orders").stdout
    assert "Impossible [2J, twice" in shown
    assert "\x1b" not in shown
    assert "n = 1 (int)" in shown
    assert "a dragon" in shown
    assert len(told(command("list", "orders", "--limit", "1", "--json"))) == 1


def test_resubmitted_ones_are_messages_again(command: Any, client: Any) -> None:
    fill(client, "gone", "one", "two")
    assert told(command("resubmit", "gone", "--all", "--json")) == {"resubmitted": 2}
    assert bodies(client, "gone", ServiceBusSubQueue.DEAD_LETTER) == []
    with client.get_queue_receiver("gone") as receiver:
        first = receiver.receive_messages(1, max_wait_time=20)[0]
        assert (str(first), first.message_id) == ("one", "id of one")
        assert first.application_properties == {b"n": 1}
        assert first.dead_letter_reason is None
        assert first.delivery_count == 0
        receiver.complete_message(first)


def test_those_of_a_subscription_come_back_to_it_alone(
    command: Any, client: Any, known: dict[str, str], tmp_path: Path
) -> None:
    subscriptions = (("subscription", NEWS, name) for name in ("all", "other"))
    for words in (("topic", NEWS), *subscriptions):
        made = run("entities", "create", *words, cwd=tmp_path, env=known)
        assert made.returncode == exit_codes.OK, made.stderr
    with client.get_topic_sender(NEWS) as sender:
        for text in ("one", "two", "three"):
            sender.send_messages(ServiceBusMessage(text, message_id=f"id of {text}"))
    with client.get_subscription_receiver(NEWS, "all") as receiver:
        for _ in range(2):
            [message] = receiver.receive_messages(1, max_wait_time=20)
            receiver.dead_letter_message(message, reason="Impossible")
    found = told(command("list", ALL, "--json"))
    assert [(item["message_id"], item["reason"]) for item in found] == [
        ("id of one", "Impossible"),
        ("id of two", "Impossible"),
    ]
    assert "Impossible" in command("list", ALL).stdout
    assert told(command("list", OTHER, "--json")) == []
    first = ("--sequence-number", str(found[0]["sequence_number"]))
    assert told(command("resubmit", ALL, *first, "--json")) == {"resubmitted": 1}
    assert told(command("resubmit", ALL, "--all", "--json")) == {"resubmitted": 1}
    assert told(command("list", ALL, "--json")) == []
    for name, texts in (("all", ["three", "one", "two"]), ("other", IN_ORDER)):
        with client.get_subscription_receiver(NEWS, name) as receiver:
            assert [str(message) for message in receiver.peek_messages(50)] == texts


def test_what_the_queue_would_take_for_a_duplicate_comes_back(
    command: Any, client: Any
) -> None:
    fill(client, "unique", "one", "two")
    ended = command("resubmit", "unique", "--all", "--json")
    assert told(ended) == {"resubmitted": 2}
    assert bodies(client, "unique") == ["one", "two"]
    assert bodies(client, "unique", ServiceBusSubQueue.DEAD_LETTER) == []


def test_one_can_be_chosen_among_many(command: Any, client: Any) -> None:
    fill(client, "chosen", "one", "two", "three")
    numbers = [
        item["sequence_number"] for item in told(command("list", "chosen", "--json"))
    ]
    choice = ("--sequence-number", str(numbers[1]))
    ended = command("remove", "chosen", *choice, "--yes", "--json")
    assert told(ended) == {"removed": 1}
    left = ServiceBusSubQueue.DEAD_LETTER
    assert bodies(client, "chosen", left) == ["one", "three"]
    assert told(command("resubmit", "chosen", "--count", "1", "--json")) == {
        "resubmitted": 1
    }
    assert bodies(client, "chosen", left) == ["three"]
    assert bodies(client, "chosen") == ["one"]
    for words in (("resubmit",), ("remove", "--yes")):
        gone = command(words[0], "chosen", *choice, *words[1:])
        line = complaint(gone, exit_codes.NOT_FOUND)
        assert f"'chosen' has no dead letter with the number {numbers[1]}" in line
    both = (*choice, "--sequence-number", str(numbers[2]), "--yes")
    some = command("remove", "chosen", *both)
    assert (some.returncode, some.stdout) == (exit_codes.NOT_FOUND, "Removed: 1.\n")
    assert "no dead letters with 1 of the numbers given" in some.stderr


def test_those_of_a_backlog_go_back_into_it(command: Any, client: Any) -> None:
    divert(client, QUEUES[0], "orders")
    divert(client, QUEUES[2], "bills")
    bury(client, QUEUES[0], 1, "EntityNotFound")
    bury(client, QUEUES[2], 1, "MessageNotAllowed")
    backlog = ("--backlog", "--primary-name", NAME)
    found = told(command("list", *backlog, "--json"))
    assert [(item["entity"], item["path"], item["reason"]) for item in found] == [
        (QUEUES[0], "orders", "EntityNotFound"),
        (QUEUES[2], "bills", "MessageNotAllowed"),
    ]
    shown = command("list", *backlog).stdout.splitlines()
    assert f"{QUEUES[0]} for orders" in shown
    assert told(command("resubmit", *backlog, "--all", "--json")) == {"resubmitted": 2}
    assert bodies(client, QUEUES[0]) == ["for orders"]
    assert bodies(client, QUEUES[2]) == ["for bills"]
    assert told(command("list", *backlog, "--json")) == []


def test_removing_unasked_needs_a_word(command: Any) -> None:
    line = complaint(command("remove", "orders", "--all"), exit_codes.USAGE)
    assert "dead letters of 'orders': give --yes" in line


@pytest.mark.parametrize(
    ("answer", "code"), [(b"y\n", exit_codes.OK), (b"n\n", exit_codes.FAILED)]
)
def test_at_a_terminal_removing_asks(
    client: Any, server: Serving, answer: bytes, code: int
) -> None:
    fill(client, "asked", "one")
    terminal, other_end = pty.openpty()
    os.write(terminal, answer)
    known = {"TWINBUS_CONNECTION_STRING": server.connection_string}
    words = ("dead-letters", "remove", "asked", "--all")
    ended = subprocess.run(
        [sys.executable, "-m", "twinbus", *words],
        env=environment(known),
        stdin=other_end,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    os.close(terminal)
    os.close(other_end)
    assert ended.returncode == code, ended.stderr
    left = bodies(client, "asked", ServiceBusSubQueue.DEAD_LETTER)
    assert bool(left) == (code != exit_codes.OK)


def test_nothing_is_nothing_wrong(command: Any) -> None:
    assert command("list", "empty").stdout == "There are no dead letters.\n"
    assert told(command("resubmit", "empty", "--all", "--json")) == {"resubmitted": 0}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("list",), "the path of an entity, or --backlog"),
        (("list", "orders", "--backlog"), "the path of an entity, or --backlog"),
        (("list", "--backlog"), "Give --primary-name"),
        (("resubmit", "orders"), "Say which: --all"),
        (("resubmit", "orders", "--all", "--count", "1"), "Say which: --all"),
        (
            ("resubmit", "--backlog", "--primary-name", NAME, "--count", "1"),
            "With --backlog, only --all is possible",
        ),
        (("list", "orders", "--connection-string", "hush"), "not a connection string"),
    ],
)
def test_what_cannot_be_meant(
    command: Any, arguments: tuple[str, ...], text: str
) -> None:
    assert text in complaint(command(*arguments), exit_codes.USAGE)


def test_what_is_not_there(command: Any) -> None:
    ended = command("list", "nowhere")
    assert "has no entity 'nowhere'" in complaint(ended, exit_codes.NOT_FOUND)
    ended = command("list", "--backlog", "--primary-name", "site-z")
    line = complaint(ended, exit_codes.NOT_FOUND)
    assert "No backlog queues of 'site-z' are there; those of site-a are" in line
