"""What the commits of a store take, and the last ones of them.

Told of each commit, it costs nothing per message. Throttling reads how long commits
take; a diagnosis shows the last ones.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twinbus.broker.changes import ChangeSet
from twinbus.broker.operation_log import OperationLog
from twinbus.limits import COMMITS_REMEMBERED

_SPAN_MS: Final = 5_000
"""Commits of this time are averaged."""

_LOG_ENTRIES: Final = 600
"""Longer logs of single commits are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCommit:
    """One commit."""

    batch: int
    # Of the clock that does not jump.
    ended_at: int
    duration_ms: int
    is_done: bool
    # Who did what to which messages; None if that was too much to keep.
    log: OperationLog | None


class CommitMeter:
    """Of one store."""

    def __init__(self, on_operations: Callable[[int], None] | None = None) -> None:
        self.recent: deque[MeasuredCommit] = deque(maxlen=COMMITS_REMEMBERED)
        # Told how many operations a commit had.
        self._on_operations = on_operations
        # When the commit under way began; None: there is none.
        self._began_at: int | None = None

    def begin(self, monotonic: int) -> None:
        self._began_at = monotonic

    def end(self, changes: ChangeSet, monotonic: int, *, is_done: bool) -> None:
        began_at = monotonic if self._began_at is None else self._began_at
        self._began_at = None
        log = changes.log
        self.recent.append(
            MeasuredCommit(
                batch=changes.batch,
                ended_at=monotonic,
                duration_ms=monotonic - began_at,
                is_done=is_done,
                log=log if log.entry_count() <= _LOG_ENTRIES else None,
            )
        )
        if self._on_operations is not None and is_done:
            self._on_operations(_operation_count(changes))

    def commit_ms(self, monotonic: int) -> int:
        """The mean of the last seconds; a longer one under way counts instead."""
        took = []
        for commit in reversed(self.recent):
            if commit.ended_at < monotonic - _SPAN_MS:
                break
            took.append(commit.duration_ms)
        mean = sum(took) // len(took) if took else 0
        return max(mean, self.under_way_ms(monotonic))

    def under_way_ms(self, monotonic: int) -> int:
        """How long the commit under way has taken so far; 0: there is none."""
        return 0 if self._began_at is None else monotonic - self._began_at


def _operation_count(changes: ChangeSet) -> int:
    """Messages that were sent, scheduled or settled."""
    columns = (
        *(changes.active_added, changes.active_removed, changes.active_changed),
        *(changes.deferred_added, changes.deferred_removed),
        *(changes.scheduled_added, changes.scheduled_removed),
    )
    return sum(len(column) for column in columns) + changes.ping_count
