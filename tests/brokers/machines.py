"""Brokers of several machines: each has a data folder of its own, and they share a
catalog and stores in PostgreSQL."""

import asyncio
import os
import secrets
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import forked_command
from crash.server_process import environment
from forked_command import COMMAND, AnyProcess

from bench.free_port import free_port
from bench.postgres_server import TEST_SETTINGS, PostgresServer
from twinbus.amqp.sasl import plain
from twinbus.client import ClientConnection, connect
from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.config.config import ROOT_KEY_NAME
from twinbus.store.postgres_catalog import PostgresCatalog

from .networks import Networks
from .processes import PATIENCE_SECONDS, Brokers

AMQP_PORT = 5672


class NetworkedPostgres(PostgresServer):
    """A server that other machines of a test can reach."""

    def __init__(self, address: str) -> None:
        settings = [one for one in TEST_SETTINGS if not one.startswith("listen_")]
        super().__init__((*settings, f"listen_addresses={address}"))
        self._address = address

    def start(self) -> None:
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.231.0.0/16 trust\n")
        super().start()

    def url(self, schema: str, **options: str) -> str:
        """Over the network: the socket in its folder cannot be cut."""
        return super().url(schema, host=self._address, **options)


class Machines(Brokers):
    """Broker processes, by name; `with` makes sure of their end."""

    def __init__(
        self,
        folder: Path,
        url: Callable[[str], str],
        store_count: int,
        networks: Networks | None = None,
    ) -> None:
        """Without `networks` all are on this machine."""
        super().__init__(folder, stores=())
        self._prefix = f"m_{secrets.token_hex(6)}"
        self._url = url
        self.catalog_url = self.url("catalog")
        self.store_urls = [self.url(f"store_{n}") for n in range(store_count)]
        self._networks = networks
        # The address and port of each broker for clients, by its name.
        self.places: dict[str, tuple[str, int]] = {}
        self.key = ""

    def url(self, name: str) -> str:
        """Of a schema that no other test has."""
        return self._url(f"{self._prefix}_{name}")

    # --- processes ------------------------------------------------------------

    def spawn_on(self, machine: str, *flags: str) -> AnyProcess:
        stores = [f"--store={url}" for url in self.store_urls]
        command: tuple[str, ...] = ()
        host, port = "127.0.0.1", free_port()
        if self._networks is not None:
            command = self._networks.command(machine)
            host, port = self._networks.address(machine), AMQP_PORT
        with (self.folder / "stderr").open("a") as errors:
            process = forked_command.start(
                (
                    *("serve", f"--data={machine}", f"--catalog={self.catalog_url}"),
                    *(*stores, f"--host={host}", f"--port={port}", "--http-port=0"),
                    *("--tls-port=0", "--log-level=info", *flags),
                ),
                cwd=self.folder,
                env=environment(),
                stderr=errors,
                program=(*command, *COMMAND) if command else (),
            )
        self.processes.append(process)
        self.places[self._name(machine, process)] = (host, port)
        return process

    def _name(self, machine: str, process: AnyProcess) -> str:
        if self._networks is not None:
            # The first process there.
            return f"of process 1 on {machine}"
        return f"of process {process.pid} on {os.uname().nodename}"

    async def start_on(self, machine: str, *flags: str) -> str:
        """Start it, and wait for the line `ready`; returns its name."""
        process = self.spawn_on(machine, *flags)
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = await asyncio.to_thread(_until_ready, process)
        assert lines[-1:] == ["ready"], f"{lines} {self.log}"
        if not self.key:
            catalog = PostgresCatalog(self.catalog_url)
            self.key = await asyncio.to_thread(catalog.root_key, "")
        return self._name(machine, process)

    # --- what is seen of them -------------------------------------------------

    async def announced(self) -> list[Announcement]:
        catalog = PostgresCatalog(self.catalog_url)
        await catalog.open()
        try:
            found = [announcement_of(record) for record in await catalog.brokers()]
        finally:
            await catalog.close()
        return [one for one in found if one is not None]

    async def owned(self) -> dict[str, int]:
        """How many stores each broker serves, by the last epochs."""
        counts: dict[str, int] = {}
        for uuid, owner in owners_of_stores(await self.announced()).items():
            if owner.stores[uuid] > 0:
                counts[owner.name] = counts.get(owner.name, 0) + 1
        return counts

    async def beat_of(self, name: str) -> int:
        return {one.name: one.beat for one in await self.announced()}.get(name, 0)

    async def health(self, name: str) -> str:
        """What this broker tells a load balancer: the status, and why."""
        return await asyncio.to_thread(_health, *self.places[name])

    async def connect(self, name: str) -> ClientConnection:
        host, port = self.places[name]
        sasl = plain(ROOT_KEY_NAME, self.key)
        return await connect(host, port, sasl=sasl, timeout_seconds=3.0)


def _health(host: str, port: int) -> str:
    connection = HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode()}"
    finally:
        connection.close()


def _until_ready(process: AnyProcess) -> list[str]:
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == "ready":
            break
    return lines
