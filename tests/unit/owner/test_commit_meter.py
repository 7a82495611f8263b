"""Commits are measured: how long the last ones took, and what they did."""

from twinbus.broker.changes import ChangeSet
from twinbus.limits import COMMITS_REMEMBERED
from twinbus.owner.commit_meter import CommitMeter


def commit(meter: CommitMeter, began_at: int, ended_at: int) -> None:
    meter.begin(began_at)
    meter.end(ChangeSet(), ended_at, is_done=True)


def test_mean_is_that_of_the_last_seconds() -> None:
    meter = CommitMeter()
    commit(meter, 0, 3_000)
    commit(meter, 10_000, 10_100)
    commit(meter, 10_200, 10_500)
    assert meter.commit_ms(10_500) == 200
    assert meter.commit_ms(20_000) == 0


def test_commit_under_way_counts_with_its_age() -> None:
    meter = CommitMeter()
    commit(meter, 0, 10)
    meter.begin(100)
    assert meter.under_way_ms(4_100) == 4_000
    assert meter.commit_ms(4_100) == 4_000


def test_so_many_commits_are_remembered() -> None:
    meter = CommitMeter()
    for at in range(COMMITS_REMEMBERED + 5):
        commit(meter, at, at)
    assert len(meter.recent) == COMMITS_REMEMBERED


def test_operations_of_a_failed_commit_are_not_counted() -> None:
    counted: list[int] = []
    meter = CommitMeter(counted.append)
    changes = ChangeSet()
    changes.active_removed += [1, 2, 3]
    meter.begin(0)
    meter.end(changes, 1, is_done=False)
    meter.begin(2)
    meter.end(changes, 3, is_done=True)
    assert counted == [3]
