"""Blobs are read from files and from databases, and exports note how far they are."""

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bench.postgres_server import PostgresServer
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.message import Message
from twinbus.log_export.blob_source import (
    BlobSource,
    PostgresBlobs,
    SourceUnavailable,
    SqliteBlobs,
    source_of,
)
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import Store, StoreError
from twinbus.store.urls import open_store_url
from twinbus.testing import ManualClock


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite3"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(f"t_{secrets.token_hex(8)}")


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """With three commits that have operations."""
    store = open_store_url(url)
    owner = StoreOwner(
        store,
        ManualClock(),
        os.urandom,
        on_fatal=lambda error: None,
        after_turn=lambda: None,
        on_pressure=lambda is_high: None,
    )
    await owner.open("a test")
    owner.start()
    owner.table.admit(b"g" * 16, FragmentSettings(path="orders"))
    queue = owner.table.create(b"g" * 16, 0, owner.changes)
    for _ in range(2):
        await owner.durable()
        queue.enqueue(Message(b"x", 0, 0, 0), 0, 1, owner.changes)
    await owner.durable()
    yield store
    await owner.stop()


@pytest.fixture
def source(url: str, store: Store) -> BlobSource:
    return source_of(url)


def test_blobs_follow_in_the_order_of_commits(source: BlobSource) -> None:
    assert len(source.open()) == 16
    blobs = source.blobs(0)
    assert [batch for batch, _ in blobs] == [1, 2, 3]
    assert source.blobs(1, 1) == blobs[1:2]
    assert source.last_batch() == 3
    source.close()


async def test_nothing_is_trimmed_before_all_exports_have_it(
    source: BlobSource, store: Store
) -> None:
    source.open()
    source.note_exported("/one", 1)
    source.note_exported("/other", 3)
    await store.trim(operations_through=2, now=0)
    assert [batch for batch, _ in source.blobs(0)] == [1, 2, 3]
    source.note_exported("/one", 300)
    source.note_exported("/other", 300)
    await store.trim(operations_through=2, now=0)
    assert [batch for batch, _ in source.blobs(0)] == [3]
    source.close()


async def test_an_export_that_was_given_up_does_not_keep_the_log_for_ever(
    source: BlobSource, store: Store
) -> None:
    source.open()
    source.note_exported("/gone", 1)
    await store.trim(operations_through=900_002, now=0)
    assert [batch for batch, _ in source.blobs(0)] == [3]
    source.close()


def test_what_is_no_store_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("no database")
    for name in ("note.txt", "missing"):
        with pytest.raises(SourceUnavailable, match=name):
            SqliteBlobs(tmp_path / name).open()
    with pytest.raises(StoreError, match="memory cannot be exported"):
        source_of("memory:")


def test_a_database_that_does_not_answer_is_said_plainly() -> None:
    nobody = PostgresBlobs("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(SourceUnavailable) as refused:
        nobody.open()
    assert "secret" not in str(refused.value)
