"""Thousands of short worlds: whatever goes wrong in them, the auditor is content.

`TWINBUS_SIM_SEEDS` says how many. A failing seed is lived through again, with its
story, by the command that the failure prints.
"""

import os
from pathlib import Path

import pytest

from twinbus.testing.sim import run_world

SEEDS = int(os.environ.get("TWINBUS_SIM_SEEDS", "3000"))
PER_TEST = 100
SQLITE_SEEDS = max(20, SEEDS // 100)


def live_through(seed: int, folder: Path | None = None) -> None:
    outcome = run_world(seed, folder=folder)
    if outcome.violation is not None:
        story = "\n".join(outcome.trace.lines[-15:])
        where = "" if folder is None else " (on SQLite)"
        pytest.fail(
            f"seed {seed}{where}: {outcome.violation}\n{story}\n"
            f"replay: python -m twinbus.testing.sim {seed}",
            pytrace=False,
        )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_no_world_violates_what_the_bus_promises(first: int) -> None:
    for seed in range(first, min(first + PER_TEST, SEEDS)):
        live_through(seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SQLITE_SEEDS, 10))
def test_no_world_on_files_does_either(first: int, tmp_path: Path) -> None:
    for seed in range(first, min(first + 10, SQLITE_SEEDS)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        live_through(seed, folder)


@pytest.mark.parametrize("seed", [1, 7, 40])
def test_a_seed_tells_the_same_story_every_time(seed: int) -> None:
    first, second = run_world(seed), run_world(seed)
    assert first.trace.lines == second.trace.lines
    assert first.trace.digest() == second.trace.digest()


def test_worlds_differ() -> None:
    assert len({run_world(seed).trace.digest() for seed in range(20)}) == 20


def test_the_faults_of_the_table_happen() -> None:
    stories = [line for seed in range(150) for line in run_world(seed).trace.lines]
    for what in (
        "CRASH before a commit",
        "CRASH after a commit",
        "CRASH at any moment",
        "store: commit failed",
        "store: full",
        "store: unknown, happened",
        "store: unknown, did not happen",
        "another owner takes the store",
        "the clock jumps by -",
        "the clock jumps by 4",
        " is committed",
        "asks for its commit",
        "MessageLockLost, rolled back",
        "ServerBusy, rolled back",
    ):
        assert any(what in line for line in stories), f"no world had: {what}"
