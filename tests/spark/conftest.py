"""Fixtures of the Spark tests: one session for the whole run, a bus for each test.

The session starts in seconds, so every process that runs tests has one and keeps it.
`local[2,4]`: a task is tried up to four times, as on a cluster.
"""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from groups import group_of
from pyspark.sql import SparkSession

from twinbus.testing import Bus

from .harness import Namespace
from .small_jobs import submit_arguments
from .standalone import StandaloneCluster

# For the session below, and for the applications that tests start.
os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments()

_DAEMON_FOLDER = Path(__file__).parent / "daemon"

_PATIENCE_SECONDS = 600
"""For a test: Spark starts slowly on a busy machine, and may have to start again."""

_LAST_RENEWAL_SECONDS = 30
"""For the thread of leases that are not held any more: it may be asking the bus."""

_DRILLS = {
    "test_syphon_kill.py",
    "test_capture_kill.py",
    "test_exclusive_kill.py",
    "test_defer_kill.py",
    "test_versions.py",
    "test_secrets.py",
}
"""They start Spark applications of their own, several in each test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if item.path.is_relative_to(here)]
    for item in ours:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_PATIENCE_SECONDS))
        if "cluster" in getattr(item, "fixturenames", ()):
            assert group_of(item.nodeid) == "cluster", f"{item.nodeid} has no group"
    # Those that start applications take the longest: begun last, they would run alone.
    drills = [item for item in ours if item.path.name in _DRILLS]
    items[:] = drills + [item for item in items if item not in drills]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Workers are to be of this Python, with what is installed in it.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    given = os.environ.get("PYTHONPATH")
    paths = [str(_DAEMON_FOLDER), *([given] if given else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("twinbus tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.python.daemon.module", "forking_daemon")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One for a whole run: `tests/groups.py` has the files that use it."""
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(autouse=True)
def no_lease_is_renewed_any_more() -> Iterator[None]:
    """A thread that a test leaves would go on, and log that the bus is away."""
    yield
    for thread in threading.enumerate():
        if thread.name == "servicebus-leases":
            thread.join(_LAST_RENEWAL_SECONDS)
            assert not thread.is_alive(), "a stream was not closed"


@pytest.fixture
def bus() -> Iterator[Bus]:
    """A bus in this process, whose time is the test's."""
    with Bus() as started:
        yield started


@pytest.fixture
def namespace(bus: Bus, tmp_path: Path) -> Iterator[Namespace]:
    """The bus as the tests use it: entities, messages, and options for Spark."""
    with Namespace(bus, tmp_path) as made:
        yield made


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Namespace]:
    """A bus that offers nothing but Service Bus: for Spark any namespace."""
    with (
        Bus(settings={"strict": True}) as started,
        Namespace(started, tmp_path) as made,
    ):
        yield made
