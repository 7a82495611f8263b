"""Settings for all tests: Hypothesis profiles, Java, and which form of twinbus is
tested.

Fixtures are next to the tests that use them; the in-process bus comes from
`twinbus.testing`.
"""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from groups import Groups, LongFirst
from hypothesis import HealthCheck, settings
from spark_classes import JAVA_OPTIONS

from bench.postgres_server import PostgresMissing, PostgresServer
from twinbus import compilation

# No deadline per example: machines that run several tests at once are slow at
# times, and a test that hangs is ended by its own timeout.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "nightly", parent=settings.get_profile("default"), max_examples=10_000
)
# Continuous integration says the same of the same code; new examples are looked
# for on every other run, and at length by the nightly one.
settings.register_profile(
    "repeatable", parent=settings.get_profile("default"), derandomize=True
)
settings.load_profile("repeatable" if os.environ.get("CI") else "default")

# For Spark, in every process that a test starts.
os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """What has the mark `nightly` is a part of `make nightly` only."""
    if os.environ.get("TWINBUS_TEST_NIGHTLY"):
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    config.hook.pytest_deselected(items=nightly)
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """For all tests of a worker; each has schemas of its own. Continuous integration
    must have one."""
    try:
        server = PostgresServer().__enter__()
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    yield server
    server.__exit__()


@pytest.fixture(autouse=True)
def sockets_are_found_where_they_were_left(
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """The SDK does not close the socket of a connection that was refused or cut. Tests
    that are marked for that look for them, so that they are not found in others."""
    yield
    marks = request.node.iter_markers("filterwarnings")
    if any("ResourceWarning" in text for mark in marks for text in mark.args):
        gc.collect()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"twinbus was {compilation.describe()}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Any
) -> Groups | LongFirst | None:
    schedulers = {"loadgroup": Groups, "worksteal": LongFirst}
    made = schedulers.get(config.getvalue("dist"))
    return made and made(config, log)
