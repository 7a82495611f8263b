"""The pytest plugin: patches the SDK, marks the tests, watches and reports them.

A test is live if it uses a preparer of the shim, or is marked as live by the vendor.
"""

from collections.abc import Generator
from typing import Any

import pytest

from . import patches
from .report import Report
from .skips import reason_to_skip
from .target import notes
from .watchdog import Watchdog

# Longer than the rest because of the SDK and not of the server: it sends ten times, and
# the SDK's keep-alive thread holds the socket for most of a minute each time.
_SLOW_SECONDS = {"test_topic_by_servicebus_client_send_large_messages_w_sleep": 900}

_watchdog = Watchdog()


def pytest_configure(config: pytest.Config) -> None:
    patches.apply()
    for name in ("liveTest", "live_test_only", "playback_test_only"):
        config.addinivalue_line("markers", f"{name}: the vendor's")
    if hasattr(config, "workerinput"):
        _watchdog.start()
    else:
        config.pluginmanager.register(Report(), "livetests-report")


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """Asked for by the vendor's conftest; only recordings need it."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        needs_server = getattr(item.obj, "needs_server", False)
        is_live = bool(needs_server) or item.get_closest_marker("liveTest") is not None
        item.user_properties.append(("live", is_live))
        _give_time(item)
        if xfail := item.get_closest_marker("xfail"):
            reason = xfail.kwargs.get("reason", "")
            item.user_properties.append(("note", f"the vendor's xfail: {reason}"))
        if reason := reason_to_skip(f"{item.path.name}::{item.name}"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _give_time(item: Any) -> None:
    needed = _SLOW_SECONDS.get(item.originalname, 0)
    if 0 < _timeout_seconds(item) < needed:
        item.add_marker(pytest.mark.timeout(needed))


def _timeout_seconds(item: Any) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getoption("timeout") or 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    notes.clear()
    _watchdog.begin(_timeout_seconds(item))
    try:
        return (yield)
    finally:
        _watchdog.end()


def pytest_runtest_teardown() -> None:
    patches.put_back()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        report.user_properties = [
            *report.user_properties,
            *(("note", text) for text in notes),
        ]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        from devtools_testutils import remove_shared_resources

        remove_shared_resources()
