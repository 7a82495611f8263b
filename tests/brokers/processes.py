"""Brokers that share stores, as processes that a test may kill, freeze and stop.

What they announce is read from the catalog, as other brokers read it.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crash.server_process import environment
from free_port import free_port

from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Symbol
from twinbus.client import ClientConnection, connect
from twinbus.client.management import ask_namespace
from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.config.config import ROOT_KEY_NAME
from twinbus.store.process_identity import is_running
from twinbus.store.sqlite_catalog import SqliteCatalog

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 60.0

STORES = ("a", "b", "c", "d")


class Brokers:
    """One data folder, and the processes that serve it; `with` makes sure of their
    end."""

    def __init__(self, folder: Path, stores: tuple[str, ...] = STORES) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.stores = [self.data / f"{name}.sqlite3" for name in stores]
        self.processes: list[subprocess.Popen[str]] = []
        # Of the process that was started last.
        self.port = 0
        # Of those that joined, by their names; all others share the first.
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Brokers whose supervisor was killed are not our children.
        pids = [one.process for one in self._last_seen() if is_running(one.process)]
        for process in self.processes:
            process.kill()
        for identity in pids:
            if is_running(identity):
                os.kill(identity.pid, signal.SIGKILL)
        for process in self.processes:
            process.communicate(timeout=PATIENCE_SECONDS)

    def _last_seen(self) -> list[Announcement]:
        try:
            return asyncio.run(self._read_once())
        except Exception:
            return []

    async def _read_once(self) -> list[Announcement]:
        catalog = SqliteCatalog(self.data / "catalog.sqlite3")
        await catalog.open()
        try:
            found = [announcement_of(record) for record in await catalog.brokers()]
        finally:
            await catalog.close()
        return [one for one in found if one is not None]

    async def cluster_key(self) -> bytes:
        catalog = SqliteCatalog(self.data / "catalog.sqlite3")
        await catalog.open()
        try:
            return await catalog.cluster_key()
        finally:
            await catalog.close()

    # --- processes ------------------------------------------------------------

    def spawn(self, *flags: str) -> subprocess.Popen[str]:
        urls = [f"--store=sqlite:///{store}" for store in self.stores]
        self.port = free_port()
        ports = ("--http-port=0", "--tls-port=0", f"--port={self.port}")
        with (self.folder / "stderr").open("a") as errors:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "twinbus", "serve", "--data=data"),
                    *(*urls, *ports, "--log-level=info", *flags),
                ],
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.processes.append(process)
        self.ports.setdefault("", self.port)
        if "--join" in flags:
            self.ports[f"of process {process.pid}"] = self.port
        return process

    async def start(self, *flags: str) -> subprocess.Popen[str]:
        """Start it, and wait for the line `ready`."""
        process = self.spawn(*flags)
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = await asyncio.to_thread(_lines_until_ready, process)
        assert lines[-1:] == ["ready"], f"{lines} {self.log}"
        return process

    @property
    def log(self) -> str:
        return (self.folder / "stderr").read_text()

    # --- what is seen of them -------------------------------------------------

    async def announced(self) -> list[Announcement]:
        return await self._read_once()

    async def alive(self) -> dict[str, Announcement]:
        """Brokers whose processes run, by name."""
        found = await self.announced()
        return {one.name: one for one in found if is_running(one.process)}

    async def shares(self) -> dict[str, int]:
        """How many stores each broker that runs serves."""
        alive = await self.alive()
        owners = owners_of_stores(alive.values())
        counts = dict.fromkeys(alive, 0)
        for store, owner in owners.items():
            counts[owner.name] += owner.stores[store] > 0
        return counts

    async def owns_all(self, *names: str) -> bool:
        """These brokers run, and serve all stores in equal shares."""
        shares = await self.shares()
        counts = shares.values()
        return (
            set(names) == shares.keys()
            and sum(counts) == len(self.stores)
            and max(counts) - min(counts) <= 1
        )

    async def connect(self, name: str) -> ClientConnection:
        """A connection to this broker, with all rights."""
        port = self.ports.get(name, self.ports[""])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                sasl = plain(ROOT_KEY_NAME, self.root_key)
                connection = await connect("127.0.0.1", port, sasl=sasl)
                # Several brokers accept from one port.
                if connection.peer_properties.get(Symbol("twinbus:broker")) == name:
                    return connection
                await connection.close()

    @property
    def root_key(self) -> str:
        return (self.data / "root-key").read_text().strip()

    async def ask(self, name: str, operation: str, **arguments: str) -> Any:
        """A request about entities to this broker. Raises ServiceBusError."""
        async with await self.connect(name) as connection:
            return await ask_namespace(connection, operation, arguments)

    async def paths(self, name: str) -> set[str]:
        """The entities that this broker knows."""
        found: list[Mapping[str, Any]] = await self.ask(name, "list-entities")
        return {one["path"] for one in found}


def _lines_until_ready(process: subprocess.Popen[str]) -> list[str]:
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == "ready":
            break
    return lines


async def until(
    is_so: Callable[[], Awaitable[bool]], seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait for a condition; fails if it takes longer."""
    async with asyncio.timeout(seconds):
        while not await is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


def as_json(**values: object) -> str:
    return json.dumps(values)
