"""Exports the logs of several stores, once or until it is told to stop.

A store that is away, or that another process exports already, is tried again: so a
second exporter takes over when the first one ends.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from twinbus.clock import Clock
from twinbus.log_export.blob_source import BlobSource, SourceUnavailable
from twinbus.log_export.exporter import ExportCounts, Exporter, ExportPlan

_log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5
_SETTLING: Final = 8
_TRY_AGAIN_MS: Final = 5_000
_RETAIN_MS: Final = 60_000


@final
class ExportRun:
    """Of all stores that were named."""

    def __init__(
        self, sources: Sequence[BlobSource], plan: ExportPlan, clock: Clock
    ) -> None:
        self._sources = sources
        self._plan = plan
        self._clock = clock
        # What files were written, by name of the source.
        self.counts: dict[str, ExportCounts] = {}
        # Sources of another exporter.
        self.busy: list[str] = []

    def once(
        self,
        on_progress: Callable[[str, ExportCounts], None],
        pause: Callable[[float], object],
    ) -> None:
        """Export what is there; `pause` waits for so many seconds. Raises
        SourceUnavailable, OSError, ValueError."""
        for source in self._sources:
            exporter = Exporter(source, self._plan, self._clock)
            if not exporter.open():
                self.busy.append(source.location)
                continue
            try:
                self.counts[exporter.name] = exporter.counts
                for _ in range(_SETTLING):
                    while exporter.take():
                        on_progress(exporter.name, exporter.counts)
                    if not exporter.is_behind():
                        break
                    # The last commit may not be on disk yet.
                    pause(_PAUSE_SECONDS)
                exporter.write()
                exporter.retain()
            finally:
                exporter.close()

    def follow(
        self, is_over: Callable[[], bool], pause: Callable[[float], object]
    ) -> None:
        """Export until it is over; then write what is there."""
        running = [
            _Followed(source, self._plan, self._clock) for source in self._sources
        ]
        while not is_over():
            has_more = [one.step() for one in running]
            if not any(has_more):
                pause(_PAUSE_SECONDS)
        for one in running:
            one.end()
            if one.name:
                self.counts[one.name] = one.counts


@final
class _Followed:
    """One store, through whatever happens to it."""

    def __init__(self, source: BlobSource, plan: ExportPlan, clock: Clock) -> None:
        self._source = source
        self._plan = plan
        self._clock = clock
        self._exporter: Exporter | None = None
        self._try_at = 0
        self._retain_at = 0
        self._trouble = ""
        self.name = ""
        self.counts = ExportCounts()

    def step(self) -> bool:
        """Take a portion; True if there may be more."""
        try:
            exporter = self._opened()
            if exporter is None:
                return False
            has_more = exporter.take()
            exporter.write_if_due()
            self._retain(exporter)
            self._trouble = ""
            return has_more
        except (SourceUnavailable, OSError, ValueError) as error:
            self._give_up(str(error))
            return False

    def _opened(self) -> Exporter | None:
        if self._exporter is not None:
            return self._exporter
        now = self._clock.monotonic()
        if now < self._try_at:
            return None
        self._try_at = now + _TRY_AGAIN_MS
        exporter = Exporter(self._source, self._plan, self._clock)
        exporter.counts = self.counts
        if not exporter.open():
            self._say(f"{self._source.location} is exported by another process")
            return None
        self._exporter, self.name = exporter, exporter.name
        return exporter

    def _retain(self, exporter: Exporter) -> None:
        now = self._clock.monotonic()
        if now >= self._retain_at:
            self._retain_at = now + _RETAIN_MS
            exporter.retain()

    def _give_up(self, why: str) -> None:
        """For a while. What was taken is read again."""
        self._say(f"the export of {self._source.location} is put off: {why}")
        if self._exporter is not None:
            self._exporter.close()
            self._exporter = None
        self._try_at = self._clock.monotonic() + _TRY_AGAIN_MS

    def _say(self, text: str) -> None:
        if text != self._trouble:
            self._trouble = text
            _log.warning("%s", text)

    def end(self) -> None:
        """Write what is there."""
        self._try_at = 0
        try:
            if self._opened() is None:
                return
            assert self._exporter is not None
            while self._exporter.take():
                pass
            self._exporter.write()
        except (SourceUnavailable, OSError, ValueError) as error:
            _log.warning("the last rows are left to the next export: %s", error)
        if self._exporter is not None:
            self._exporter.close()
