"""What the benches ask of a server: start on fresh data, say where, stop.

One durable queue is enough for every measurement. A server is a context manager,
so that a failing run leaves no process and no folder behind.
"""

import socket
import subprocess
import time
from typing import Protocol, Self

from bench.load_client import Target

START_PATIENCE_SECONDS = 60.0


class ServerFailed(Exception):
    """A server did not start, or ended on its own."""


class Server(Protocol):
    """A running server with one durable queue."""

    @property
    def target(self) -> Target:
        """Where to send the load."""

    @property
    def pid(self) -> int:
        """The root of the server's process tree."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when the port accepts connections; raise when the process ended."""
    deadline = time.monotonic() + START_PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise ServerFailed(f"nothing listens on port {port}")
