"""The catalog in SQLite against the model, and brokers that follow its versions: who
applies what changed knows what a snapshot says."""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bench.postgres_server import PostgresServer
from twinbus.store import (
    memory_catalog_versions,
    postgres_catalog,
    sqlite_catalog,
)
from twinbus.store.catalog import (
    TOMBSTONE,
    Catalog,
    CatalogChanges,
    EntityRecord,
    unfinished,
)
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.sqlite_catalog import SqliteCatalog

from .places import PostgresPlace

Result = TypeVar("Result")
KEPT = 4

paths = st.sampled_from(["a", "A", "b", "c", "d", "e/f", "g"])
records = st.builds(
    EntityRecord,
    namespace=st.sampled_from(["shop", "SHOP", "other"]),
    path=paths,
    kind=st.just("queue"),
    generation=st.sampled_from([bytes([i]) * 16 for i in range(3)]),
    description=st.fixed_dictionaries({"x": st.integers(0, 3)}),
    created_at=st.just(1),
    updated_at=st.integers(1, 3),
    placement=st.just((bytes(16),)),
)


def key_of(namespace: str, path: str) -> tuple[str, str]:
    return namespace.lower(), path.lower()


def _of_any(answer: Any) -> Any:
    """Without what differs between any two catalogs."""
    return replace(answer, identity=b"") if hasattr(answer, "identity") else answer


class Follower:
    """A broker that began at some version."""

    def __init__(self, version: int, entities: list[EntityRecord]) -> None:
        self.version = version
        self.entities = {key_of(one.namespace, one.path): one for one in entities}

    def apply(self, changes: CatalogChanges) -> None:
        for gone in changes.removed:
            self.entities.pop(key_of(gone.namespace, gone.path), None)
        for one in (*changes.created, *changes.updated):
            key = key_of(one.namespace, one.path)
            if one in changes.updated:
                assert self.entities[key].generation == one.generation, "an update"
            self.entities[key] = one
        self.version = changes.version


class TwoCatalogs(RuleBasedStateMachine):
    """Everything is done to both, and must look the same."""

    def tested(self) -> Catalog:
        return SqliteCatalog(Path(self.folder.name) / "catalog.sqlite3")

    @initialize()
    def open_both(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for module in (memory_catalog_versions, sqlite_catalog, postgres_catalog):
            self.patch.setattr(module, "REMOVALS_KEPT", KEPT)
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.catalogs: tuple[Catalog, Catalog] = (MemoryCatalog(), self.tested())
        self._both("open")
        self.followers = [Follower(0, [])]

    def teardown(self) -> None:
        if hasattr(self, "catalogs"):
            self._both("close")
            self.loop.close()
            self.folder.cleanup()
            self.patch.undo()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    def _both(self, name: str, *given: Any) -> Any:
        model, tested = (
            _of_any(self._run(getattr(c, name)(*given))) for c in self.catalogs
        )
        assert model == tested, name
        return tested

    @rule(put=st.lists(records, max_size=3))
    def put(self, put: list[EntityRecord]) -> None:
        self._both("put", *put)

    @rule(gone=st.lists(records, max_size=6), stores=st.integers(1, 2))
    def remove(self, gone: list[EntityRecord], stores: int) -> None:
        placed = tuple(bytes([i]) * 16 for i in range(stores))
        tombstones = [
            one
            for entity in gone
            for one in unfinished(replace(entity, placement=placed), TOMBSTONE, 1)
        ]
        self._both("remove", tombstones)

    @rule()
    def begin_to_follow(self) -> None:
        found = self._both("snapshot")
        self.followers.append(Follower(found.version, found.entities))

    @rule(which=st.integers(0, 9))
    def follow(self, which: int) -> None:
        follower = self.followers[which % len(self.followers)]
        now = self._both("snapshot")
        changes = self._both("changes_since", follower.version)
        if changes is None:
            follower.__init__(now.version, now.entities)  # type: ignore[misc]
            return
        follower.apply(changes)
        assert follower.version == now.version
        assert follower.entities == Follower(now.version, now.entities).entities

    @rule()
    def close_and_open(self) -> None:
        self._both("close")
        self._both("open")

    @invariant()
    def every_version_is_told_the_same(self) -> None:
        if hasattr(self, "catalogs"):
            now = self._both("snapshot")
            for version in range(-1, now.version + 2):
                changes = self._both("changes_since", version)
                assert changes is None or len(changes.removed) <= KEPT
            assert self._both("changes_since", now.version) is not None


TestTwoCatalogs = TwoCatalogs.TestCase
TestTwoCatalogs.settings = settings(max_examples=25, stateful_step_count=15)


def test_postgres_catalog_is_like_the_model(postgres_server: PostgresServer) -> None:
    class WithPostgres(TwoCatalogs):
        def tested(self) -> Catalog:
            return PostgresPlace(postgres_server).catalog()

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        WithPostgres, settings=settings(max_examples=8, stateful_step_count=12)
    )


async def test_catalog_made_again_has_another_identity(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    for first, second in (
        (MemoryCatalog(), MemoryCatalog()),
        (SqliteCatalog(tmp_path / "1"), SqliteCatalog(tmp_path / "2")),
        (
            PostgresPlace(postgres_server).catalog(),
            PostgresPlace(postgres_server).catalog(),
        ),
    ):
        found = []
        for catalog in (first, second):
            await catalog.open()
            found.append((await catalog.snapshot()).identity)
            await catalog.close()
        assert found[0] != found[1]
