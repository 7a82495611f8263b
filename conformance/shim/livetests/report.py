"""The report of one phase: how each test ended, as JSON in the file SB_REPORT.

It is written by the process that collects what the workers tell. The first failure of
a test counts; a skip counts if nothing failed.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

_REASON_CHARACTERS = 600
_DETAIL_CHARACTERS = 4000


class Report:
    """A pytest plugin that notes outcomes and writes them at the end."""

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, Any]] = {}
        self._started_at = time.monotonic()

    def _test(self, name: str) -> dict[str, Any]:
        fresh = {
            "outcome": "passed",
            "reason": "",
            "phase": "",
            "seconds": 0.0,
            "live": False,
            "notes": [],
        }
        return self._tests.setdefault(name, fresh)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._test(report.nodeid)
        test["seconds"] = round(test["seconds"] + report.duration, 3)
        for name, value in report.user_properties:
            if name == "live":
                test["live"] = value
            elif name == "note" and value not in test["notes"]:
                test["notes"].append(value)
        if report.failed and test["outcome"] != "failed":
            test["detail"] = str(report.longrepr)[-_DETAIL_CHARACTERS:]
            self._end(test, "failed", report)
        elif report.skipped and test["outcome"] == "passed":
            self._end(test, "skipped", report)

    def _end(
        self, test: dict[str, Any], outcome: str, report: pytest.TestReport
    ) -> None:
        test.update(outcome=outcome, phase=report.when or "", reason=_reason(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            reason = str(report.longrepr)[-_REASON_CHARACTERS:]
            self._test(report.nodeid).update(
                outcome="failed", phase="collect", reason=reason
            )

    def pytest_sessionfinish(self) -> None:
        seconds = round(time.monotonic() - self._started_at, 1)
        document = {"seconds": seconds, "tests": self._tests}
        if file := os.environ.get("SB_REPORT"):
            Path(file).write_text(json.dumps(document))


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # skipped: path, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr or "")
    return text[:_REASON_CHARACTERS]
