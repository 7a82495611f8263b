"""A real bus for each module, and one for each test that measures or breaks it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from crash.server_process import ServerProcess

from hostile import witness

QUEUES = f"""
[server]
# Thousands of wrong keys are tried here; tests/hostile/test_wrong_keys.py has a limit.
max_failed_attempts = 0
[[rules]]
key_name = "listener"
primary_key = "only-listening"
rights = ["Listen"]
[[rules]]
key_name = "sender"
primary_key = "only-sending!"
rights = ["Send"]
[queues.target]
lock_duration = "PT5M"
[queues.sessions]
requires_session = true
[topics.news.subscriptions.all]
{witness.CONFIG}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The bus that the tests of a module are hostile to."""
    with ServerProcess(tmp_path_factory.mktemp("bus"), QUEUES) as running:
        running.start_now()
        yield running
        assert "Traceback" not in running.errors, running.errors


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts a bus for this test alone, with more flags."""
    with ExitStack() as stack:

        def make(*flags: str) -> ServerProcess:
            own = stack.enter_context(ServerProcess(tmp_path, QUEUES, flags))
            own.start_now()
            return own

        yield make
