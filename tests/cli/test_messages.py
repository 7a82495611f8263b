"""`twinbus send`, `receive`, `peek` and `purge`, against a server and the SDK."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked_command
import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
)

from twinbus.cli import exit_codes
from twinbus.cli.messages import namespace_side
from twinbus.cli.messages.namespace_side import NamespaceSide
from twinbus.cli.messages.sending import send_all
from twinbus.errors import ServerBusy
from twinbus.testing import Bus

from .command import complaint, environment, run

# A bound against waiting for ever.
_ARRIVAL_SECONDS = 60

PARTITIONED = {"enable_partitioning": True}


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(store="memory") as running:
        running.create_topic("events")
        running.create_subscription("events", "audit")
        yield running


@pytest.fixture
def queue(bus: Bus, request: pytest.FixtureRequest) -> str:
    name = f"q-{abs(hash(request.node.name))}"
    bus.create_queue(name)
    return name


@pytest.fixture
def client(bus: Bus) -> Iterator[Any]:
    with ServiceBusClient.from_connection_string(bus.connection_string) as opened:
        yield opened


@pytest.fixture
def command(bus: Bus, tmp_path: Path) -> Any:
    known = {"TWINBUS_CONNECTION_STRING": bus.connection_string}

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return run(*words, cwd=tmp_path, env=known)

    return ask


def told(ended: subprocess.CompletedProcess[str]) -> list[Any]:
    assert ended.returncode == exit_codes.OK, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def received(client: Any, queue: str) -> Any:
    """Without a lock: the clock of a test bus stands still, not that of the SDK."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=20)
        return message


def test_sdk_gets_what_the_flags_say(command: Any, client: Any, queue: str) -> None:
    words = ("--property", "n=int:7", "--property", "ok=boolean:true", "--property")
    more = ("s=x", "--subject", "tea", "--message-id", "1", "--time-to-live", "1h")
    [sent] = told(command("send", queue, "a body", *words, *more, "--json"))
    assert sent == {"sent": 1}
    message = received(client, queue)
    assert str(message) == "a body"
    assert message.application_properties == {b"n": 7, b"ok": True, b"s": b"x"}
    assert (message.subject, message.message_id) == ("tea", "1")
    assert message.time_to_live.total_seconds() == 3600


def test_message_of_the_sdk_survives_json_lines(
    command: Any, client: Any, queue: str, tmp_path: Path
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(
            ServiceBusMessage(
                b"\xff\x00",
                session_id="s",
                correlation_id="c",
                application_properties={"n": 1, "f": 0.5, "b": b"\x01", "t": "x"},
            )
        )
    [first] = told(command("receive", queue, "--json"))
    (tmp_path / "lines").write_text(json.dumps(first) + "\n")
    assert told(command("send", queue, "--json-lines", "lines", "--json"))
    again = received(client, queue)
    assert b"".join(again.body) == b"\xff\x00"
    assert (again.session_id, again.correlation_id) == ("s", "c")
    assert again.application_properties == {
        b"n": 1,
        b"f": 0.5,
        b"b": b"\x01",
        b"t": b"x",
    }
    assert again.message_id == first["message_id"]


def test_settlements_do_what_they_say(command: Any, queue: str) -> None:
    told(command("send", queue, "x", "--json"))
    [first] = told(command("receive", queue, "--settle", "abandon", "--json"))
    [again] = told(command("receive", queue, "--settle", "defer", "--json"))
    assert (first["delivery_count"], again["delivery_count"]) == (0, 1)
    number = again["sequence_number"]
    [peeked] = told(command("peek", queue, "--json"))
    assert (peeked["sequence_number"], peeked["state"]) == (number, "deferred")
    by_number = ("--sequence-number", str(number))
    how = ("--settle", "dead-letter", "--reason", "Bad", "--description", "why")
    assert len(told(command("receive", queue, *by_number, *how, "--json"))) == 1
    [dead] = told(command("receive", queue, "--dead-letters", "--delete", "--json"))
    assert (dead["dead_letter_reason"], dead["dead_letter_description"]) == (
        "Bad",
        "why",
    )
    assert told(command("peek", f"{queue}/$DeadLetterQueue", "--json")) == []


def test_sessions_are_received_from(command: Any, bus: Bus) -> None:
    bus.create_queue("sessions", requires_session=True)
    for session in ("a", "b", "b"):
        told(command("send", "sessions", session, "--session-id", session, "--json"))
    chosen = ("--session", "b", "--all", "--max-wait", "1s", "--json")
    found = told(command("receive", "sessions", *chosen))
    assert [one["session_id"] for one in found] == ["b", "b"]
    [other] = told(command("receive", "sessions", "--next-session", "--json"))
    assert other["body"] == "a"
    line = complaint(command("send", "sessions", "x"), exit_codes.FAILED)
    assert "The flag is --session-id. It was message 1; sent before it: 0." in line
    line = complaint(command("receive", "sessions"), exit_codes.FAILED)
    assert "The flags are --session and --next-session." in line


def test_partitioned_queue_takes_all_keys_in_their_order(
    command: Any, bus: Bus, tmp_path: Path
) -> None:
    bus.create_queue("spread", enable_partitioning=True)
    lines = [{"body": str(n), "partition_key": f"k{n % 7}"} for n in range(300)]
    (tmp_path / "lines").write_text("\n".join(map(json.dumps, lines)))
    [sent] = told(command("send", "spread", "--json-lines", "lines", "--json"))
    assert sent == {"sent": 300}
    assert len(told(command("peek", "spread", "--all", "--json"))) == 300
    found = told(command("receive", "spread", "--count", "300", "--json"))
    for key in range(7):
        own = [int(one["body"]) for one in found if one["partition_key"] == f"k{key}"]
        assert own == sorted(own) == list(range(key, 300, 7))


def test_topics_and_rates(command: Any) -> None:
    told(command("send", "events", "x", "--count", "20", "--rate", "200", "--json"))
    words = ("events/Subscriptions/audit", "--count", "20", "--body")
    assert command("receive", *words).stdout == "x\n" * 20


def test_purge_counts_every_state(command: Any, queue: str) -> None:
    told(command("send", queue, "x", "--count", "5000", "--json"))
    told(command("send", queue, "x", "--schedule", "1h", "--json"))
    told(command("receive", queue, "--settle", "defer", "--json"))
    line = complaint(command("purge", queue), exit_codes.USAGE)
    assert f"all messages of '{queue}': give --yes" in line
    assert told(command("purge", queue, "--yes", "--json")) == [{"removed": 4999}]
    every = ("--every-state", "--yes", "--json")
    assert told(command("purge", queue, *every)) == [{"removed": 2}]
    assert told(command("peek", queue, "--json")) == []


def test_wrong_line_is_named_and_those_before_are_sent(
    command: Any, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text('{"body": "1"}\n{"body": "2"}\nnothing\n')
    line = complaint(command("send", queue, "--json-lines", "lines"), exit_codes.USAGE)
    assert "Line 3 of lines: it is not JSON. Sent before it: 2." in line
    (tmp_path / "lines").write_text('{"body": "1"}\n{"bodi": "2"}\n')
    line = complaint(command("send", queue, "--json-lines", "lines"), exit_codes.USAGE)
    assert "Line 2 of lines: there is no field 'bodi'" in line


def test_size_of_a_message_is_told_with_its_limit(
    command: Any, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(300_000))
    words = ("send", queue, "--file", "large", "--message-id", "m")
    line = complaint(command(*words), exit_codes.FAILED)
    assert "Message 1 has 300,0" in line
    assert f"'{queue}' takes 262,144 at most" in line
    (tmp_path / "large").write_bytes(bytes(262_000))
    assert told(command(*words, "--json")) == [{"sent": 1}]


def test_topic_is_told_where_its_messages_are(command: Any, bus: Bus) -> None:
    ended = command("peek", "events")
    assert ended.returncode == exit_codes.OK
    assert "such as 'events/Subscriptions/audit'" in ended.stderr
    line = complaint(command("dead-letters", "list", "events"), exit_codes.USAGE)
    assert "'events' is a topic: its messages are in its subscriptions" in line
    bus.create_topic("bare")
    assert "subscriptions; it has none." in command("peek", "bare").stderr


def test_terminal_of_another_encoding_is_no_trouble(
    command: Any, bus: Bus, queue: str, tmp_path: Path
) -> None:
    told(command("send", queue, "tea €", "--session-id", "ü", "--json"))
    known = {
        "TWINBUS_CONNECTION_STRING": bus.connection_string,
        "PYTHONIOENCODING": "ascii",
    }
    for words, body in (((), "tea \\u20ac"), (("--json",), '"tea \\u20ac"')):
        ended = subprocess.run(
            [sys.executable, "-m", "twinbus", "peek", queue, *words],
            env=environment(known),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ended.returncode, ended.stderr) == (exit_codes.OK, "")
        assert body in ended.stdout
    assert json.loads(ended.stdout)["session_id"] == "ü"


def test_empty_body_is_shown(command: Any, queue: str) -> None:
    told(command("send", queue, "", "--json"))
    assert "(empty body)" in command("peek", queue).stdout


def test_strangers_write_nothing_on_the_terminal(command: Any, queue: str) -> None:
    told(command("send", queue, "a\x1b[2Jb", "--property", "n=\x1b[1m", "--json"))
    assert "\x1b" not in command("peek", queue).stdout
    assert command("peek", queue, "--body").stdout == "a\x1b[2Jb\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("send", "orders"), exit_codes.USAGE, "Give the body"),
        (("send", "nowhere", "x"), exit_codes.NOT_FOUND, "no entity 'nowhere'"),
        (("peek", "nowhere"), exit_codes.NOT_FOUND, "no entity 'nowhere'"),
        (("receive", "nowhere"), exit_codes.NOT_FOUND, "no entity 'nowhere'"),
        (("purge", "nowhere", "--yes"), exit_codes.NOT_FOUND, "no entity 'nowhere'"),
        (("receive", "q", "--settle", "ack"), exit_codes.USAGE, "--settle is 'ack'"),
        (("receive", "q", "--max-wait", "x"), exit_codes.USAGE, "--max-wait: 'x'"),
        (("send", "q", "x", "--property", "n"), exit_codes.USAGE, "is not a property"),
        (("send", "q", "x", "--schedule", "soon"), exit_codes.USAGE, "write a time"),
        (("send", "events", "--file", "missing"), exit_codes.USAGE, "can't be read"),
    ],
)
def test_what_cannot_be_done_is_explained(
    command: Any, bus: Bus, words: tuple[str, ...], code: int, text: str
) -> None:
    assert text in complaint(command(*words), code)


def test_no_server_and_no_right_are_told_apart(bus: Bus, tmp_path: Path) -> None:
    gone = "Endpoint=sb://localhost:1;SharedAccessKeyName=k;SharedAccessKey=hush;"
    words = ("peek", "orders", "--connection-string")
    ended = run(*words, gone + "UseDevelopmentEmulator=true", cwd=tmp_path)
    line = complaint(ended, exit_codes.UNREACHABLE)
    assert "No server answers at localhost:1: start one with 'twinbus serve'" in line
    wrong = bus.connection_string.replace(bus.key, "hush")
    line = complaint(run(*words, wrong, cwd=tmp_path), exit_codes.UNAUTHORIZED)
    assert "hush" not in line
    assert "refuses the key 'RootManageSharedAccessKey' for 'orders'" in line
    assert "TrackingId" not in line
    for claim, words, right in (
        ("Listen", ("send", "events", "x"), "Send"),
        ("Send", ("peek", "events/Subscriptions/audit"), "Listen"),
    ):
        text = bus.connection_string_for(claim)
        asked = (*words, "--connection-string", text)
        line = complaint(run(*asked, cwd=tmp_path), exit_codes.UNAUTHORIZED)
        name = text.partition("SharedAccessKeyName=")[2].partition(";")[0]
        assert f"The key '{name}' lacks the {right} right on '{words[1]}'" in line
    asked = ("peek", "events", "--connection-string")
    only = f"{bus.connection_string};EntityPath=orders"
    line = complaint(run(*asked, only, cwd=tmp_path), exit_codes.UNAUTHORIZED)
    assert "The connection string is for 'orders' alone" in line


@pytest.mark.parametrize(
    "meant", ["audit", "events/audit", "Events/Subscription/audit"]
)
def test_entity_that_was_meant_is_named(command: Any, bus: Bus, meant: str) -> None:
    question = "Did you mean 'events/Subscriptions/audit'?"
    for words in (("receive", meant), ("peek", meant), ("entities", "show", meant)):
        assert question in complaint(command(*words), exit_codes.NOT_FOUND)
    key = ("--connection-string", bus.connection_string_for("Listen"))
    line = complaint(command("peek", meant, *key), exit_codes.NOT_FOUND)
    assert "Did you mean" not in line


def test_killed_receiver_loses_nothing(
    command: Any, bus: Bus, queue: str, tmp_path: Path
) -> None:
    told(command("send", queue, "x", "--count", "3000", "--json"))
    known = environment({"TWINBUS_CONNECTION_STRING": bus.connection_string})
    output = tmp_path / "printed"
    with output.open("w") as printed, (tmp_path / "errors").open("w") as errors:
        process = forked_command.start(
            ("receive", queue, "--follow", "--json"),
            cwd=tmp_path,
            env=known,
            stdout=printed,
            stderr=errors,
        )
        while not output.stat().st_size and process.poll() is None:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    lines = output.read_text().splitlines()
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    found = {one["sequence_number"] for one in whole}
    # What was on its way is locked until its time is over. The bus locks more until it
    # notices the end of the connection.
    deadline = time.monotonic() + _ARRIVAL_SECONDS
    while len(found) < 3000 and time.monotonic() < deadline:
        bus.advance(120)
        rest = told(command("receive", queue, "--all", "--max-wait", "2s", "--json"))
        found |= {one["sequence_number"] for one in rest}
    assert found == set(range(1, 3001))


def test_busy_server_is_waited_for(
    bus: Bus, queue: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """And what was refused is sent again, once."""
    refusals = [2]
    deliver = namespace_side.ClientConnection.sender

    async def busy_at_first(*arguments: Any, **options: Any) -> Any:
        if refusals[0]:
            refusals[0] -= 1
            raise ServerBusy()
        return await deliver(*arguments, **options)

    monkeypatch.setattr(namespace_side.ClientConnection, "sender", busy_at_first)

    async def work() -> int:
        side = NamespaceSide(bus.connection_string, busy_seconds=0.01)
        drafts = ({"body": str(n)} for n in range(5))
        sent = await send_all(side, queue, drafts, lambda count: None)
        await side.close()
        return sent

    assert asyncio.run(work()) == 5
    assert capsys.readouterr().err.count("is busy; going on in 0.01 seconds") == 2


def test_reader_that_has_enough_is_no_failure_with_a_traceback(
    command: Any, bus: Bus, queue: str
) -> None:
    told(command("send", queue, "x" * 100, "--count", "3000", "--json"))
    line = f"{sys.executable} -m twinbus peek {queue} --all --body | head -1"
    known = environment({"TWINBUS_CONNECTION_STRING": bus.connection_string})
    ended = subprocess.run(
        line, shell=True, env=known, capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("x" * 100 + "\n", "")


def test_all_sessions_are_received_one_after_the_other(command: Any, bus: Bus) -> None:
    bus.create_queue("many", requires_session=True)
    for session in ("a", "b", "c"):
        how = ("--session-id", session, "--count", "2", "--json")
        told(command("send", "many", session, *how))
    each = ("--next-session", "--max-wait", "0.2s", "--json")
    first = told(command("receive", "many", "--count", "9", *each))
    assert [one["body"] for one in first] == ["a", "a"]
    rest = told(command("receive", "many", "--all", *each))
    assert [one["body"] for one in rest] == ["b", "b", "c", "c"]
    assert told(command("receive", "many", "--all", *each)) == []


def test_abandoned_messages_of_a_session_come_once(command: Any, bus: Bus) -> None:
    bus.create_queue("given-back", requires_session=True)
    told(command("send", "given-back", "x", "--session-id", "s", "--json"))
    how = ("--settle", "abandon", "--max-wait", "0.2s", "--json")
    words = ("receive", "given-back", "--all", "--next-session", *how)
    assert len(told(command(*words))) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--session", "a", "--next-session"), "--session or --next-session"),
        (("--all", "--follow"), "--all or --follow"),
        (("--delete", "--settle", "defer"), "--delete or --settle"),
        (("--body", "--json"), "--body or --json"),
        (("--reason", "x"), "are of --settle dead-letter"),
    ],
)
def test_flags_that_say_different_things_are_refused(
    command: Any, words: tuple[str, ...], text: str
) -> None:
    line = complaint(command("receive", "orders", *words), exit_codes.USAGE)
    assert text in line
