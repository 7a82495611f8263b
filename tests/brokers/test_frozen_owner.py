"""An owner that is stopped, also in the middle of a commit, is replaced; and when it
wakes up, it cannot write, deliver or settle any more.

One on the same machine is killed. One that cannot be seen from here, because it has
process ids of its own, is not: it lives, and wakes up with everything in memory.
"""

import asyncio
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from random import Random
from uuid import UUID

import psycopg
import pytest
from crash import messages

from bench.postgres_server import PostgresServer
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.types import AmqpArray
from twinbus.client import ClientConnection, ClientReceiver
from twinbus.client.errors import ClientError
from twinbus.client.management import ask_namespace
from twinbus.errors import ServiceBusError
from twinbus.store.process_identity import is_running

from .processes import Brokers, until
from .sending import AcknowledgedSends

TAKEOVER_SECONDS = 10.0
_UUID = 0x98
_TROUBLE = (ClientError, ServiceBusError, OSError, TimeoutError)
_APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def _is_locked(file: Path) -> bool:
    """Somebody is in the middle of a write."""
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


async def _stop_amid_a_commit(pid: int, file: Path) -> None:
    """Stop the process while it writes to the file."""
    random = Random(7)
    async with asyncio.timeout(30):
        while True:
            os.kill(pid, signal.SIGSTOP)
            if _is_locked(file):
                return
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(random.uniform(0.001, 0.02))


async def test_owner_stopped_amid_a_commit_to_a_file_is_replaced(
    tmp_path: Path,
) -> None:
    with Brokers(tmp_path, ("a", "b")) as brokers:
        await brokers.start("--brokers=2")
        await brokers.ask("1", "create-queue", path="q", properties="{}")
        frozen = (await brokers.alive())["1"]
        (store,) = (await brokers.placements())["q"]
        assert store in frozen.stores
        sends = AcknowledgedSends(brokers, "q", 100_000)
        sending = asyncio.create_task(sends.run())
        await sends.have_more(20)
        files = [file for file in brokers.stores if _uuid_of(file) == store]
        await _stop_amid_a_commit(frozen.process.pid, files[0])
        stopped_at = time.monotonic()
        await sends.have_more(5)
        assert time.monotonic() - stopped_at < TAKEOVER_SECONDS
        assert not is_running(frozen.process)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

        async def are_found() -> bool:
            try:
                async with await brokers.connect_to_any() as connection:
                    found = await messages.peek_all(connection, "q")
            except _TROUBLE:
                # The store moves on to the broker that replaces the frozen one.
                return False
            return sends.names <= {one.name for one in found}

        await until(are_found)


def _uuid_of(file: Path) -> bytes:
    with closing(sqlite3.connect(file)) as db:
        (uuid,) = db.execute("SELECT store_uuid FROM meta").fetchone()
    return bytes(uuid)


# --- one that cannot be killed --------------------------------------------------------


def _can_be_apart() -> bool:
    if shutil.which(_APART[0]) is None:
        return False
    return subprocess.run([*_APART, "true"], capture_output=True).returncode == 0


needs_namespaces = pytest.mark.skipif(
    not _can_be_apart(), reason="this user may not make a namespace of process ids"
)


class ApartBrokers:
    """A store in PostgreSQL, and two brokers that cannot see each other's processes.
    The first one owns the store."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self._server = server
        self._schema = f"t_{secrets.token_hex(8)}"
        self.brokers = Brokers(folder, (), [server.url(self._schema)])
        self._ports: list[int] = []
        # Of the first one, as it is seen from here; and the epoch in which it owns.
        self._pid = 0
        self._epoch = 0

    async def start(self) -> None:
        first = await self.brokers.start("--join", within=_APART)
        (self._pid,) = _children(first.pid)
        self._ports.append(self.brokers.port)
        async with await self.connect(0) as connection:
            asked = {"path": "q", "properties": "{}"}
            await ask_namespace(connection, "create-queue", asked)
        self._epoch = await self._highest_epoch()
        await self.brokers.start("--join")
        self._ports.append(self.brokers.port)

    async def _highest_epoch(self) -> int:
        found = await self.brokers.announced()
        return max(epoch for one in found for epoch in one.stores.values())

    async def connect(self, index: int) -> ClientConnection:
        return await self.brokers.connect_at(self._ports[index])

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    async def until_replaced(self) -> None:
        """By the second one."""

        async def is_taken() -> bool:
            return await self._highest_epoch() > self._epoch

        await until(is_taken, TAKEOVER_SECONDS)

    def hold_commits(self) -> psycopg.Connection[tuple[object, ...]]:
        """Commits wait until this connection is closed."""
        db = psycopg.connect(self._server.conninfo)
        db.execute(f"SELECT 1 FROM {self._schema}.lease FOR UPDATE")
        return db

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self._server.conninfo, autocommit=True) as db:
            db.execute(f"SET search_path = {self._schema}")
            return db.execute(statement).fetchall()

    async def is_commit_waiting(self) -> bool:
        return bool(self.run("SELECT 1 FROM pg_locks WHERE NOT granted"))


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


async def _renew(connection: ClientConnection, token: UUID) -> None:
    body = {"lock-tokens": AmqpArray(_UUID, [token])}
    await messages.manage(connection, "q", "renew-lock", body)


async def _outcome(asked: Awaitable[object]) -> str:
    """Whether it was done."""
    try:
        async with asyncio.timeout(TAKEOVER_SECONDS + 5):
            await asked
    except _TROUBLE:
        return "refused"
    return "done"


async def _take(receiver: ClientReceiver, count: int) -> list[MessageReceived]:
    taken: list[MessageReceived] = []
    async with asyncio.timeout(TAKEOVER_SECONDS):
        while len(taken) < count:
            taken += await receiver.receive_batch(count)
    return taken


@needs_namespaces
async def test_woken_owner_cannot_write_deliver_or_settle(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    apart = ApartBrokers(tmp_path, postgres_server)
    with apart.brokers:
        await apart.start()
        client = await apart.connect(0)
        sender = await client.sender("q")
        await sender.send_many([messages.named(f"m{n}") for n in range(5)])
        receiver = await client.receiver("q", credit=0)
        receiver.issue_credit(2)
        first, second = await _take(receiver, 2)
        token = UUID(bytes_le=bytes(second.delivery_tag))
        # What follows must not have to attach anything.
        await _renew(client, token)
        apart.stop()
        # All this is in the buffers of its sockets when it wakes up.
        receiver.issue_credit(3)
        at = first.delivery_id
        asked = [
            asyncio.create_task(_outcome(one))
            for one in (
                receiver.settle_confirmed(at, at),
                _renew(client, token),
                sender.send(messages.named("late")),
            )
        ]
        await apart.until_replaced()
        async with await apart.connect(1) as other:
            mine = await other.receiver("q", credit=5)
            taken = await _take(mine, 5)
            apart.wake()
            assert await asyncio.gather(*asked) == ["refused"] * 3
            assert receiver.waiting_count == 0, "it has delivered"
            for one in taken:
                await mine.settle_confirmed(one.delivery_id, one.delivery_id)
            assert await messages.peek_all(other, "q") == []
        client.abort()


@needs_namespaces
async def test_owner_stopped_amid_a_commit_to_a_server_is_replaced(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """The server has the whole commit, and may finish it. Nobody was answered."""
    apart = ApartBrokers(tmp_path, postgres_server)
    with apart.brokers:
        await apart.start()
        client = await apart.connect(0)
        sender = await client.sender("q")
        await sender.send(messages.named("before"))
        with apart.hold_commits():
            amid = asyncio.create_task(_outcome(sender.send(messages.named("amid"))))
            await until(apart.is_commit_waiting)
            apart.stop()
        await apart.until_replaced()
        async with await apart.connect(1) as other:
            found = [one.name for one in await messages.peek_all(other, "q")]
            assert found in (["before"], ["before", "amid"])
            apart.wake()
            said = await amid
            assert said == "refused" or "amid" in found
            # The woken one passes on what it does not own any more.
            async with await apart.connect(0) as again:
                later = await again.sender("q")
                await later.send(messages.named("after"))
            names = [one.name for one in await messages.peek_all(other, "q")]
            assert names == [*found, "after"]
        client.abort()
