"""The send log of a pair: what became of each message and each ping, as this process
knows it.

It has the form of an exported operation log (docs/reference/operation-log.md), so that
an audit can compare what was sent with what arrived. A thread of its own writes the
files; a send only puts a note into memory. If the disk does not keep up, notes are
dropped, and the next file says which: a send is never held up by its log.

Each process has a source of its own. Its last file says that it is the last; without
that the process is running, which its log shows by reaching further all the time, or
was killed, and the notes of its last seconds may be missing.
"""

import atexit
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final
from uuid import uuid4

from twinbus.clock import Clock
from twinbus.log_files.columns import Columns, append_rows, empty_columns
from twinbus.log_files.segment_folder import Gap, SegmentFolder, retain_ended

_log = logging.getLogger("twinbus.pairing")

SEND_LOG_SECONDS: Final = 10.0
_SOONER: Final = 10
"""The first file comes so many times sooner: a process that is killed before it has one
leaves no trace."""
_RETAIN_MS: Final = 3_600_000
"""Old files are looked for so often: all that is known of them is read."""
_WAITING_MESSAGES: Final = 200_000
"""Notes in memory, at most."""

ACCEPTED: Final = "ok"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCall:
    """One call of the application, or one ping, and its outcome."""

    # send, schedule, divert or ping.
    operation: str
    result: str
    path: str
    # When it began, and how long it took.
    began_at: int
    took_ms: int
    send_ids: Sequence[bytes | None]
    message_ids: Sequence[str | None]
    session_ids: Sequence[str | None]
    reason: str | None = None
    # The backlog queue.
    destination: str | None = None


@final
class SendLog:
    """Of one pair in one process."""

    def __init__(
        self,
        folder: Path,
        namespace: str,
        clock: Clock,
        *,
        every_seconds: float = SEND_LOG_SECONDS,
        waiting_messages: int = _WAITING_MESSAGES,
        keep_ms: int = 0,
        keep_bytes: int = 0,
    ) -> None:
        """`namespace`: the name of the primary. Files that are older than `keep_ms` are
        removed, and the oldest ones beyond `keep_bytes`; 0: none. Raises OSError."""
        self.source = f"sender-{uuid4().hex}"
        self._namespace = namespace
        self._clock = clock
        self._every_seconds = every_seconds
        self._limit = waiting_messages
        self._keep_ms = keep_ms
        self._keep_bytes = keep_bytes
        # By the monotonic clock; None: not yet.
        self._retained_at: int | None = None
        self._segments = SegmentFolder(folder, self.source, "sender", namespace)
        self._segments.open()
        # None: it was dropped.
        self._calls: deque[tuple[int, SentCall | None]] = deque()
        # Messages of these calls; changed by both threads, so only a measure.
        self._waiting = 0
        self._batch = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="twinbus-send-log", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    def note(self, call: SentCall) -> None:
        """Log a call. It is called by the thread of the pair alone, and never waits."""
        self._batch += 1
        if self._waiting >= self._limit:
            self._calls.append((self._batch, None))
            return
        self._waiting += len(call.send_ids)
        self._calls.append((self._batch, call))

    def close(self) -> None:
        """Write what is left. It waits for the disk."""
        atexit.unregister(self.close)
        self._stopping.set()
        self._thread.join()

    # --- the thread -----------------------------------------------------------

    def _run(self) -> None:
        trouble = ""
        batch = _Unwritten()
        while True:
            is_last = self._stopping.wait(self._pause_seconds())
            # Calls that ended before are noted.
            noted_until = self._clock.now()
            self._collect(batch)
            try:
                self._write(batch, noted_until, is_last=is_last)
                trouble = ""
            except OSError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    _log.warning("the send log cannot be written: %s", trouble)
            self._retain()
            if is_last:
                self._segments.close()
                return

    def _retain(self) -> None:
        """Remove old files, of this sender and at first of those that ended: there may
        be many, and each one comes by once."""
        at = self._retained_at
        is_early = at is not None and self._clock.monotonic() - at < _RETAIN_MS
        if is_early or not (self._keep_ms or self._keep_bytes):
            return
        self._retained_at = self._clock.monotonic()
        now = self._clock.now()
        limits = {"keep_ms": self._keep_ms, "keep_bytes": self._keep_bytes, "now": now}
        try:
            self._segments.retain(**limits)
            if at is None:
                folder = self._segments.folder
                retain_ended(folder, "sender", self._namespace, **limits)
        except (OSError, ValueError) as error:
            _log.warning("old files of the send log cannot be removed: %s", error)

    def _pause_seconds(self) -> float:
        return self._every_seconds / (1 if self._segments.number else _SOONER)

    def _collect(self, batch: "_Unwritten") -> None:
        while self._calls:
            number, call = self._calls.popleft()
            batch.last_batch = number
            if call is None:
                batch.drop(number)
                continue
            batch.complete_until = max(
                batch.complete_until, call.began_at + call.took_ms
            )
            batch.message_count += len(call.send_ids)
            self._append(number, call, batch.rows)

    def _append(self, number: int, call: SentCall, rows: Columns) -> None:
        count = len(call.send_ids)
        append_rows(
            rows,
            count,
            {
                "source": self.source,
                "batch": number,
                "position": list(range(count)),
                "occurred_at": call.began_at * 1000,
                "operation": call.operation,
                "result": call.result,
                "namespace": self._namespace,
                "entity": call.path,
                "message_uid": [one.hex() if one else None for one in call.send_ids],
                "message_id": list(call.message_ids),
                "session_id": list(call.session_ids),
                "latency_ms": float(call.took_ms),
                "reason": call.reason,
                "destination": call.destination,
                "purpose": "pair",
            },
        )

    def _write(self, batch: "_Unwritten", noted_until: int, *, is_last: bool) -> None:
        """Raises OSError; then the rows are written the next time."""
        if batch.last_batch == 0 and not (is_last and self._segments.number):
            self._segments.extend(noted_until)
            return
        self._segments.write(
            batch.rows,
            last_batch=batch.last_batch or self._segments.last_batch,
            gaps=batch.gaps,
            complete_until=max(batch.complete_until, noted_until),
            now=self._clock.now(),
            is_last=is_last,
        )
        self._waiting -= batch.message_count
        batch.clear()


@dataclass(slots=True)
class _Unwritten:
    """What goes into the next file."""

    rows: Columns = field(default_factory=empty_columns)
    gaps: list[Gap] = field(default_factory=list)
    last_batch: int = 0
    complete_until: int = 0
    message_count: int = 0

    def drop(self, number: int) -> None:
        last = self.gaps[-1] if self.gaps else None
        if last is not None and last.last_batch + 1 == number:
            first = last.first_batch
            self.gaps[-1] = Gap(first_batch=first, last_batch=number, why="overflow")
        else:
            self.gaps.append(Gap(first_batch=number, last_batch=number, why="overflow"))

    def clear(self) -> None:
        self.rows, self.gaps = empty_columns(), []
        self.last_batch = self.complete_until = self.message_count = 0


def check_send_log() -> None:
    """Raises ValueError if files cannot be written."""
    if find_spec("pyarrow") is None:
        raise ValueError(
            "send_log needs pyarrow, which is not installed. Run "
            "pip install 'twinbus[log]', or leave the option out."
        )
