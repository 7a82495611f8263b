"""Takes a message store away from a running bus, and gives it back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from twinbus.owner.store_owner import StoreOwner
from twinbus.store import sqlite_lease
from twinbus.store.base import StoreError
from twinbus.store.sqlite import SqliteStore
from twinbus.testing import Bus

PATIENCE_SECONDS = 20


def owner_of_fragment(bus: Bus, path: str, index: int) -> StoreOwner:
    namespace = bus.server.namespace
    owner = bus.server.owners.find(namespace.entity(path).record.placement[index])
    assert owner is not None
    return owner


@contextmanager
def store_away(bus: Bus, owner: StoreOwner) -> Iterator[None]:
    """Its file cannot be used: commits fail, and it cannot be opened."""
    gone: Any = owner._store
    with pytest.MonkeyPatch.context() as patch:
        commit, take = SqliteStore.commit, sqlite_lease.SqliteLease.take

        async def refuse(self: Any, *given: Any, **named: Any) -> None:
            if self is gone:
                raise StoreError("the disk is gone")
            await commit(self, *given, **named)

        async def stay_away(self: Any, *given: Any, **named: Any) -> Any:
            if self is gone.lease:
                raise StoreError("the disk is gone")
            return await take(self, *given, **named)

        patch.setattr(SqliteStore, "commit", refuse)
        patch.setattr(sqlite_lease.SqliteLease, "take", stay_away)
        bus._run(_committed(owner))
        _wait(lambda: not owner.is_serving)
        yield
    _wait(lambda: _ticked(bus, owner))


async def _committed(owner: StoreOwner) -> None:
    try:
        await owner.durable()
    except Exception:
        return
    raise AssertionError("the store has taken a commit")


def _ticked(bus: Bus, owner: StoreOwner) -> bool:
    bus.clock.advance(1_000)
    return owner.is_serving


def _wait(condition: Any) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "the store did not change its state in time"
        time.sleep(0.05)
