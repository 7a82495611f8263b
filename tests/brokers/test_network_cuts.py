"""Machines that are cut off: nothing is lost, and no store has two owners.

Each broker is on a machine of its own, as far as the network and process ids go.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bench.postgres_server import PostgresMissing
from twinbus.cluster.terms import TERM_MS

from .commit_book import (
    MESSAGE,
    CommitBook,
    Note,
    check_fences,
    first_kept,
    replaced_at,
)
from .machines import Machines, NetworkedPostgres
from .networks import Networks, NoNamespaces
from .processes import as_json, until
from .traffic import Book, Traffic

STORE_COUNT = 4
LOCK_SECONDS = 5


@pytest.fixture
def networks() -> Iterator[Networks]:
    try:
        made = Networks("m1", "m2").__enter__()
    except NoNamespaces as why:
        pytest.skip(f"network namespaces cannot be made: {why}")
    try:
        yield made
    finally:
        made.__exit__(None, None, None)


@pytest.fixture
def server(networks: Networks) -> Iterator[NetworkedPostgres]:
    try:
        made = NetworkedPostgres(networks.address("hub", "data")).__enter__()
    except PostgresMissing as why:
        pytest.skip(str(why))
    try:
        yield made
    finally:
        made.__exit__()


@pytest.fixture
def commits(server: NetworkedPostgres) -> CommitBook:
    return CommitBook.begin(server.conninfo)


@pytest.fixture
def machines(
    networks: Networks, server: NetworkedPostgres, commits: CommitBook, tmp_path: Path
) -> Iterator[Machines]:
    with Machines(tmp_path, server.url, STORE_COUNT, networks) as made:
        yield made


class Cluster:
    """Two machines with a queue each, and clients at both."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.names: list[str] = []
        # The queue in a store of the first broker, and of the second.
        self.traffic: list[Traffic] = []

    async def start(self) -> None:
        for machine in ("m1", "m2"):
            self.names.append(await self.machines.start_on(machine))
        await until(self.is_shared)
        for number, name in enumerate(self.names):
            queue = f"q{number}"
            # What was delivered when the cable was pulled out comes again soon.
            given = as_json(lock_duration_ms=1_000 * LOCK_SECONDS)
            await self.machines.ask(name, "create-queue", path=queue, properties=given)
            self.traffic.append(Traffic(self.machines, queue, LOCK_SECONDS))
            self.traffic[-1].start(*self.names)
        await self.goes_on()

    async def is_shared(self) -> bool:
        half = STORE_COUNT // 2
        return await self.machines.owned() == dict.fromkeys(self.names, half)

    async def goes_on(self) -> None:
        """Everybody reaches everything."""
        await asyncio.gather(
            *(one.goes_on(name) for one in self.traffic for name in self.names)
        )

    async def finish(self, commits: CommitBook) -> None:
        """Nothing is lost, and whatever was done, the owner of that time did it."""
        await asyncio.gather(*(one.finish() for one in self.traffic))
        notes = commits.notes()
        for one in self.traffic:
            check_owners(one.book, notes)

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in self.traffic))


@pytest.fixture
async def cluster(machines: Machines) -> AsyncIterator[Cluster]:
    made = Cluster(machines)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


def check_owners(book: Book, notes: list[Note]) -> None:
    """What clients saw was done by the owner of that moment, and by nobody else."""
    check_fences(notes)
    kept = first_kept(notes)
    for name, at in book.acknowledged.items():
        assert kept[name].at < at, f"{name} was acknowledged before it was kept"
    (schema,) = {
        kept[name].schema for name in book.acknowledged if kept[name].kind == MESSAGE
    }
    replaced = replaced_at(notes, schema)
    for one in book.deliveries:
        assert one.sent_at < replaced.get(one.epoch, math.inf), f"{one}: an old owner"
    for name, epoch in book.completed_in.items():
        at = book.completed[name]
        assert at < replaced.get(epoch, math.inf), f"{name}: completed by an old owner"


@pytest.mark.timeout(300)
async def test_broker_that_is_cut_off_from_the_database_is_replaced(
    cluster: Cluster, networks: Networks, commits: CommitBook
) -> None:
    """Its clients still reach it. It delivers and settles nothing any more. What they
    send is refused, or passed on to the broker that has replaced it: that one keeps
    messages for stores that nobody serves, as far as the first one knows."""
    cut_off, other = cluster.names
    mine = cluster.traffic[0]
    networks.cut("m1", "data")

    async def is_replaced() -> bool:
        return await cluster.machines.owned() == {other: STORE_COUNT}

    await until(is_replaced, 30)
    replaced_at = time.time()
    await asyncio.gather(*(one.goes_on(other) for one in cluster.traffic))
    mine.book.check()
    assert mine.book.delivered_by(cut_off, replaced_at) == []
    health = cluster.machines.health
    assert (await health(cut_off)).startswith("503 unhealthy\ncatalog: it could not be")
    assert await health(other) == "200 healthy\n"
    kept = first_kept(commits.notes())
    for name in mine.book.acknowledged_since(cut_off, replaced_at):
        assert kept[name].machine == networks.address("m2", "data"), kept[name]
    networks.mend("m1", "data")
    await until(cluster.is_shared)
    assert await health(cut_off) == "200 healthy\n"
    await cluster.goes_on()
    await cluster.finish(commits)


@pytest.mark.timeout(300)
async def test_broker_that_is_cut_off_from_clients_keeps_its_stores(
    cluster: Cluster, networks: Networks, commits: CommitBook
) -> None:
    """Other brokers do not reach it either. The database says that it lives, so nobody
    takes what it has; what others own is not affected."""
    cut_off, other = cluster.names
    before = await cluster.machines.beat_of(cut_off)
    networks.cut("m1", "front")
    cut_at = time.time()

    async def has_beaten() -> bool:
        beats = await cluster.machines.beat_of(cut_off) - before
        return beats > 1.5 * TERM_MS / 1000

    await until(has_beaten)
    assert await cluster.is_shared()
    await cluster.traffic[1].goes_on(other)
    alone = cluster.traffic[0].book
    # What was on its way when the cable was pulled out may still have come.
    assert alone.acknowledged_since(other, cut_at + 1) == []
    assert alone.delivered_by(other, cut_at + 1) == []
    networks.mend("m1", "front")
    await cluster.goes_on()
    assert await cluster.is_shared()
    await cluster.finish(commits)


async def test_address_that_others_cannot_reach_is_refused(
    machines: Machines,
) -> None:
    await machines.start_on("m1")
    for flags, text in (
        (("--host=127.0.0.1",), "cannot reach this one at 127.0.0.1:"),
        (("--host=0.0.0.0",), "cannot reach this one at 127.0.0.1:"),
        (("--peer-host=10.231.2.77",), "is no address of this machine"),
    ):
        refused = machines.spawn_on("m2", *flags)
        assert await asyncio.to_thread(refused.wait, 30) != 0
        last = machines.log.splitlines()[-1]
        assert text in last and "--peer-host" in last
    assert len(await machines.announced()) == 1
