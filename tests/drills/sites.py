"""The set-up of a drill: three brokers, six stores, and what they need."""

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from brokers.processes import Brokers

from bench.postgres_server import PostgresServer, store_url

from .entities import CONFIG

FILES = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Brokers that are not started yet, and the servers of their stores: a primary and
    its standby, one server, or none."""

    brokers: Brokers
    servers: list[PostgresServer]
    broker_count: int = 3

    async def start(self) -> None:
        await self.brokers.start(
            f"--brokers={self.broker_count}", "--config=bus.toml", "--fragments=6"
        )

    def names(self) -> list[str]:
        return [str(number + 1) for number in range(self.broker_count)]


@contextlib.contextmanager
def site(folder: Path, stores: str) -> Iterator[Site]:
    """`stores` is "sqlite", "mixed", "postgres", or "standby"."""
    (folder / "bus.toml").write_text(CONFIG)
    with contextlib.ExitStack() as stack:
        servers = list(_servers(stack, stores))
        file_count = {"sqlite": 6, "mixed": 3}.get(stores, 0)
        run = secrets.token_hex(4)
        urls = [
            store_url(servers, f"drill_{run}_{name}") for name in FILES[file_count:]
        ]
        brokers = stack.enter_context(Brokers(folder, FILES[:file_count], urls))
        yield Site(brokers=brokers, servers=servers)


def _servers(stack: contextlib.ExitStack, stores: str) -> Iterator[PostgresServer]:
    if stores == "sqlite":
        return
    first = stack.enter_context(PostgresServer())
    yield first
    if stores == "standby":
        second = stack.enter_context(PostgresServer())
        follow_synchronously(second, first)
        yield second


def follow_synchronously(standby: PostgresServer, primary: PostgresServer) -> None:
    """When this returns, nothing is confirmed any more that the standby has not got."""
    standby.become_standby_of(primary)
    with psycopg.connect(primary.conninfo, autocommit=True) as db:
        # After the copy was made: once promoted, it must not wait for a standby.
        db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        db.execute("SELECT pg_reload_conf()")
        while not db.execute(
            "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        ).fetchone():
            time.sleep(0.05)
