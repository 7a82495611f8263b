"""Figures of a store: names, commits, and what the log is told."""

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.owner.store_health import StoreHealth, short_names
from twinbus.store.base import CommitFailed, StoreError, StoreFull, StoreReadOnly


@pytest.mark.parametrize(
    ("locations", "names"),
    [
        (["/data/messages.sqlite3"], ["messages.sqlite3"]),
        (["/a/x.db", "/b/y.db"], ["x.db", "y.db"]),
        (["/a/x.db", "/b/x.db"], ["a/x.db", "b/x.db"]),
        (["in memory", "in memory"], ["1", "2"]),
        (["postgresql://me@host/bus?password=no"], ["bus"]),
    ],
)
def test_names_tell_stores_apart(locations: list[str], names: list[str]) -> None:
    assert short_names(locations) == names


def test_commits_are_counted_with_their_time() -> None:
    health = StoreHealth()
    health.begin(100)
    assert health.committing_ms(130) == 30
    health.end(150, ChangeSet(), is_done=True)
    assert (health.commit_count, health.commit_ms) == (1, 50)
    assert health.committing_ms(500) == 0


def test_the_same_failure_is_news_once_in_ten_seconds() -> None:
    health = StoreHealth()
    assert health.is_news(CommitFailed("1"), 1_000)
    assert not health.is_news(CommitFailed("2"), 10_999)
    assert health.is_news(StoreFull("3"), 10_999)
    assert health.is_news(StoreFull("4"), 21_000)
    assert (health.failed_at, health.failure) == (21_000, "4")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreError("/secret/path"), "is away"),
        (StoreFull("x"), "is full"),
        (StoreReadOnly("x"), "can only be read"),
    ],
)
def test_clients_are_told_a_reason_without_paths(
    error: StoreError, reason: str
) -> None:
    health = StoreHealth()
    health.is_away(error, 1)
    assert health.reason == reason
