"""Work that is interrupted, or whose server or reader goes away, says how far it has
come."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.administration import ask
from twinbus.client.connection_string import parse_connection_string
from twinbus.testing import Bus

from .command import PATIENCE_SECONDS, environment

# A device that is always full.
FULL = Path("/dev/full")


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(store="memory") as running:
        running.create_queue("orders")
        yield running


class Running:
    """A command with pipes, while it runs."""

    def __init__(self, bus: Bus, folder: Path, words: str) -> None:
        known = environment({"TWINBUS_CONNECTION_STRING": bus.connection_string})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "twinbus", *words.split()],
            cwd=folder,
            env=known,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        """Exit code and the line on stderr. Its standard input stays open."""
        code = self.process.wait(PATIENCE_SECONDS)
        assert self.process.stderr is not None
        (line,) = self.process.stderr.read().splitlines()
        return code, line


@pytest.fixture
def start(bus: Bus, tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def start(words: str) -> Running:
        started.append(Running(bus, tmp_path, words))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def wait_for(bus: Bus, count: int, path: str = "orders") -> None:
    """Until there are so many messages."""
    server = parse_connection_string(bus.connection_string)
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while ask(server, "get-entity", {"path": path})["counts"]["active"] != count:
        assert time.monotonic() < ends_at


def test_interrupted_send_says_what_was_sent(
    bus: Bus, start: Callable[[str], Running]
) -> None:
    sending = start("send orders --lines -")
    sending.type("one\ntwo")
    wait_for(bus, 2)
    sending.interrupt()
    code, line = sending.ended()
    assert code == exit_codes.INTERRUPTED
    assert line.startswith("twinbus: Interrupted. Sent: 2.")


def test_lost_server_ends_a_send_that_waits_for_lines(
    bus: Bus, start: Callable[[str], Running]
) -> None:
    sending = start("send orders --lines -")
    sending.type("one")
    wait_for(bus, 1)
    bus.stop()
    sending.type("two")
    code, line = sending.ended()
    assert code == exit_codes.UNREACHABLE
    assert f"localhost:{bus.port} has ended the connection" in line
    assert line.endswith("Sent: 1. Whether the next ones have arrived is not known.")


def test_interrupted_receive_says_what_was_received(
    bus: Bus, start: Callable[[str], Running]
) -> None:
    following = start("receive orders --follow --json")
    start("send orders tea").process.wait(PATIENCE_SECONDS)
    assert following.line()["body"] == "tea"
    wait_for(bus, 0)
    following.interrupt()
    code, line = following.ended()
    assert code == exit_codes.INTERRUPTED
    assert line.startswith("twinbus: Interrupted. Received: 1.")


def read_from(terminal: int) -> str:
    """Empty when nobody writes to it any more."""
    try:
        return os.read(terminal, 4096).decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("send orders x --count 1000 --rate 20", "of 1,000 "),
        ("receive orders --follow --json", "received "),
    ],
)
def test_progress_is_shown_on_a_terminal(
    bus: Bus, tmp_path: Path, words: str, text: str
) -> None:
    """Also of messages that go into a file: all of them do."""
    terminal, other_end = pty.openpty()
    known = environment({"TWINBUS_CONNECTION_STRING": bus.connection_string})
    feed = f"{sys.executable} -m twinbus send orders y --count 9 --rate 5"
    with (
        subprocess.Popen(feed.split(), env=known, stdout=subprocess.DEVNULL) as fed,
        (tmp_path / "out").open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", "twinbus", *words.split()],
            env={**known, "TERM": "xterm", "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=other_end,
        ) as process,
    ):
        os.close(other_end)
        shown = ""
        while text not in shown:
            assert select.select([terminal], [], [], PATIENCE_SECONDS)[0], shown
            shown += read_from(terminal)
        assert fed.wait(PATIENCE_SECONDS) == exit_codes.OK
        if "receive" in words:
            wait_for(bus, 0)
        process.send_signal(signal.SIGINT)
        while more := read_from(terminal):
            shown += more
        assert process.wait(PATIENCE_SECONDS) == exit_codes.INTERRUPTED
    os.close(terminal)
    assert "Interrupted. " in shown
    if "receive" in words:
        assert len((tmp_path / "out").read_text().splitlines()) == 9


@pytest.mark.parametrize(
    "words",
    [
        *("receive orders", "receive orders --json", "peek orders", "stats --json"),
        *("entities list --json", "keys list", "context list"),
    ],
)
def test_full_disk_is_told_in_a_line(bus: Bus, tmp_path: Path, words: str) -> None:
    known = environment({"TWINBUS_CONNECTION_STRING": bus.connection_string})
    command = [sys.executable, "-m", "twinbus"]
    subprocess.run([*command, "send", "orders", "tea"], env=known, check=True)
    with FULL.open("w") as full:
        ended = subprocess.run(
            [*command, *words.split()],
            env=known,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    assert ended.returncode == exit_codes.FAILED
    (line,) = ended.stderr.splitlines()
    assert "can't be written: No space left on device" in line
    wait_for(bus, 1)


@pytest.mark.parametrize("which", ["--session s", "--next-session"])
def test_follower_goes_on_when_its_session_was_lost(
    bus: Bus, start: Callable[[str], Running], which: str
) -> None:
    bus.create_queue("steps", requires_session=True)
    following = start(f"receive steps {which} --follow --json --max-wait 60s")
    for body in ("one", "two"):
        start(f"send steps {body} --session-id s").process.wait(PATIENCE_SECONDS)
        assert following.line()["body"] == body
        # Before that it would come again.
        wait_for(bus, 0, "steps")
        # Locks last for a minute.
        bus.advance(61)
    following.interrupt()
    assert following.process.wait(PATIENCE_SECONDS) == exit_codes.INTERRUPTED


def test_session_stays_locked_while_nothing_comes(
    bus: Bus, start: Callable[[str], Running]
) -> None:
    bus.create_queue("steps", requires_session=True, lock_duration="5s")
    following = start("receive steps --session s --follow --json")
    start("send steps one --session-id s").process.wait(PATIENCE_SECONDS)
    assert following.line()["body"] == "one"
    for _ in range(2):
        locked_until = session_lock(bus)
        bus.advance(3)
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while session_lock(bus) == locked_until:
            assert time.monotonic() < ends_at
    following.interrupt()
    assert following.ended() == (
        exit_codes.INTERRUPTED,
        "twinbus: Interrupted. Received: 1.",
    )


def session_lock(bus: Bus) -> int:
    """When the lock of the only session ends."""
    fragment = bus.server.namespace.entity("steps").fragment()
    assert fragment.sessions is not None
    (held,) = fragment.sessions.held.values()
    return held.locked_until


def test_follower_tells_of_an_outage_once_and_ends_in_it(
    bus: Bus, start: Callable[[str], Running]
) -> None:
    start("send orders one").process.wait(PATIENCE_SECONDS)
    following = start("receive orders --follow --json")
    assert following.line()["body"] == "one"
    wait_for(bus, 0)
    bus.stop()
    assert following.process.stderr is not None
    told = [following.process.stderr.readline() for _ in range(2)]
    assert "has ended the connection" in told[0]
    assert "Received: 1. Trying again." in told[0]
    assert f"No server answers at localhost:{bus.port}" in told[1]
    bus.start()
    assert "answers again" in following.process.stderr.readline()
    bus.stop()
    assert "has ended the connection" in following.process.stderr.readline()
    following.interrupt()
    assert following.process.wait(PATIENCE_SECONDS) == exit_codes.INTERRUPTED
    *_, last = following.process.stderr.read().splitlines()
    assert last == "twinbus: Interrupted. Received: 1."
