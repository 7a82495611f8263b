"""A bus and one client in a network of their own, so that well-known ports are free.

SDKs look for AMQP on 5671, for administration on 443, and some cannot be told other
ports. `unshare` (Linux) gives a process a network in which nobody else listens; this
module is what runs in there: it brings up the loopback device, starts the bus as the
README does, and then the client's program.

    python -m conformance.clients.alone NAME TRANSPORT FOLDER RESULT
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.clients.declared import HERE, Client, chosen
from conformance.clients.preparation import placed
from conformance.vendor import CannotRun

ROOT = HERE.parents[1]

# Bounds against hanging; never waited out.
START_PATIENCE_SECONDS = 60.0
STOP_PATIENCE_SECONDS = 30.0

# Of Linux, <linux/sockios.h> and <net/if.h>.
_SIOCSIFFLAGS = 0x8914
_UP_AND_RUNNING = 0x1 | 0x40

_KEY_NAME = "RootManageSharedAccessKey"

# Where clients look for messages and for administration, by transport.
_PORTS = {
    "plain": ("5672", "5300"),
    "tls": ("5671", "443"),
    "ws": ("80", "80"),
    "wss": ("443", "443"),
}


def command(client: Client, transport: str, folder: Path, result: Path) -> list[str]:
    """What runs this module in a network of its own. Raises CannotRun."""
    if shutil.which("unshare") is None:
        raise CannotRun("a network of its own needs `unshare`, of util-linux")
    # Only root may have one for the asking; anybody may as root of a user namespace.
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    return [
        *("unshare", "--net", *rights, sys.executable, "-m", __spec__.name),
        *(client.name, transport, str(folder), str(result)),
    ]


def main() -> int:
    name, transport, folder, result = sys.argv[1:]
    [client] = chosen([name])
    _bring_up_loopback()
    log = Path(result).with_suffix(".log")
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as data,
        log.open("w") as to,
    ):
        with _bus(Path(data), transport, to.fileno()):
            told = _program(client, Path(folder), _description(data, transport), to)
    Path(result).write_text(json.dumps(told))
    return 0


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", _UP_AND_RUNNING)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


@contextlib.contextmanager
def _bus(data: Path, transport: str, log: int) -> Iterator[None]:
    """As `make run` starts it, with a few entities more."""
    config = data / "bus.toml"
    config.write_text(
        (ROOT / "examples" / "bus.toml").read_text()
        + (HERE / "entities.toml").read_text()
    )
    # Some SDKs look for administration and WebSockets on the usual port only.
    further = ["--http-port", _PORTS[transport][1]]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "twinbus", "serve", "--data", str(data / "data")),
            *("--config", str(config), *further),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        _wait_until_ready(process)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[str]) -> None:
    overdue = threading.Timer(START_PATIENCE_SECONDS, process.kill)
    overdue.start()
    assert process.stdout is not None
    try:
        if not any(line.strip() == "ready" for line in process.stdout):
            raise CannotRun("`twinbus serve` did not get ready")
    finally:
        overdue.cancel()


def _description(folder: str, transport: str) -> Mapping[str, str]:
    """What the program is told; README.md explains each."""
    data = Path(folder) / "data"
    key = (data / "root-key").read_text().strip()
    credentials = f"SharedAccessKeyName={_KEY_NAME};SharedAccessKey={key}"
    plain = f"Endpoint=sb://localhost:5672;{credentials};UseDevelopmentEmulator=true"
    tls = f"Endpoint=sb://localhost;{credentials}"
    port, http_port = _PORTS[transport]
    return {
        "SB_TRANSPORT": transport,
        "SB_CONNECTION_STRING": plain if transport in ("plain", "ws") else tls,
        "SB_PLAIN_CONNECTION_STRING": plain,
        "SB_TLS_CONNECTION_STRING": tls,
        "SB_HOST": "localhost",
        "SB_PORT": port,
        "SB_HTTP_PORT": http_port,
        "SB_KEY_NAME": _KEY_NAME,
        "SB_KEY": key,
        "SB_CA_FILE": str(data / "tls" / "ca.pem"),
        "SB_TRUST_STORE": str(data / "tls" / "trust.p12"),
    }


def _program(
    client: Client, folder: Path, description: Mapping[str, str], log: Any
) -> dict[str, Any]:
    """What the client's program said of each case, and how it ended."""
    trusting = {
        "NODE_EXTRA_CA_CERTS": description["SB_CA_FILE"],
        "SSL_CERT_FILE": description["SB_CA_FILE"],
    }
    process = subprocess.Popen(
        placed(client.run, client, folder),
        cwd=folder,
        env={**os.environ, **trusting, **description},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    overdue = threading.Timer(client.patience_seconds, process.kill)
    overdue.start()
    assert process.stdout is not None
    cases: dict[str, Any] = {}
    try:
        for line in process.stdout:
            log.write(line)
            log.flush()
            if told := _told(line):
                cases[told["case"]] = {"ok": told["ok"], "text": told.get("text", "")}
    finally:
        overdue.cancel()
        process.kill()
        exit_code = process.wait()
    return {"cases": cases, "exit_code": exit_code}


def _told(line: str) -> dict[str, Any] | None:
    """A line that speaks of a case; SDKs and runtimes may print others."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and {"case", "ok"} <= set(told) else None


if __name__ == "__main__":
    sys.exit(main())
