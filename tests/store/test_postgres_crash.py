"""A PostgreSQL server that fails under its owner: killed, frozen, or with single
connections ended, at every moment of a commit. What was confirmed is there, what was
refused is not, and the owner finds out which."""

import asyncio
import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from bench.postgres_server import PostgresServer
from twinbus.broker.changes import ChangeSet
from twinbus.store import postgres_session
from twinbus.store.base import CommitFailed, CommitUnknown, StoreError
from twinbus.store.checks.owner import NO_LIMIT, Owner, message, owner_of, record
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_errors import ServerLost
from twinbus.store.postgres_session import PostgresSession, Rows, Step

from .places import PostgresPlace

PER_COMMIT = 20


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def adding(batch: int) -> ChangeSet:
    changes = ChangeSet()
    first = batch * PER_COMMIT
    changes.active_added += [message(1, first + i) for i in range(PER_COMMIT)]
    changes.records.append(record(1, active_count=batch))
    return changes


async def committed_batches(owner: Owner) -> set[int]:
    """By the messages; each commit must be there whole or not at all."""
    found = await owner.store.read_active(1, 0, 100_000, NO_LIMIT)
    sequences = [m.row_id - message(1, 0).row_id for m in found]
    batches = {sequence // PER_COMMIT for sequence in sequences}
    assert len(sequences) == PER_COMMIT * len(batches)
    return batches


async def commit_and_find_out(owner: Owner, batch: int) -> bool:
    """As the owner of a store does; whether it happened."""
    changes = adding(batch)
    changes.seal(owner.opened.epoch, batch, 1)
    try:
        await owner.store.commit(changes)
    except CommitUnknown:
        return await owner.store.last_batch() == batch
    except CommitFailed:
        return False
    return True


async def test_connections_ended_in_the_middle_of_commits(
    postgres_place: PostgresPlace,
) -> None:
    owner = await owner_of(postgres_place)
    await owner.commit(adding(1))
    ended, happened = 0, {1}
    is_over = asyncio.Event()

    async def end_connections() -> None:
        nonlocal ended
        while not is_over.is_set():
            await asyncio.to_thread(postgres_place.end_backends)
            ended += 1

    ending = asyncio.create_task(end_connections())
    batch = 1
    while ended < 12:
        batch += 1
        if await commit_and_find_out(owner, batch):
            happened.add(batch)
    is_over.set()
    await ending
    assert await committed_batches(owner) == happened
    owner = await owner.reopened()
    assert await committed_batches(owner) == happened
    assert owner.opened.last_batch == max(happened)
    assert owner.opened.fragments == [record(1, active_count=max(happened))]
    await owner.store.close()


async def test_records_of_a_commit_in_doubt_are_not_lost(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, but its answer was lost. Later the table of fragments is written."""
    postgres_place.segment_bytes = 4_000
    owner = await owner_of(postgres_place)
    await owner.commit(adding(1))
    happening = PostgresSession.transaction

    async def lose_the_answer(self: PostgresSession, steps: list[Step]) -> list[Rows]:
        await happening(self, steps)
        self.end()
        raise ServerLost("the answer was lost")

    doubtful = adding(2)
    doubtful.records[:] = [record(7, active_count=77)]
    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, "transaction", lose_the_answer)
        with pytest.raises(CommitUnknown):
            await owner.commit(doubtful)
    assert await owner.store.last_batch() == 2
    owner.batch = 2
    for batch in range(3, 60):
        await owner.commit(adding(batch))
    through = postgres_place.run("SELECT fragments_through FROM twinbus_meta")
    assert through > [(2,)], "the journal went on to another segment"
    expected = [record(1, active_count=59), record(7, active_count=77)]
    assert await owner.store.fragments() == expected
    owner = await owner.reopened()
    assert owner.opened.fragments == expected
    assert await committed_batches(owner) == set(range(1, 60))
    await owner.store.close()


async def test_error_of_the_client_leaves_the_outcome_unknown(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg says this of a connection that was ended after the commit, while its
    pipeline was read. It is no word of the server's that nothing happened."""
    owner = await owner_of(postgres_place)
    happening = PostgresSession._pipeline

    async def fail_afterwards(self: PostgresSession, steps: list[Step]) -> list[Rows]:
        await happening(self, steps)
        raise psycopg.OperationalError("cannot exit pipeline mode while busy")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, "_pipeline", fail_afterwards)
        with pytest.raises(CommitUnknown):
            await owner.commit(adding(1))
    assert await owner.store.last_batch() == 1
    assert await committed_batches(owner) == {1}
    await owner.store.close()


async def test_killed_server_has_what_was_confirmed(
    mortal_server: PostgresServer,
) -> None:
    place = PostgresPlace(mortal_server)
    owner = await owner_of(place)
    batch, happened = 0, set()
    for _ in range(3):
        killing = asyncio.create_task(asyncio.to_thread(mortal_server.kill))
        while not killing.done():
            batch += 1
            changes = adding(batch)
            changes.seal(owner.opened.epoch, batch, 1)
            try:
                await owner.store.commit(changes)
                happened.add(batch)
            except StoreError:
                break
        await killing
        await asyncio.to_thread(mortal_server.start)
        if await owner.store.last_batch() == batch:
            happened.add(batch)
        assert await committed_batches(owner) == happened
    await owner.store.close()


async def test_frozen_server_is_noticed(
    mortal_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process does not run, and its connections stay open."""
    monkeypatch.setattr(postgres_session, "ANSWER_SECONDS", 0.3)
    place = PostgresPlace(mortal_server)
    owner = await owner_of(place)
    await owner.commit(adding(1))
    (pid,) = backends(place)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(CommitUnknown):
            await owner.commit(adding(2))
    finally:
        os.kill(pid, signal.SIGCONT)
    happened = {1, 2} if await owner.store.last_batch() == 2 else {1}
    assert await committed_batches(owner) == happened
    await owner.store.close()


def backends(place: PostgresPlace) -> list[int]:
    asked = (
        "SELECT pid FROM pg_stat_activity, lease"
        " WHERE application_name = lease.application"
    )
    return [pid for (pid,) in place.run(asked)]


async def test_lease_row_that_somebody_has_locked_fails_the_commit(
    postgres_place: PostgresPlace,
) -> None:
    owner = await owner_of(postgres_place)
    with psycopg.connect(postgres_place.server.conninfo) as other:
        other.execute(f"SELECT 1 FROM {postgres_place.schema}.lease FOR UPDATE")
        with pytest.raises(CommitFailed, match="lock timeout"):
            await owner.commit(adding(1))
        other.rollback()
    assert await owner.store.last_batch() == 0
    await owner.commit(adding(1))
    await owner.store.close()


async def test_server_that_is_away_leaves_the_outcome_unknown(
    mortal_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinbus.store.postgres_connection._TRIES", 2)
    owner = await owner_of(PostgresPlace(mortal_server))
    await owner.commit(adding(1))
    mortal_server.kill()
    for _ in range(2):
        with pytest.raises(CommitUnknown):
            await owner.commit(adding(2))
        with pytest.raises(CommitUnknown):
            await owner.store.last_batch()
    with pytest.raises(StoreError):
        await owner.store.read_active(1, 0, 1, NO_LIMIT)
    mortal_server.start()
    assert await owner.store.last_batch() == 1
    await owner.commit(adding(2))
    assert await committed_batches(owner) == {1, 2}
    assert isinstance(owner.store, PostgresStore)
    await owner.store.close()
