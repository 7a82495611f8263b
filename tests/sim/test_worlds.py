"""Many short worlds with faults: the auditor finds no error.

`TWINBUS_SIM_SEEDS` is the number of seeds, of all kinds together. To run a failing seed
again with its trace, use the command that the failure prints.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator import IN_MEMORY, KINDS, run_world

from .stories import untold

ROOT = Path(__file__).parents[2]

USUAL_SEEDS = 925

SEEDS = int(os.environ.get("TWINBUS_SIM_SEEDS", USUAL_SEEDS))
PER_TEST = 50
SHARES = {
    "queues": 6,
    "sessions": 2,
    "duplicates": 2,
    "topics": 2,
    "forwarding": 2,
    "ranges": 4,
    "pairs": 4,
    "stores": 2,
    "partitions": 4,
    "outbox": 4,
    "outbox-full": 2,
    "brokers": 1,
    "broker-topics": 1,
    "broker-full": 1,
}
"""Of the seeds, by kind of world."""

FEW_BROKERS = 8
"""A world with brokers takes as long as twenty others: of a usual number of seeds these
have one for each plot."""

SQLITE_SEEDS = max(3, SEEDS // 300)


def seeds_of(kind: str) -> int:
    count = SEEDS * SHARES[kind] // sum(SHARES.values())
    is_few = kind in IN_MEMORY and SEEDS <= USUAL_SEEDS
    return min(count, FEW_BROKERS) if is_few else count


def live_through(kind: str, seed: int, folder: Path | None = None) -> None:
    outcome = run_world(seed, kind=kind, folder=folder)
    if outcome.violation is not None:
        story = "\n".join(outcome.trace.lines[-15:])
        where = "" if folder is None else " (on SQLite)"
        pytest.fail(
            f"{kind}, seed {seed}{where}: {outcome.violation}\n{story}\n"
            f"replay: python -m simulator {seed} {kind}",
            pytrace=False,
        )


def test_every_kind_has_its_share() -> None:
    assert set(SHARES) == set(KINDS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "first"),
    [(kind, first) for kind in SHARES for first in range(0, seeds_of(kind), PER_TEST)],
)
def test_no_world_violates_what_the_bus_promises(kind: str, first: int) -> None:
    for seed in range(first, min(first + PER_TEST, seeds_of(kind))):
        live_through(kind, seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [kind for kind in SHARES if kind not in IN_MEMORY])
def test_no_world_on_files_does_either(kind: str, tmp_path: Path) -> None:
    for seed in range(SQLITE_SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        live_through(kind, seed, folder)


@pytest.mark.parametrize("kind", SHARES)
@pytest.mark.parametrize("seed", [1, 7])
def test_a_seed_tells_the_same_story_every_time(kind: str, seed: int) -> None:
    first, second = run_world(seed, kind=kind), run_world(seed, kind=kind)
    assert first.trace.lines == second.trace.lines
    assert first.trace.digest() == second.trace.digest()


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_a_seed_is_the_same_world_in_another_process(kind: str) -> None:
    """Sets have another order there. Otherwise a failing seed could not be replayed."""
    said = {
        subprocess.run(
            [sys.executable, "-m", "simulator", "0", kind],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": order},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        for order in "12"
    }
    assert len(said) == 1


def test_worlds_differ() -> None:
    assert len({run_world(seed).trace.digest() for seed in range(20)}) == 20


def test_the_faults_of_the_table_happen() -> None:
    wanted = (
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
        "StoreRefused, rolled back",
    )
    first = (247, 203, 12, 170, 187)
    missing = untold("queues", ((what,) for what in wanted), first=first, worlds=300)
    assert not missing
