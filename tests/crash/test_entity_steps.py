"""`kill -9` while entities are created and deleted: nothing else is dropped.

A client creates and deletes queues as fast as it can, beside a queue with messages,
until the bus is killed. After any step the next start must work: it drops only what the
catalog has named, and everything confirmed is there.
"""

import asyncio
import itertools
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from random import Random

from azure.servicebus.management import ServiceBusAdministrationClient

from bench.free_port import free_port
from crash.messages import named, peek_all
from crash.server_process import ServerProcess
from twinbus.config.config import ROOT_KEY_NAME

KILLS = 3
COUNT = 50
SOON = 30.0


class Churn:
    """Makes queues and deletes every other one, until the bus is gone."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        # Answered, and not deleted since: they must be there. Deleted: they must not.
        self.made: set[str] = set()
        self.deleted: set[str] = set()
        # Set with the first removal of each run.
        self.is_under_way = threading.Event()

    def run(self, admin: ServiceBusAdministrationClient) -> None:
        try:
            while True:
                number = next(self._numbers)
                name = f"q{number}"
                admin.create_queue(name)
                self.made.add(name)
                if number % 2:
                    # Between question and answer it may be there or not.
                    self.made.discard(name)
                    admin.delete_queue(name)
                    self.deleted.add(name)
                    self.is_under_way.set()
        except Exception as error:
            # Whatever the SDK calls a server that is gone; it must have been there.
            assert self.is_under_way.is_set(), error


def _client(server: ServerProcess) -> ServiceBusAdministrationClient:
    text = (
        f"Endpoint=sb://localhost:{server.port};SharedAccessKeyName={ROOT_KEY_NAME};"
        f"SharedAccessKey={server.key};UseDevelopmentEmulator=true"
    )
    authority = next(server.data.rglob("ca*.pem"))
    return ServiceBusAdministrationClient.from_connection_string(
        text, connection_verify=str(authority), retry_total=0
    )


async def test_kill_amid_creations_and_removals_drops_nothing_else(
    tmp_path: Path,
) -> None:
    random, churn = Random(1), Churn()
    config = "[queues.kept]\n"
    flags = ("--tls-port", str(free_port()))
    with ServerProcess(tmp_path, config=config, flags=flags) as server:
        await server.start()
        async with await server.connect() as connection:
            sender = await connection.sender("kept")
            await sender.send_many([named(f"m{n}") for n in range(COUNT)])
        for _ in range(KILLS):
            churn.is_under_way.clear()
            with _client(server) as admin:
                working = asyncio.create_task(asyncio.to_thread(churn.run, admin))
                assert await asyncio.to_thread(churn.is_under_way.wait, SOON)
                await asyncio.sleep(random.uniform(0.0, 0.1))
                server.kill()
                await working
            await server.start()
            async with await server.connect() as connection:
                assert len(await peek_all(connection, "kept")) == COUNT
            with _client(server) as admin:
                found = {queue.name for queue in admin.list_queues()}
            assert churn.made <= found
            assert not churn.deleted & found
        assert await server.stop() == 0
        assert "Traceback" not in server.errors
    _expect_agreement(server.data)


def _expect_agreement(data: Path) -> None:
    """Every fragment has its entity, in the catalog and in the store."""
    with (
        closing(sqlite3.connect(data / "catalog.sqlite3")) as catalog,
        closing(sqlite3.connect(data / "messages.sqlite3")) as store,
    ):
        entities = catalog.execute("SELECT generation FROM entity WHERE path <> ''")
        fragments = store.execute("SELECT DISTINCT generation FROM fragment")
        stored = store.execute(
            "SELECT generation FROM entity WHERE generation IN "
            "(SELECT generation FROM fragment)"
        )
        known = set(entities.fetchall())
        assert set(fragments.fetchall()) == known
        assert set(stored.fetchall()) == known
