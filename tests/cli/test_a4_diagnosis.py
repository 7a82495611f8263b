"""A4: a broker that is sick leaves a diagnosis behind and ends; a restart goes on.

The diagnosis has no secret and no message: everything that a client sent, and every
key, is looked for in all of its files.
"""

import json
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from .command import Serving, complaint, run

PORTS = ("--port", "0", "--http-port", "0", "--tls-port", "0")
BODY = "the-body-of-a-secret-message"
SICK = 13

# The command, with a signal on which its loop does nothing else any more.
STUCK_ON_SIGNAL = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
from twinbus.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of a store of each kind."""
    if request.param == "sqlite":
        return ()
    server = request.getfixturevalue("postgres_server")
    return ("--store", server.url(f"a4_{secrets.token_hex(8)}"))


@pytest.fixture
def serving(tmp_path: Path, store: tuple[str, ...]) -> Iterator[Serving]:
    with Serving(*PORTS, *store, "--max-diagnoses", "2", cwd=tmp_path) as server:
        yield server


def send(serving: Serving) -> None:
    """A message by a client that shows a token, from a queue of its own."""
    client = ServiceBusClient.from_connection_string(serving.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(BODY, message_id="id-1"))


def create_queue(serving: Serving, cwd: Path) -> None:
    command = ("entities", "create", "queue", "orders", "--connection-string")
    done = run(*command, serving.connection_string, cwd=cwd)
    assert done.returncode == 0, done.stderr


def diagnoses(cwd: Path) -> list[Path]:
    found = (cwd / "data" / "diagnosis").glob("2*")
    return sorted(folder for folder in found if folder.is_dir())


def check_is_whole(folder: Path, why: str) -> None:
    index = json.loads((folder / "index.json").read_text())
    assert index["why"] == why
    assert set(index["parts"]) == {
        *("stacks.txt", "tasks.txt", "process.json", "settings.json", "stores.json"),
        *("operations.json", "connections.txt"),
    }
    assert all("bytes" in part for part in index["parts"].values()), index
    assert "store-owner" in (folder / "tasks.txt").read_text()
    (store,) = json.loads((folder / "stores.json").read_text())
    assert [one["path"] for one in store["fragments"]] == ["orders"]
    operations = (folder / "operations.json").read_text()
    assert '"operation": "send"' in operations


def check_has_no_secrets(folder: Path, serving: Serving) -> None:
    hidden = (serving.key, BODY, "SharedAccessSignature", "sig=", "id-1")
    for file in folder.iterdir():
        text = file.read_text()
        assert [secret for secret in hidden if secret in text] == [], file


def test_a4_stuck_loop_leaves_a_diagnosis_and_ends(
    tmp_path: Path, store: tuple[str, ...]
) -> None:
    program = (sys.executable, "-c", STUCK_ON_SIGNAL)
    settings = (*PORTS, *store, "--watchdog-seconds", "2")
    with Serving(*settings, cwd=tmp_path, program=program) as serving:
        create_queue(serving, tmp_path)
        send(serving)
        serving.signal(signal.SIGUSR1)
        assert serving.ended() == SICK
        (folder,) = diagnoses(tmp_path)
        check_is_whole(folder, "stuck")
        check_has_no_secrets(folder, serving)
        assert "line 3 in <lambda>" in (folder / "stacks.txt").read_text()
        assert "a diagnosis is in" in serving.errors
    with Serving(*PORTS, *store, cwd=tmp_path) as serving:
        client = ServiceBusClient.from_connection_string(serving.connection_string)
        with client, client.get_queue_receiver("orders") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=20)
            assert str(message) == BODY


def test_a4_diagnosis_is_written_when_somebody_asks(
    serving: Serving, tmp_path: Path
) -> None:
    create_queue(serving, tmp_path)
    send(serving)
    command = ("diagnose", "--connection-string")
    done = run(*command, serving.connection_string, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = diagnoses(tmp_path)
    assert done.stdout.strip() == str(folder)
    check_is_whole(folder, "asked")
    check_has_no_secrets(folder, serving)
    wrong = serving.connection_string.replace(serving.key, "another-key-of-nobody")
    complaint(run(*command, wrong, cwd=tmp_path), 8)


def test_a4_signal_writes_a_diagnosis_and_old_ones_go(
    serving: Serving, tmp_path: Path
) -> None:
    seen: list[Path] = []
    while len(seen) < 3:
        before = len(seen)
        serving.signal(signal.SIGUSR2)
        while len(seen) == before:
            seen += [each for each in diagnoses(tmp_path) if each not in seen]
    while diagnoses(tmp_path) != seen[-2:]:
        # The new one is there before the oldest one goes.
        time.sleep(0.01)
    assert serving.stop() == 0
