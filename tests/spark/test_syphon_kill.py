"""S2: the whole Spark application is killed while it drains a backlog, again and again.

The application is the command itself, `twinbus spark syphon`, between two servers in
processes of their own. A run that nobody kills is one of the test's own session.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pairs.syphon_world import PRIMARY, backlog
from pyspark.sql import SparkSession

from twinbus.spark.syphon import Summary, run_syphon

from .application import Application
from .running import until
from .served import ServedBus
from .syphon_pair import (
    ENTITIES,
    QUEUES,
    Pair,
    Verdict,
    audit,
    bounds,
    divert_load,
    entity,
    load,
    side_of,
)

# Each of them starts Spark once more: the nightly run has more.
KILLS = int(os.environ.get("TWINBUS_SYPHON_KILLS", "2"))
PER_BATCH = 100
# So many that each kill finds a batch to interrupt.
MESSAGES = 2 * PER_BATCH * max(KILLS, 3)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ServedBus]]:
    """The primary and the secondary, in processes of their own."""
    of_primary = "".join(
        f'[queues."{entity(index)}"]\nrequires_session = true\n'
        for index in range(ENTITIES)
    )
    of_secondary = "".join(f'[queues."{backlog(i)}"]\n' for i in range(QUEUES))
    with ExitStack() as stack:
        started = []
        for name, config in (("primary", of_primary), ("secondary", of_secondary)):
            folder = tmp_path / name
            folder.mkdir()
            bus = stack.enter_context(ServedBus(folder, config))
            bus.start_now()
            started.append(bus)
        yield started


@pytest.fixture
def pair(servers: list[ServedBus], tmp_path: Path) -> Pair:
    primary, secondary = servers
    return Pair(side_of(primary, tmp_path / "a"), side_of(secondary, tmp_path / "b"))


def start(pair: Pair, folder: Path) -> Application:
    """The command; `finish` runs the same."""
    return Application(
        folder,
        *("-m", "twinbus", "spark", "syphon", "--json"),
        *("--primary-name", PRIMARY, "--master", "local[2,4]"),
        *("--checkpoint", str(folder / "checkpoint")),
        *("--max-messages-per-batch", str(PER_BATCH)),
        *("--conf", "spark.ui.enabled=false"),
        TWINBUS_PRIMARY=pair.primary.credential,
        TWINBUS_SECONDARY=pair.secondary.credential,
    )


def finish(spark: SparkSession, pair: Pair, folder: Path) -> Summary:
    checkpoint = str(folder / "checkpoint")
    return run_syphon(
        spark, pair.options(checkpoint=checkpoint, max_messages=PER_BATCH)
    )


@pytest.mark.timeout(1800)
def test_an_application_that_is_killed_again_and_again_loses_and_doubles_nothing(
    spark: SparkSession, pair: Pair, tmp_path: Path
) -> None:
    messages = load(MESSAGES)
    divert_load(pair, messages)
    for kill in range(1, KILLS + 1):
        # All in the first half: none may end before the test has looked again.
        enough = kill * MESSAGES // (2 * KILLS + 2)
        start(pair, tmp_path).kill_when(lambda n=enough: restored_count(pair) >= n)
    summary = finish(spark, pair, tmp_path)
    assert audit(pair.primary, messages) == Verdict(MESSAGES, 0, 0, 0)
    assert pair.backlog_counts() == (0, 0)
    assert summary.left == 0 and summary.dead_lettered == {}


@pytest.mark.timeout(900)
def test_a_primary_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, servers: list[ServedBus], pair: Pair, tmp_path: Path
) -> None:
    """It comes back with its data, and the syphon has waited for it."""
    messages = load(MESSAGES)
    divert_load(pair, messages)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(finish, spark, pair, tmp_path)
        until(lambda: restored_count(pair) >= MESSAGES // 5 or ended.done())
        assert not ended.done()
        servers[0].kill()
        servers[0].start_now()
        summary = ended.result()
    assert audit(pair.primary, messages) == Verdict(MESSAGES, 0, 0, 0)
    assert pair.backlog_counts() == (0, 0)
    assert summary.left == 0 and summary.dead_lettered == {}


def restored_count(pair: Pair) -> int:
    found = bounds(pair.primary, "entity-*")
    return sum(part.active_count for one in found for part in one.fragments)
