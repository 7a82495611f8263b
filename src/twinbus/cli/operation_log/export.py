"""Runs the export of operation logs, and says what it did."""

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn, final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.pyarrow_extra import require_pyarrow
from twinbus.cli.operation_log.sources import log_sources
from twinbus.cli.settings import settings
from twinbus.clock import SystemClock
from twinbus.durations import duration_ms
from twinbus.log_export.blob_source import SourceUnavailable
from twinbus.log_export.export_run import ExportRun
from twinbus.log_export.exporter import ExportCounts, ExportPlan


@final
class LogExport:
    """One run of `twinbus log export`."""

    def __init__(
        self,
        *,
        folder: Path,
        every: str,
        keep: str,
        keep_megabytes: int,
        is_json: bool,
        flags: dict[str, Any],
    ) -> None:
        """Raises Failure."""
        require_pyarrow()
        self._is_json = is_json
        config = settings(**flags)
        plan = ExportPlan(
            folder=folder,
            namespace=config.namespace,
            every_ms=_milliseconds("--every", every),
            keep_ms=_milliseconds("--keep", keep) if keep else 0,
            keep_bytes=keep_megabytes << 20,
        )
        self._run = ExportRun(log_sources(config), plan, SystemClock())

    def once(self) -> None:
        """Export what is there. Raises Failure."""
        try:
            self._run.once(self._progress, threading.Event().wait)
        except SourceUnavailable as error:
            raise Failure(str(error), exit_codes.UNREADABLE) from None
        except (OSError, ValueError) as error:
            _fail(error)
        if self._run.busy:
            raise Failure(
                f"Another process exports {', '.join(self._run.busy)} into this "
                "folder. Stop that one first, or leave it to it.",
                exit_codes.IN_USE,
            )
        self._report()

    def follow(self, *, is_with_parent: bool) -> None:
        """Export until SIGTERM or Ctrl-C; `is_with_parent`: or until the parent process
        has ended."""
        logging.basicConfig(level=logging.WARNING, format="twinbus: %(message)s")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        parent = os.getppid()

        def is_over() -> bool:
            return stop.is_set() or (is_with_parent and os.getppid() != parent)

        self._run.follow(is_over, stop.wait)
        self._report()

    def _progress(self, name: str, counts: ExportCounts) -> None:
        if sys.stderr.isatty():
            print(f"\r{name}: {counts.rows:,} rows", end="", file=sys.stderr)

    def _report(self) -> None:
        counts = self._run.counts
        if self._is_json:
            shown = [
                {
                    "source": name,
                    "segments": one.segments,
                    "rows": one.rows,
                    "gaps": one.gaps,
                    "removed": one.removed,
                }
                for name, one in counts.items()
            ]
            print(json.dumps({"sources": shown}, indent=2))
            return
        for name, one in counts.items():
            gaps = f", {one.gaps} gaps" if one.gaps else ""
            removed = f", {one.removed} old files removed" if one.removed else ""
            print(f"{name}: {one.rows} rows in {one.segments} files{gaps}{removed}")


def _milliseconds(flag: str, written: str) -> int:
    try:
        return duration_ms(written)
    except ValueError as error:
        raise Failure(f"{flag}: {error}", exit_codes.USAGE) from None


def _fail(error: Exception) -> NoReturn:
    raise Failure(f"The export failed: {error}", exit_codes.FAILED) from None
