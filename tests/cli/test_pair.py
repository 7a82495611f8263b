"""`twinbus pair`: shows the state of a pair, and cleans up after it."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import TransportType
from azure.servicebus.aio import ServiceBusClient
from pairs.harness_world import let_transports_end

from twinbus.cli import exit_codes
from twinbus.cli.pair_questions import remove_unused
from twinbus.cli.sdk_side import Reachability, SdkSide, reach

from .command import PATIENCE_SECONDS, Serving, complaint, environment, run
from .pairs import NAME, QUEUES, client_of, divert, served, variables

LEASE = f"{NAME}/x-servicebus-transfer/lease"


class Sites:
    """A primary and a secondary with backlog queues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        declared = {path: "" for path in QUEUES}
        declared[LEASE] = "requires_session = true"
        declared["other/x-servicebus-transfer/0"] = ""
        declared["orders"] = ""
        self.primary = served(folder / "primary")
        self.secondary = served(folder / "secondary", **declared)

    def variables(self) -> dict[str, str]:
        return variables(
            self.primary.connection_string,
            self.secondary.connection_string,
            self.folder / "secondary",
        )

    def pair(self, *arguments: str, name: str = NAME) -> Any:
        named = ("--primary-name", name) if name else ()
        return run("pair", *arguments, *named, cwd=self.folder, env=self.variables())


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    made = Sites(tmp_path)
    with made.primary, made.secondary:
        yield made


def told(ended: subprocess.CompletedProcess[str], code: int) -> Any:
    """What a command with --json said."""
    assert (ended.returncode, ended.stderr) == (code, "")
    return json.loads(ended.stdout)


def test_an_empty_backlog_is_well(sites: Sites) -> None:
    report = told(sites.pair("status", "--json"), exit_codes.OK)
    assert report["primary"] == {
        "name": NAME,
        "host": f"localhost:{sites.primary.port}",
        "is_reachable": True,
        "detail": "",
    }
    assert report["secondary"]["is_reachable"]
    assert [queue["path"] for queue in report["queues"]] == list(QUEUES)
    assert (report["waiting"], report["dead_letters"]) == (0, 0)
    assert (report["oldest_age_ms"], report["entities"]) == (None, [])
    assert (report["lease"], report["is_complete"]) == ("free", True)


def test_a_certificate_that_is_not_trusted_is_named_with_the_fix(sites: Sites) -> None:
    untrusting = {**sites.variables(), "SSL_CERT_FILE": ""}
    flags = ("status", "--primary-name", NAME)
    ended = run("pair", *flags, cwd=sites.folder, env=untrusting)
    line = complaint(ended, exit_codes.UNREACHABLE)
    assert "The secondary localhost" in line
    assert "its certificate does not pass the check (" in line
    assert "Set SSL_CERT_FILE" in line
    assert "key" not in line


async def reached_without_trust(server: Serving) -> Reachability:
    """Over TLS, by a client that does not know the authority."""
    text = server.connection_string.replace("UseDevelopmentEmulator=true", "")
    client = ServiceBusClient.from_connection_string(
        # The SDK uses the port of the custom address, and of that alone.
        text.replace(f":{server.port}", ""),
        transport_type=TransportType.Amqp,
        custom_endpoint_address=f"sb://localhost:{server.port}",
        retry_total=0,
    )
    async with client:
        side = SdkSide(role="The primary", client=client, administration=None)
        return await reach(side)


async def test_a_side_that_is_not_trusted_over_amqp_counts_as_away(
    sites: Sites,
) -> None:
    found = await reached_without_trust(sites.primary)
    # The SDK does not close a socket whose handshake failed.
    await let_transports_end()
    assert not found.is_up
    assert "its certificate does not pass the check" in found.detail


def test_what_waits_is_counted_by_queue_and_entity(sites: Sites) -> None:
    with client_of(sites.secondary) as client:
        divert(client, QUEUES[0], "orders", "bills", "orders")
        divert(client, QUEUES[2], "orders", "odd")
        with client.get_queue_receiver(QUEUES[0]) as receiver:
            [first] = receiver.receive_messages(1, max_wait_time=20)
            receiver.defer_message(first)
        with client.get_queue_receiver(QUEUES[2]) as receiver:
            messages = receiver.receive_messages(2, max_wait_time=20)
            while len(messages) < 2:
                messages += receiver.receive_messages(1, max_wait_time=20)
            receiver.dead_letter_message(messages[1], reason="Poison")
            receiver.abandon_message(messages[0])
    ended = sites.pair("status", "--json")
    report = told(ended, exit_codes.BACKLOG)
    assert (report["waiting"], report["dead_letters"]) == (4, 1)
    queues = {queue["path"]: queue for queue in report["queues"]}
    assert queues[QUEUES[0]]["waiting"] == 3
    assert queues[QUEUES[0]]["parked"] == 1
    assert queues[QUEUES[1]]["waiting"] == 0
    assert queues[QUEUES[2]]["dead_letters"] == 1
    assert report["entities"] == [
        {"path": "bills", "waiting": 1, "parked": 0},
        {"path": "orders", "waiting": 3, "parked": 1},
    ]
    assert 0 <= report["oldest_age_ms"] < 60_000
    shown = sites.pair("status")
    assert shown.returncode == exit_codes.BACKLOG
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["orders", "3", "1"] in rows
    assert [QUEUES[0], "3", "1", "0"] in [row[:4] for row in rows]
    assert ["all", "4", "1", "1"] in [row[:4] for row in rows]


def test_a_lease_that_is_held_is_told(sites: Sites) -> None:
    with (
        client_of(sites.secondary) as client,
        client.get_queue_receiver(LEASE, session_id="syphon"),
    ):
        report = told(sites.pair("status", "--json"), exit_codes.OK)
    assert report["lease"] == "held"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_side_that_is_away_is_told(sites: Sites, how: signal.Signals) -> None:
    sites.primary.signal(how)
    report = told(sites.pair("status", "--json"), exit_codes.UNREACHABLE)
    assert not report["primary"]["is_reachable"]
    assert report["primary"]["detail"]
    assert report["secondary"]["is_reachable"]
    assert len(report["queues"]) == len(QUEUES)


def test_a_secondary_that_is_away_is_told(sites: Sites) -> None:
    sites.secondary.signal(signal.SIGKILL)
    ended = sites.pair("status")
    assert ended.returncode == exit_codes.UNREACHABLE
    assert "does not answer" in ended.stdout


def test_a_name_that_nobody_has_is_met_with_those_that_are(sites: Sites) -> None:
    ended = sites.pair("status", name="site-z")
    assert ended.returncode == exit_codes.OK
    assert "No backlog queues of 'site-z' are there" in ended.stdout
    assert "those of other, site-a are" in ended.stdout


def test_a_host_that_says_nothing_needs_a_name(sites: Sites) -> None:
    line = complaint(sites.pair("status", name=""), exit_codes.USAGE)
    assert "--primary-name" in line


def test_a_key_without_the_right_is_told(sites: Sites) -> None:
    wrong = sites.secondary.connection_string.replace("SharedAccessKey=", "\0")
    head, _, _ = wrong.partition("\0")
    text = f"{head}SharedAccessKey=d3Jvbmc=;UseDevelopmentEmulator=true"
    ended = sites.pair("status", "--secondary", text)
    assert "refuses the key" in complaint(ended, exit_codes.UNAUTHORIZED)


def test_clean_removes_what_is_unused_and_nothing_else(sites: Sites) -> None:
    with client_of(sites.secondary) as client:
        divert(client, QUEUES[1], "orders")
    unused = [QUEUES[0], QUEUES[2]]
    dry = told(sites.pair("clean", "--dry-run", "--json"), exit_codes.OK)
    assert dry == {"unused": unused, "removed": [], "kept": [QUEUES[1]]}
    line = complaint(sites.pair("clean"), exit_codes.USAGE)
    assert "give --yes" in line
    done = told(sites.pair("clean", "--yes", "--json"), exit_codes.OK)
    assert done == {"unused": unused, "removed": unused, "kept": [QUEUES[1]]}
    left = told(sites.pair("status", "--json"), exit_codes.BACKLOG)
    assert [queue["path"] for queue in left["queues"]] == [QUEUES[1]]
    others = told(sites.pair("status", "--json", name="other"), exit_codes.OK)
    assert len(others["queues"]) == 1
    again = sites.pair("clean", "--yes")
    assert "There is no unused backlog queue" in again.stdout


async def test_a_message_that_comes_meanwhile_is_kept(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue was unused when it was looked at, and is not any more."""
    with client_of(sites.secondary) as client:
        divert(client, QUEUES[0], "orders")
        monkeypatch.setenv("SSL_CERT_FILE", sites.variables()["SSL_CERT_FILE"])
        text = sites.secondary.connection_string
        assert await remove_unused(text, QUEUES[:2]) == [QUEUES[1]]
        # And the queue takes messages as before.
        divert(client, QUEUES[0], "bills")
    report = told(sites.pair("status", "--json"), exit_codes.BACKLOG)
    assert report["waiting"] == 2


@pytest.mark.parametrize(
    ("answer", "code", "left"), [(b"y\n", exit_codes.OK, 0), (b"n\n", 1, 3)]
)
def test_at_a_terminal_clean_asks(
    sites: Sites, answer: bytes, code: int, left: int
) -> None:
    terminal, other_end = pty.openpty()
    os.write(terminal, answer)
    ended = subprocess.run(
        [sys.executable, "-m", "twinbus", "pair", "clean", "--primary-name", NAME],
        env=environment(sites.variables()),
        stdin=other_end,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    os.close(terminal)
    os.close(other_end)
    assert ended.returncode == code, ended.stderr
    assert QUEUES[0] in ended.stderr
    report = json.loads(sites.pair("status", "--json").stdout)
    assert len(report["queues"]) == left
