"""A bus for the tests alone: own process, own folder, any free port, own keys.

Besides the root key it has one rule for listening and one for sending, which the
tests of restricted credentials use. It is ended by its process id, whatever happens,
and its folder is removed; what it logged is kept next to the results.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from conformance.vendor import CannotRun
from twinbus.client.connection_string import parse_connection_string

# Bounds against hanging; never waited out.
START_PATIENCE_SECONDS = 60.0
STOP_PATIENCE_SECONDS = 30.0

_RULES = ("Listen", "Send")


@contextlib.contextmanager
def own_bus(log: Path) -> Iterator[Mapping[str, str]]:
    """Start it; gives the variables that describe it to the tests."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        folder = Path(name)
        keys = {right: secrets.token_urlsafe(32) for right in _RULES}
        (folder / "bus.toml").write_text(_config(keys))
        with log.open("w") as errors, _process(folder, errors.fileno()) as process:
            yield _description(_connection_string(process, log), keys)


def _config(keys: Mapping[str, str]) -> str:
    return "".join(
        f'[[rules]]\nkey_name = "{right.lower()}"\nprimary_key = "{key}"\n'
        f'rights = ["{right}"]\n'
        for right, key in keys.items()
    )


@contextlib.contextmanager
def _process(folder: Path, errors: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "twinbus", "serve", "--port", "0"),
            *("--tls-port", "0", "--data", "data", "--config", "bus.toml"),
        ],
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _environment() -> dict[str, str]:
    """Ours, without settings meant for another bus."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TWINBUS_") or name == "TWINBUS_PURE"
    }


def _connection_string(process: subprocess.Popen[str], log: Path) -> str:
    """What it prints before `ready`; a bus that never says so is ended."""
    overdue = threading.Timer(START_PATIENCE_SECONDS, process.kill)
    overdue.start()
    found = ""
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("Endpoint="):
                found = line.strip()
            if line.strip() == "ready" and found:
                return found
    finally:
        overdue.cancel()
    raise CannotRun(f"`twinbus serve` did not get ready; its log is {log}")


def _description(connection_string: str, keys: Mapping[str, str]) -> Mapping[str, str]:
    root = parse_connection_string(connection_string)
    restricted = {
        right: replace(root, key_name=right.lower(), key=key)
        for right, key in keys.items()
    }
    return {
        "SB_CONNECTION_STRING": connection_string,
        "SB_HTTP_ENDPOINT": f"http://127.0.0.1:{root.port}",
        **{
            f"SB_{right.upper()}_CONNECTION_STRING": own.reveal()
            for right, own in restricted.items()
        },
    }


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
