"""Every command's help ends with examples, and each of them does what it says.

All run on one bus. Before each of them the bus has the same entities and messages, so
that their order does not matter; only what a shell has to do is run by a shell.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import forked_command
import pytest

from bench.free_port import free_port
from twinbus.cli import exit_codes
from twinbus.cli.administration import ask
from twinbus.cli.failure import Failure
from twinbus.cli.messages.namespace_side import NamespaceSide
from twinbus.cli.messages.receiving import DEAD_LETTER, WantedMessages, receive_all
from twinbus.cli.messages.sending import send_all
from twinbus.cli.own_requests import ask_own
from twinbus.client.connection_string import ConnectionString, parse_connection_string

from .command import Serving, environment
from .help_examples import help_examples

EXAMPLES = help_examples()

# A line that is not run, and why. A pattern stands for all lines that it matches.
NOT_RUN = {
    r"(TWINBUS_PORT=5680 )?twinbus serve.*": "serves for ever: test_serve.py",
    r"twinbus watch( 'orders\*' --interval 5s)?": "watches until it is interrupted",
    r"twinbus receive orders --follow.*": "follows until it is interrupted",
    r"twinbus env --shell fish \| source": "needs the shell fish: test_env.py",
    r"twinbus catalog .*postgresql://.*": "needs PostgreSQL: test_catalog.py",
    r"twinbus (spark )?syphon .*": "needs two sides of a pair: test_syphon.py",
    r"twinbus spark package .*": "copies all of twinbus: test_spark.py",
    r"twinbus spark (capture|replay) .*": "starts Spark: tests/spark/test_capture.py",
    r"twinbus spark (meter|audit) .*": "starts Spark: tests/spark/test_audit.py",
    r"twinbus spark report .*": "starts Spark: tests/spark/test_report.py",
    r"twinbus log export .*--follow.*": "follows until it is interrupted",
    r"twinbus log export .*postgresql://.*": "needs PostgreSQL: test_log.py",
    r"twinbus (restore|backup .*--store) .*": "needs other stores: test_backup.py",
    r".*twinbus pair status.*": "needs two sides of a pair: test_pair.py",
    r"twinbus pair clean.*": "needs a backlog without messages: test_pair.py",
    r"twinbus trace .*--log site-a.*": "needs two sites: test_message_trace.py",
    r"twinbus faults clear 3": "has the number of a fault that was set before",
}

# Commands that begin with less than the usual entities.
MAKES = {
    r"twinbus entities create queue (orders|jobs|events).*": "",
    r"twinbus entities create topic .*": "",
    r"twinbus entities create subscription .*": "archive events",
    r"twinbus entities create rule .*": "events billing audit",
}
USUAL = "orders archive invoices backlog events billing audit"

_TOPIC = "events"
_BACKLOG = "site-a/x-servicebus-transfer/0"
_SHELL = re.compile(r"\||\$\(| > |^[A-Z_]+=")
PATIENCE_SECONDS = 60.0

LINES = sorted({line for lines in EXAMPLES.values() for line in lines})


def reason_not_to(line: str) -> str:
    return next((why for said, why in NOT_RUN.items() if re.fullmatch(said, line)), "")


class ExampleBus:
    """A server, and the state that each example begins with."""

    def __init__(self, folder: Path, server: Serving) -> None:
        self.folder = folder
        self.server = server
        self.plain: ConnectionString = parse_connection_string(
            re.sub("localhost:[0-9]+", f"localhost:{server.port}", self.text)
        )

    @property
    def text(self) -> str:
        return self.server.connection_string + "UseDevelopmentEmulator=true;"

    @property
    def flags(self) -> dict[str, Any]:
        return {"connection_string": self.text}

    def begin(self, line: str) -> None:
        """Entities, messages and leases as the line needs them."""
        ask_own(self.flags, "DELETE", "/$faults")
        _when_stores_are_back(self._delete_entities)
        said = (text for made, text in MAKES.items() if re.fullmatch(made, line))
        names = next(said, USUAL).split()
        for name in names:
            self._create(name)
        if names == USUAL.split():
            asyncio.run(self._fill())
        if line.startswith("twinbus keys"):
            self._begin_keys("create" not in line)
        if line.startswith("twinbus namespaces"):
            self._begin_namespaces("create" not in line)
        if line.startswith("twinbus leases end"):
            for path in ("orders", "orders/$DeadLetterQueue"):
                wanted = {"reader": "spark", "duration_ms": 60_000}
                entities = {"entities": [{"path": path}]}
                ask_own(self.flags, "POST", "/$bulk/lease", wanted | entities)

    def _begin_keys(self, are_there: bool) -> None:
        for rule in ask(self.plain, "list-keys", {"path": ""}):
            if not rule["is_fixed"]:
                named = {"path": "", "key_name": rule["key_name"]}
                ask(self.plain, "delete-key", named)
        if are_there:
            for path, name in (("", "worker"), ("orders", "shop")):
                rule = {"path": path, "key_name": name, "rights": '["Send"]'}
                ask(self.plain, "create-key", rule)

    def _begin_namespaces(self, are_there: bool) -> None:
        for one in ask_own(self.flags, "GET", "/$namespaces")["namespaces"]:
            if not one["is_default"]:
                ask_own(self.flags, "DELETE", f"/$namespaces/{one['name']}")
        if are_there:
            ask_own(self.flags, "POST", "/$namespaces", {"name": "shop"})

    def _create(self, name: str) -> None:
        path = {"backlog": _BACKLOG}.get(name, name)
        kind = "topic" if name == _TOPIC else "queue"
        if name in ("billing", "audit"):
            kind, path = "subscription", f"{_TOPIC}/Subscriptions/{name}"
        arguments = {"path": path, "properties": "{}"}
        ask(self.plain, f"create-{kind}", arguments)

    def _delete_entities(self) -> None:
        for entity in ask(self.plain, "list-entities", {}):
            if entity["kind"] != "subscription":
                ask(self.plain, "delete-entity", {"path": entity["path"]})
        # What is created next needs the store, also where nothing is left to delete.
        ask(self.plain, "create-queue", {"path": "orders", "properties": "{}"})
        ask(self.plain, "delete-entity", {"path": "orders"})

    async def _fill(self) -> None:
        """Ten messages and eight dead letters in `orders`, one message of `events`."""
        side = NamespaceSide(self.text)
        for path in ("orders", f"{_TOPIC}/Subscriptions/audit"):
            sent_to = path.partition("/")[0]
            await send_all(side, sent_to, ({"body": "x"} for _ in range(8)), _nothing)
            wanted = WantedMessages(
                entity=path, count=8, wait_seconds=10, settlement=DEAD_LETTER
            )
            assert await receive_all(side, wanted, _nothing) == 8
        tea = ({"body": "tea", "message_id": f"tea-{n}"} for n in range(10))
        await send_all(side, "orders", tea, _nothing)
        await send_all(side, _TOPIC, ({"body": "hello"} for _ in range(1)), _nothing)
        await side.close()

    def run(self, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
        self._lay_out_data(line, folder)
        line = line.replace("/var/lib/twinbus", str(folder / "data"))
        line = line.replace("/var/backups", str(folder))
        known = environment(self._variables(folder))
        (folder / "order.json").write_text('{"tea": 1}')
        for side in ("site-a", "site-b"):
            (folder / side).write_text(self.server.connection_string)
        if not _SHELL.search(line):
            words = shlex.split(line)
            assert words[0] == "twinbus"
            return forked_command.run(
                words[1:], cwd=folder, env=known, seconds=PATIENCE_SECONDS
            )
        program = folder / "bin" / "twinbus"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m twinbus "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        known["PATH"] = f"{program.parent}{os.pathsep}{known['PATH']}"
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=folder,
            env=known,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def _lay_out_data(self, line: str, folder: Path) -> None:
        """The data folder, and an exported log where the line reads one."""
        if re.match("twinbus (check|recover)", line):
            shutil.copytree(self._stopped, folder / "data")
            return
        (folder / "data").symlink_to(self.folder / "data")
        if "--log operations" in line:
            export = ["log", "export", "--data", "data", "--folder", "operations"]
            done = forked_command.run(
                export, cwd=folder, env=environment({}), seconds=PATIENCE_SECONDS
            )
            assert done.returncode == exit_codes.OK, done.stderr

    @cached_property
    def _stopped(self) -> Path:
        """The data folder of a bus that does not run any more."""
        folder = self.folder / "stopped"
        folder.mkdir()
        ports = ("--port", "0", "--http-port", "0", "--tls-port", "0")
        with Serving(*ports, cwd=folder) as server:
            assert server.stop() == 0
        return folder / "data"

    def _variables(self, folder: Path) -> dict[str, str]:
        config = folder / "config" / "twinbus"
        config.mkdir(parents=True)
        names = ("here", "site-a", "site-b")
        contexts = {name: {"connection_string": self.text} for name in names}
        content = {"format": 1, "current": "here", "contexts": contexts}
        (config / "contexts.json").write_text(json.dumps(content))
        return {
            "TWINBUS_PORT": str(self.server.port),
            "TWINBUS_SECONDARY": f"file:{folder / 'site-b'}",
            "XDG_CONFIG_HOME": str(config.parent),
            "SSL_CERT_FILE": str(self.folder / "data" / "tls" / "ca.pem"),
        }


def _when_stores_are_back(work: Callable[[], None]) -> None:
    """A store that a fault took away comes back a moment after the fault is cleared."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except Failure:
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.1)


def _nothing(_: object) -> None:
    """Neither prints nor shows progress."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleBus]:
    folder = tmp_path_factory.mktemp("bus")
    port = str(free_port())
    ports = ("--port", port, "--http-port", "0", "--tls-port", port)
    with Serving(*ports, "--allow-faults", cwd=folder) as server:
        yield ExampleBus(folder, server)


@pytest.mark.parametrize("words", EXAMPLES)
def test_every_help_ends_with_examples(words: str) -> None:
    lines = EXAMPLES[words]
    assert lines, f"'twinbus {words} --help' has no examples"
    named = f"twinbus {words}".strip()
    assert any(named in line for line in lines)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("line", [line for line in LINES if not reason_not_to(line)])
def test_example_does_what_it_says(line: str, bus: ExampleBus, tmp_path: Path) -> None:
    bus.begin(line)
    ended = bus.run(line, tmp_path)
    assert ended.returncode == exit_codes.OK, ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_is_not_run_is_an_example() -> None:
    """The list gets shorter when an example goes."""
    unused = [
        said for said in NOT_RUN if not any(re.fullmatch(said, line) for line in LINES)
    ]
    assert unused == []
