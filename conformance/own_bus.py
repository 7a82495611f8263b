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

from bench.free_port import free_port
from conformance.setups import ONE, PLAIN, SECURE, WEBSOCKETS, flags_of
from conformance.vendor import CannotRun
from twinbus.client.connection_string import parse_connection_string

# Bounds against hanging; never waited out.
START_PATIENCE_SECONDS = 180.0
STOP_PATIENCE_SECONDS = 30.0

_RULES = ("Listen", "Send")


@contextlib.contextmanager
def own_bus(
    log: Path, setup: str = ONE, transport: str = PLAIN
) -> Iterator[Mapping[str, str]]:
    """Start it; gives the variables that describe it to the tests."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        folder = Path(name)
        keys = {right: secrets.token_urlsafe(32) for right in _RULES}
        (folder / "bus.toml").write_text(_config(keys))
        with (
            log.open("w") as errors,
            flags_of(setup, folder) as flags,
            _process(folder, errors.fileno(), (*_ports(transport), *flags)) as process,
        ):
            printed = _connection_string(process, log)
            yield _description(printed, keys, transport, folder)


def _ports(transport: str) -> tuple[str, ...]:
    if transport not in SECURE:
        return ("--port", str(free_port()), "--tls-port", "0")
    # The same number: TLS at the main port, and no other.
    port = str(free_port())
    return ("--port", port, "--tls-port", port)


def _config(keys: Mapping[str, str]) -> str:
    return "".join(
        f'[[rules]]\nkey_name = "{right.lower()}"\nprimary_key = "{key}"\n'
        f'rights = ["{right}"]\n'
        for right, key in keys.items()
    )


@contextlib.contextmanager
def _process(
    folder: Path, errors: int, flags: tuple[str, ...]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "twinbus", "serve", "--http-port", "0"),
            *("--data", "data", "--config", "bus.toml"),
            *flags,
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


def _description(
    printed: str, keys: Mapping[str, str], transport: str, folder: Path
) -> Mapping[str, str]:
    port = parse_connection_string(printed).port
    is_secure = transport in SECURE
    text = printed
    if is_secure:
        parts = (part for part in printed.split(";") if part)
        text = ";".join(part for part in parts if "UseDevelopment" not in part)
    root = parse_connection_string(text)
    restricted = {
        right: replace(root, key_name=right.lower(), key=key)
        for right, key in keys.items()
    }
    return {
        "SB_CONNECTION_STRING": text,
        "SB_HTTP_ENDPOINT": f"http{'s' if is_secure else ''}://localhost:{port}",
        "SB_WS_ENDPOINT": f"ws{'s' if is_secure else ''}://localhost:{port}",
        **({"SB_WS_ONLY": "1"} if transport in WEBSOCKETS else {}),
        **({"SB_CA_FILE": str(folder / "data/tls/ca.pem")} if is_secure else {}),
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
