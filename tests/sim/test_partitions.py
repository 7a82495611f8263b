"""A partitioned queue over three stores: some world finds each planted error."""

from typing import Any

import pytest

from simulator import run_world
from twinbus.errors import ServerBusy, StoreRefused
from twinbus.owner import commit_outcome, owners, store_owner
from twinbus.owner.store_owner import StoreOwner

WORLDS = 60


def violation() -> BaseException | None:
    """What the auditor says. Honest worlds of these seeds are in `test_worlds.py`."""
    for seed in range(WORLDS):
        found = run_world(seed, kind="partitions").violation
        if found is not None:
            return found
    return None


def test_a_send_of_unknown_outcome_that_is_repeated_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_owner, "_cannot_go_on", lambda error: StoreRefused())
    assert violation() is not None


def test_a_send_that_is_not_moved_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_outcome, "StoreRefused", ServerBusy)
    assert "refused without a key" in str(violation())


def test_an_answer_to_a_failed_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept_it(self: StoreOwner, listeners: Any, durable: Any, error: Any) -> None:
        listeners.committed()
        if durable is not None and not durable.done():
            durable.set_result(None)

    monkeypatch.setattr(StoreOwner, "_answer_failure", accept_it)
    assert "accepted and is gone" in str(violation())


def test_fragments_that_are_all_in_one_store_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_one(count: int, stores: list[tuple[int, bytes]]) -> tuple[bytes, ...]:
        return (stores[0][1],) * count

    monkeypatch.setattr(owners, "spread", in_one)
    assert "in 1 stores" in str(violation())
