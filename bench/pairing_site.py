"""A namespace for the benches of pairs: `twinbus serve` that can be killed and frozen.

It keeps its data, its port and its key, so that a start after a kill is a recovery. TLS
and plain TCP share the port: the SDK's administration client speaks no other.
"""

import asyncio
import secrets
import signal
import time
from pathlib import Path

from azure.servicebus.aio.management import ServiceBusAdministrationClient

from bench.free_port import free_port
from bench.pairing_process import PATIENCE_SECONDS, LineProcess, until
from twinbus.config.config import local_connection_string


class Site:
    """One namespace; its name is that of its process."""

    def __init__(self, name: str, folder: Path, config: str = "") -> None:
        self.name = name
        self._folder = folder / name
        self._folder.mkdir()
        self._port = free_port()
        self._key = secrets.token_urlsafe(32)
        (self._folder / "bus.toml").write_text(config)
        self._is_ready = asyncio.Event()
        self.process = LineProcess(name, folder, self._arguments(), self._heard)

    def _arguments(self) -> list[str]:
        port = str(self._port)
        return [
            *("-m", "twinbus", "serve", "--namespace", self.name),
            *("--config", str(self._folder / "bus.toml")),
            *("--data", str(self._folder / "data")),
            *("--port", port, "--tls-port", port, "--http-port", "0"),
            *("--key", self._key),
        ]

    def _heard(self, line: str) -> None:
        if line == "ready":
            self._is_ready.set()

    @property
    def connection_string(self) -> str:
        return local_connection_string("localhost", self._port, self._key)

    @property
    def ca_file(self) -> str:
        return str(self._folder / "data" / "tls" / "ca.pem")

    def administration(self) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient.from_connection_string(
            self.connection_string, connection_verify=self.ca_file
        )

    async def start(self) -> float:
        """Start it and wait for `ready`; when that was."""
        self._is_ready.clear()
        await self.process.start()
        await until(
            self._is_ready.is_set, "ready", PATIENCE_SECONDS, [self.process], 0.01
        )
        return time.monotonic()

    async def kill(self) -> None:
        """SIGKILL: what is not on disk or on the wire now never will be."""
        await self.process.kill()

    def freeze(self) -> None:
        """SIGSTOP: its connections stay, and nobody answers."""
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)

    async def waiting_count(self, prefix: str = "") -> int:
        """Messages in all queues whose path begins so, dead letters included."""
        async with self.administration() as administration:
            return sum(
                [
                    queue.total_message_count or 0
                    async for queue in administration.list_queues_runtime_properties()
                    if queue.name.startswith(prefix)
                ]
            )

    async def stop(self) -> None:
        await self.process.stop()
