"""Brokers that share stores, as processes that a test may kill, freeze and stop.

What they announce is read from the catalog, as other brokers read it.
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import forked_command
from crash.server_process import environment
from forked_command import COMMAND, AnyProcess

from bench.free_port import free_port
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Symbol
from twinbus.client import ClientConnection, connect
from twinbus.client.management import ask_namespace
from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.config.config import ROOT_KEY_NAME
from twinbus.errors import EntityAlreadyExists, ServerBusy
from twinbus.store.process_identity import is_running
from twinbus.store.sqlite_catalog import SqliteCatalog

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 60.0

STORES = ("a", "b", "c", "d")


class Brokers:
    """One data folder, and the processes that serve it; `with` makes sure of their
    end."""

    def __init__(
        self,
        folder: Path,
        stores: tuple[str, ...] = STORES,
        servers: Sequence[str] = (),
    ) -> None:
        """`stores` are names of files; `servers` are URLs of further stores."""
        self.folder = folder
        self.data = folder / "data"
        self.stores = [self.data / f"{name}.sqlite3" for name in stores]
        self.servers = list(servers)
        self.processes: list[AnyProcess] = []
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
        # In a thread, because there may be a loop here.
        with ThreadPoolExecutor(1) as pool:
            try:
                return pool.submit(lambda: asyncio.run(self.announced())).result()
            except Exception:
                return []

    async def placements(self) -> dict[str, set[bytes]]:
        """The stores of each entity, by its path."""
        catalog = SqliteCatalog(self.data / "catalog.sqlite3")
        await catalog.open()
        try:
            found = (await catalog.snapshot()).entities
        finally:
            await catalog.close()
        return {
            one.path: set(one.placement) for one in found if one.kind != "namespace"
        }

    async def cluster_key(self) -> bytes:
        catalog = SqliteCatalog(self.data / "catalog.sqlite3")
        await catalog.open()
        try:
            return await catalog.cluster_key()
        finally:
            await catalog.close()

    # --- processes ------------------------------------------------------------

    def spawn(self, *flags: str, within: Sequence[str] = ()) -> AnyProcess:
        """`within` is a command that runs the one it is given."""
        urls = [f"--store=sqlite:///{store}" for store in self.stores]
        urls += [f"--store={url}" for url in self.servers]
        self.port = free_port()
        ports = ("--http-port=0", "--tls-port=0", f"--port={self.port}")
        with (self.folder / "stderr").open("a") as errors:
            process = forked_command.start(
                ("serve", "--data=data", *urls, *ports, "--log-level=info", *flags),
                cwd=self.folder,
                env=environment(),
                stderr=errors,
                program=(*within, *COMMAND) if within else (),
            )
        self.processes.append(process)
        self.ports.setdefault("", self.port)
        if "--join" in flags:
            self.ports[f"of process {process.pid}"] = self.port
        return process

    async def start(self, *flags: str, within: Sequence[str] = ()) -> AnyProcess:
        """Start it, and wait for the line `ready`."""
        process = self.spawn(*flags, within=within)
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = await asyncio.to_thread(_lines_until_ready, process)
        assert lines[-1:] == ["ready"], f"{lines} {self.log}"
        return process

    @property
    def log(self) -> str:
        return (self.folder / "stderr").read_text()

    # --- what is seen of them -------------------------------------------------

    async def announced(self) -> list[Announcement]:
        return await announced_in(self.data)

    async def alive(self) -> dict[str, Announcement]:
        """Brokers whose processes run, by name."""
        found = await self.announced()
        return {one.name: one for one in found if is_running(one.process)}

    async def kill(self, name: str) -> None:
        """As by SIGKILL; returns when the process is gone. Until then it looks as if
        it ran, and as if it owned its stores."""
        victim = (await self.alive())[name].process
        os.kill(victim.pid, signal.SIGKILL)

        async def is_gone() -> bool:
            return not is_running(victim)

        await until(is_gone)

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
            and sum(counts) == len(self.stores) + len(self.servers)
            and max(counts) - min(counts) <= 1
        )

    async def connect(self, name: str) -> ClientConnection:
        """A connection to this broker, with all rights."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                connection = await self.connect_to_any(name)
                # Several brokers accept from one port.
                if connection.peer_properties.get(Symbol("twinbus:broker")) == name:
                    return connection
                await connection.close()

    async def connect_to_any(self, name: str = "") -> ClientConnection:
        """A connection to whoever accepts at the port of this broker."""
        return await self.connect_at(self.ports.get(name, self.ports[""]))

    async def connect_at(self, port: int) -> ClientConnection:
        sasl = plain(ROOT_KEY_NAME, self.root_key)
        return await connect("127.0.0.1", port, sasl=sasl)

    @property
    def root_key(self) -> str:
        return (self.data / "root-key").read_text().strip()

    async def ask(self, name: str, operation: str, **arguments: str) -> Any:
        """A request about entities to this broker. Raises ServiceBusError."""
        async with await self.connect(name) as connection:
            return await ask_namespace(connection, operation, arguments)

    async def start_three(self, *partitioned: str, **properties: object) -> None:
        """Three brokers that have all stores, and queues with fragments in all."""
        config, text = self.folder / "twinbus.toml", ""
        for path in partitioned:
            text += f'[queues."{path}"]\nenable_partitioning = true\n'
            for name, value in properties.items():
                text += f"{name} = {json.dumps(value)}\n"
        config.write_text(text)
        await self.start("--brokers=3", f"--config={config}")
        await until(lambda: self.owns_all("1", "2", "3"))
        for name in "123":
            await until(lambda name=name: self._finds(name, *partitioned))

    async def _finds(self, name: str, *paths: str) -> bool:
        """This broker knows where all fragments are."""
        found = [await self.ask(name, "get-entity", path=path) for path in paths[:1]]
        return all(one["is_available"] for one in found)

    async def make(self, name: str, kind: str, path: str, **properties: Any) -> None:
        """An entity in a store of this broker, as soon as it is sure of one."""
        is_again = False
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    await self.ask(
                        name,
                        f"create-{kind}",
                        path=path,
                        properties=as_json(**properties),
                    )
                    return
                except ServerBusy:
                    is_again = True
                    await asyncio.sleep(0.1)
                except EntityAlreadyExists:
                    assert is_again
                    return

    async def paths(self, name: str) -> set[str]:
        """The entities that this broker knows."""
        found: list[Mapping[str, Any]] = await self.ask(name, "list-entities")
        return {one["path"] for one in found}


async def announced_in(data: Path) -> list[Announcement]:
    """What brokers on this data folder say of themselves."""
    catalog = SqliteCatalog(data / "catalog.sqlite3")
    await catalog.open()
    try:
        found = [announcement_of(record) for record in await catalog.brokers()]
    finally:
        await catalog.close()
    return [one for one in found if one is not None]


def _lines_until_ready(process: AnyProcess) -> list[str]:
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
