"""A synchronous standby: nothing is confirmed that it may not have.

A commit that waits for a standby which is away can be cancelled. Then PostgreSQL
confirms it, with a warning. If that standby is promoted, it never happened.
"""

import asyncio
import threading
from collections.abc import Iterator

import psycopg
import pytest

from bench.postgres_server import PostgresServer
from twinbus.broker.changes import ChangeSet
from twinbus.store.base import CommitUnknown
from twinbus.store.checks.owner import Owner, message, owner_of
from twinbus.store.postgres_session import PostgresSession

from .places import PostgresPlace


@pytest.fixture
def lonely_server() -> Iterator[PostgresServer]:
    """Its configuration is changed, so it is not shared."""
    with PostgresServer() as server:
        yield server


def wait_for(server: PostgresServer, standbys: str) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as db:
        db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        db.execute("SELECT pg_reload_conf()")
    if standbys:
        until_commits_wait(server)


def until_commits_wait(server: PostgresServer) -> None:
    """The reload has its effect on commits a moment later."""
    for number in range(1_000):
        probe = threading.Thread(target=commit_something, args=(server, number))
        probe.start()
        while probe.is_alive() and not (pids := waiting(server)):
            probe.join(0.02)
        if probe.is_alive():
            cancel(server, pids)
            probe.join()
            return
    raise AssertionError("commits do not wait for a standby")


def commit_something(server: PostgresServer, number: int) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as db:
        db.execute(f"CREATE TABLE probe_{number} ()")


def cancel(server: PostgresServer, pids: list[int]) -> None:
    with psycopg.connect(server.conninfo, autocommit=True) as db:
        for pid in pids:
            db.execute("SELECT pg_cancel_backend(%s)", (pid,))


def waiting(server: PostgresServer) -> list[int]:
    """Backends whose commits wait for a standby."""
    with psycopg.connect(server.conninfo, autocommit=True) as db:
        found = db.execute(
            "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        ).fetchall()
    return [pid for (pid,) in found]


async def cancel_waiting(server: PostgresServer) -> None:
    pids: list[int] = []
    while not pids:
        await asyncio.sleep(0.02)
        pids = await asyncio.to_thread(waiting, server)
    await asyncio.to_thread(cancel, server, pids)


async def commit(owner: Owner, sequence: int) -> None:
    changes = ChangeSet()
    changes.active_added.append(message(1, sequence))
    await owner.commit(changes)


async def test_commit_whose_wait_for_a_standby_was_cancelled_is_in_doubt(
    lonely_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await owner_of(PostgresPlace(lonely_server))
    # The first one makes segments, in a transaction of its own.
    await commit(owner, 1)
    await asyncio.to_thread(wait_for, lonely_server, "nobody")
    # The owner looks for its lease after that, which waits for the standby as well.
    monkeypatch.setattr(PostgresSession.rows, "__defaults__", ((), 0.5))
    cancelling = asyncio.create_task(cancel_waiting(lonely_server))
    with pytest.raises(CommitUnknown, match="synchronous replication"):
        await commit(owner, 2)
    await cancelling
    # It is found out only when there is a standby again, or none is waited for.
    found_out = asyncio.create_task(owner.store.last_batch())
    done, _ = await asyncio.wait({found_out}, timeout=0.5)
    assert not done, "it is not replicated, so nobody may be told"
    await asyncio.to_thread(wait_for, lonely_server, "")
    assert await found_out == 2
    await owner.store.close()
