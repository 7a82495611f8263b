"""Brokers with data folders of their own, that share a catalog in PostgreSQL."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from crash import messages

from bench.postgres_server import PostgresServer
from twinbus.cli import exit_codes
from twinbus.errors import ServiceBusError

from .machines import Machines
from .processes import until
from .traffic import Traffic

OUTAGE_SECONDS = 8.0
"""Longer than a term: silent brokers would have been replaced by then."""


@pytest.fixture
def machines(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Machines]:
    with Machines(tmp_path, postgres_server.url, 2) as made:
        yield made


async def test_brokers_with_folders_of_their_own_share_stores_and_key(
    machines: Machines,
) -> None:
    first, second = await machines.start_on("a"), await machines.start_on("b")

    async def is_shared() -> bool:
        return await machines.owned() == {first: 1, second: 1}

    await until(is_shared)
    await machines.ask(first, "create-queue", path="q", properties="{}")
    async with await machines.connect(second) as connection:
        sender = await connection.sender("q")
        await sender.send(messages.named("m"))
    os.kill(machines.processes[0].pid, signal.SIGKILL)

    async def is_taken() -> bool:
        return await machines.owned() == {second: 2}

    await until(is_taken, 10)
    async with await machines.connect(second) as connection:
        assert len(await messages.peek_all(connection, "q")) == 1
    assert not (machines.folder / "b" / "root-key").exists(), "it is in the catalog"


async def test_supervised_brokers_share_with_those_of_other_machines(
    machines: Machines,
) -> None:
    await machines.start_on("a", "--brokers=2")
    await machines.start_on("b")
    names = {one.name for one in await machines.announced()}
    host = os.uname().nodename
    assert {f"1 on {host}", f"2 on {host}"} < names and len(names) == 3


async def test_broker_that_does_not_fit_is_refused(machines: Machines) -> None:
    first = await machines.start_on("a")
    stores = machines.store_urls
    for given, flags, text in (
        (stores[:1], (), "has other stores"),
        ([*stores, machines.url("more")], (), "The catalog does not know the store"),
        (stores, ("--namespace=other",), "for the namespace 'twinbus'"),
    ):
        machines.store_urls = given
        refused = machines.spawn_on("b", *flags)
        code = await asyncio.to_thread(refused.wait, 30)
        assert code in (exit_codes.USAGE, exit_codes.UNREADABLE)
        assert text in machines.log.splitlines()[-1]
    assert [one.name for one in await machines.announced()] == [first]


async def test_duplicate_of_a_broker_is_refused(machines: Machines) -> None:
    await machines.start_on("a", "--peer-port=0")
    (one,) = await machines.announced()
    port = one.address.rpartition(":")[2]
    refused = machines.spawn_on("b", f"--peer-port={port}")
    assert await asyncio.to_thread(refused.wait, 30) == exit_codes.PORT
    assert "--peer-port" in machines.log.splitlines()[-1]
    assert len(await machines.announced()) == 1


# --- an outage of the catalog ---------------------------------------------------------


@pytest.fixture
def catalog_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def _epochs(server: PostgresServer, machines: Machines) -> list[int]:
    """Of all stores: who took one has raised it."""
    schemas = [re.findall("schema=([^&]*)", url)[0] for url in machines.store_urls]
    with psycopg.connect(server.conninfo) as db:
        found = [db.execute(f"SELECT epoch FROM {one}.lease") for one in schemas]
        return [row[0] for one in found for row in one.fetchall()]


async def test_outage_of_the_catalog_stops_management_only(
    machines: Machines, postgres_server: PostgresServer, catalog_server: PostgresServer
) -> None:
    machines.catalog_url = catalog_server.url("catalog")
    names = [await machines.start_on("a"), await machines.start_on("b")]

    async def is_shared() -> bool:
        return await machines.owned() == dict.fromkeys(names, 1)

    await until(is_shared)
    traffic = []
    for number, name in enumerate(names):
        path = f"q{number}"
        await machines.ask(name, "create-queue", path=path, properties="{}")
        traffic.append(Traffic(machines, path))
        traffic[-1].start(*names)
    try:
        everything = [(one, name) for one in traffic for name in names]
        await asyncio.gather(*(one.goes_on(name) for one, name in everything))
        before = _epochs(postgres_server, machines)
        catalog_server.kill()
        killed_at = time.monotonic()
        while time.monotonic() < killed_at + OUTAGE_SECONDS:
            await asyncio.gather(*(one.goes_on(name) for one, name in everything))
        for name in names:
            # A load balancer keeps them: they serve what they have.
            assert (await machines.health(name)).startswith("200 degraded\ncatalog: ")
        with pytest.raises(ServiceBusError, match="The catalog is away"):
            await machines.ask(names[0], "create-queue", path="new", properties="{}")
        catalog_server.start()

        async def can_create() -> bool:
            try:
                path, given = "new", "{}"
                await machines.ask(
                    names[0], "create-queue", path=path, properties=given
                )
            except ServiceBusError:
                return False
            return True

        await until(can_create)
        await until(is_shared)
        assert _epochs(postgres_server, machines) == before, "nobody took a store"
        await asyncio.gather(*(one.finish() for one in traffic))
    finally:
        await asyncio.gather(*(one.stop() for one in traffic))
