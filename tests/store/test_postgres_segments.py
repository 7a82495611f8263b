"""Space of settled messages comes back, whoever reads meanwhile, and no message with
it."""

import asyncio
from typing import Any

import psycopg
import pytest

from twinbus.broker.changes import ChangeSet, SharedBody
from twinbus.broker.message import Message
from twinbus.store import postgres_upkeep
from twinbus.store.checks.owner import (
    NO_LIMIT,
    NOW,
    Owner,
    message,
    owner_of,
    record,
    row_ids,
)
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_segments import SegmentedTable, TableSegment

from .places import PostgresPlace

PER_COMMIT = 50
# A segment is full after a few commits.
SMALL = 40_000


@pytest.fixture
def small(postgres_place: PostgresPlace) -> PostgresPlace:
    postgres_place.segment_bytes = SMALL
    return postgres_place


def portion(commit: int) -> list[Message]:
    first = commit * PER_COMMIT
    return [message(1, first + i, raw=bytes(100)) for i in range(PER_COMMIT)]


async def send(owner: Owner, commit: int) -> None:
    changes = ChangeSet()
    changes.active_added += portion(commit)
    changes.records.append(record(1, active_count=commit))
    await owner.commit(changes)


async def settle(owner: Owner, settled: list[Message]) -> None:
    changes = ChangeSet()
    changes.active_removed += row_ids(settled)
    await owner.commit(changes)


def segments(place: PostgresPlace, parent: str = "message") -> dict[str, int]:
    """Bytes of each."""
    rows = place.run(
        "SELECT c.relname, pg_relation_size(c.oid) FROM pg_inherits AS i"
        " JOIN pg_class AS c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = %s::regclass",
        f"{place.schema}.{parent}",
    )
    return dict(rows)


def used(place: PostgresPlace, parent: str = "message") -> int:
    return sum(1 for size in segments(place, parent).values() if size)


async def test_space_of_settled_messages_is_used_again(small: PostgresPlace) -> None:
    owner = await owner_of(small)
    for commit in range(60):
        await send(owner, commit)
        await settle(owner, portion(commit))
    assert len(segments(small)) <= 4, "no more than a few are ever needed"
    assert used(small) <= 2
    await owner.store.close()


async def test_reader_that_does_not_end_keeps_only_what_it_has_read(
    small: PostgresPlace,
) -> None:
    owner = await owner_of(small)
    for commit in range(8):
        await send(owner, commit)
    before = segments(small)
    with psycopg.connect(small.server.conninfo) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        seen = reader.execute(f"SELECT count(*) FROM {small.schema}.message").fetchone()
        for commit in range(8, 68):
            await send(owner, commit)
            await settle(owner, portion(commit - 8))
        during = segments(small)
        pinned = {name for name in before if during[name] > 0}
        assert pinned == set(before), "what was read is kept"
        assert len(during) <= len(before) + 6, "what came later is used again"
        again = reader.execute(
            f"SELECT count(*) FROM {small.schema}.message"
        ).fetchone()
        assert again == seen == (8 * PER_COMMIT,), "the reader sees what it saw"
        reader.rollback()
    found = await owner.store.read_active(1, 0, 10_000, NO_LIMIT)
    expected = [m.row_id for commit in range(60, 68) for m in portion(commit)]
    assert row_ids(found) == expected
    await owner.store.close()


async def test_messages_in_many_segments_are_read_in_order(
    small: PostgresPlace,
) -> None:
    owner = await owner_of(small)
    for commit in range(20):
        await send(owner, commit)
    assert used(small) >= 4
    every = [m.row_id for commit in range(20) for m in portion(commit)]
    for _ in range(2):
        after, found = 0, []
        while portion_read := await owner.store.read_active(1, after, 70, NO_LIMIT):
            found += row_ids(portion_read)
            after = found[-1] - message(1, 0).row_id
        assert found == every[1:], "the first has the number 0, which is none"
        assert await owner.store.count_active(1) == len(every)
        owner = await owner.reopened()
    await owner.store.close()


async def test_sparse_segments_are_emptied_into_the_current_one(
    small: PostgresPlace,
) -> None:
    owner = await owner_of(small)
    kept: list[int] = []
    for commit in range(80):
        await send(owner, commit)
        first, *others = portion(commit)
        kept.append(first.row_id)
        await settle(owner, others)
    assert len(segments(small)) <= 10
    found = await owner.store.browse(1, 0, 10_000, NO_LIMIT)
    assert row_ids(found) == kept
    assert all(m.raw == bytes(100) for m in found)
    await owner.store.close()


async def test_next_owner_counts_what_it_finds(
    small: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await owner_of(small)
    for commit in range(12):
        await send(owner, commit)
    owner = await owner.reopened()
    for commit in range(12):
        await settle(owner, portion(commit))
    before = used(small)
    assert before >= 3, "nobody knows that they are empty"
    for _ in range(before):
        await owner.store.trim(operations_through=0, now=NOW)
        await settle(owner, [])
    assert used(small) <= 1
    await owner.store.close()


async def test_miscounted_segment_is_not_truncated(small: PostgresPlace) -> None:
    """A bug in counting must not cost a message."""
    owner = await owner_of(small)
    for commit in range(8):
        await send(owner, commit)
    table = owner.store._segments.message  # type: ignore[attr-defined]
    for segment in table.closed():
        segment.live_count = 0
    for _ in range(8):
        await settle(owner, [])
    found = await owner.store.browse(1, 0, 10_000, NO_LIMIT)
    assert len(found) == 8 * PER_COMMIT
    await owner.store.close()


async def test_journal_is_trimmed_and_never_loses_the_last_commit(
    small: PostgresPlace,
) -> None:
    owner = await owner_of(small)
    for commit in range(400):
        changes = ChangeSet()
        changes.log.deleted(0, 5, "x" * 500)
        changes.records.append(record(1 + commit % 3, active_count=commit))
        await owner.commit(changes)
    assert used(small, "journal") >= 4
    await owner.store.trim(operations_through=10_000, now=NOW)
    assert used(small, "journal") <= 2
    expected = [record(i, active_count=399 - (399 - i + 1) % 3) for i in (1, 2, 3)]
    for _ in range(2):
        assert await owner.store.last_batch() == 400
        assert await owner.store.fragments() == expected
        owner = await owner.reopened()
        assert owner.opened.fragments == expected
    assert await owner.store.operations(0, 10) == []
    await owner.commit(ChangeSet())
    await owner.store.close()


async def test_shared_bodies_are_in_segments_too(small: PostgresPlace) -> None:
    owner = await owner_of(small)
    for commit in range(60):
        sent = [
            message(4, commit * 10 + i, body_id=message(3, commit * 10 + i).row_id)
            for i in range(10)
        ]
        for copy in sent:
            copy.is_shared = True
        changes = ChangeSet()
        changes.bodies_added += [
            SharedBody(body_id=copy.body_id, raw=bytes(500)) for copy in sent
        ]
        changes.active_added += sent
        changes.bodies_taken += [copy.body_id for copy in sent]
        await owner.commit(changes)
        changes = ChangeSet()
        changes.active_removed += row_ids(sent)
        changes.bodies_released += [copy.body_id for copy in sent]
        await owner.commit(changes)
    for parent in ("shared_body", "body_use"):
        assert used(small, parent) <= 2
        assert small.run(f"SELECT count(*) FROM {parent}") == [(0,)]
    await owner.store.close()


async def test_reads_run_beside_commits_and_truncation(small: PostgresPlace) -> None:
    owner = await owner_of(small)
    is_over = asyncio.Event()
    reads = 0

    async def browse() -> None:
        nonlocal reads
        while not is_over.is_set():
            found = await owner.store.browse(1, 0, 10_000, NO_LIMIT)
            assert len(found) % PER_COMMIT == 0, "a commit is seen whole or not at all"
            reads += 1

    browsing = asyncio.create_task(browse())
    for commit in range(40):
        await send(owner, commit)
        await settle(owner, portion(commit))
    is_over.set()
    await browsing
    assert reads > 0
    await owner.store.close()


async def test_upkeep_that_fails_does_not_fail_a_commit(
    small: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await owner_of(small)
    monkeypatch.setitem(postgres_upkeep.SQL, "truncate_segment", "SELECT 1 / 0")
    for commit in range(12):
        await send(owner, commit)
        await settle(owner, portion(commit))
    found = await owner.store.browse(1, 0, 10_000, NO_LIMIT)
    assert found == []
    assert isinstance(owner.store, PostgresStore)
    await owner.store.close()


# --- without a server -----------------------------------------------------------------


def filled(table: SegmentedTable, name: str, size_bytes: int) -> TableSegment:
    segment = TableSegment(name, hash(name))
    table.begin(segment)
    segment.add(1, size_bytes)
    return segment


def test_segments_of_a_large_store_are_large() -> None:
    table = SegmentedTable("message", "row_id", 1_000)
    count = 0
    stored: Any = 0
    while stored < 1_000_000:
        segment = filled(table, f"s{count}", 0)
        while not table.is_full():
            segment.add(1, 100)
        stored += segment.added_bytes
        count += 1
    assert count < 150
