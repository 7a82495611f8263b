"""Stores that are full, or can only be read: some world finds each planted error.

Honest worlds of these seeds are in `test_worlds.py`.
"""

from typing import Any

import pytest

from simulator import run_world
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.errors import ServiceBusError
from twinbus.outbox.transfer_log import TransferLog
from twinbus.owner import store_owner
from twinbus.owner.commit_outcome import refusal_of_commit
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.store_room import StoreRoom
from twinbus.store.base import Store, StoreFull

WORLDS = 60


def violation(first: int = 0) -> str:
    """What the auditor says; the world of the seed `first` showed it when the test was
    written."""
    for seed in (first, *range(WORLDS)):
        found = run_world(seed, kind="outbox-full").violation
        if found is not None:
            return str(found)
    return ""


def test_a_send_that_overtakes_what_a_full_store_returns_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is larger than the room that is left, so it takes the detour at once, while
    earlier ones wait for a commit that fails."""
    monkeypatch.setattr(TransferLog, "_beginning", lambda self, *given: None)
    assert "out of order" in violation(first=17)


def test_a_refusal_of_a_full_store_that_is_taken_for_a_commit_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def believe(
        owner: StoreOwner, store: Any, changes: ChangeSet
    ) -> ServiceBusError | None:
        return await refusal_of_commit(owner, Deaf(store), changes)

    monkeypatch.setattr(store_owner, "refusal_of_commit", believe)
    assert "is gone" in violation()


class Deaf:
    """Does not hear that its store is full."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def commit(self, changes: ChangeSet) -> None:
        try:
            await self._store.commit(changes)
        except StoreFull:
            pass

    async def last_batch(self) -> int:
        return await self._store.last_batch()


def test_senders_that_are_not_stopped_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what they send they fail commits of those who settle."""
    ask = StoreRoom.ask

    async def ask_in_vain(self: StoreRoom, batch: int, now: int) -> None:
        await ask(self, batch, now)
        self._home.refuses_until, self._home.room_bytes = 0, NO_LIMIT

    monkeypatch.setattr(StoreRoom, "ask", ask_in_vain)
    assert "refuses a settlement" in violation(first=20)
