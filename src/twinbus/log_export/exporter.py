"""Exports the operation log of one store, blob by blob, segment by segment.

A segment ends when it has many rows, when its hour is over, or when its rows have
waited long enough for a file. Everything that decides where to go on is in the folder:
nothing is remembered elsewhere, and the store is told only what is synced.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from twinbus.broker.operation_record import OperationRecord, decode_operations
from twinbus.clock import Clock
from twinbus.log_export.blob_source import PORTION, BlobSource
from twinbus.log_export.row_maker import RowMaker, block_start
from twinbus.log_files.columns import Columns, empty_columns
from twinbus.log_files.segment_folder import Gap, SegmentFolder

SEGMENT_ROWS: Final = 250_000
_HOUR_MS: Final = 3_600_000

_SETTLED_MS: Final = 3_000
"""The last blob is taken when another follows, or after so long: until then its commit
may not be on disk, and nobody knows how long it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """How files are written, and how long they are kept."""

    folder: Path
    namespace: str = ""
    # Rows wait so long for a file.
    every_ms: int = 60_000
    segment_rows: int = SEGMENT_ROWS
    # 0: for ever, and as much as there is.
    keep_ms: int = 0
    keep_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class ExportCounts:
    """What was done so far."""

    segments: int = 0
    rows: int = 0
    gaps: int = 0
    removed: int = 0


@final
class Exporter:
    """Of one store."""

    def __init__(self, source: BlobSource, plan: ExportPlan, clock: Clock) -> None:
        self._source = source
        self._plan = plan
        self._clock = clock
        self.counts = ExportCounts()
        self._segments: SegmentFolder | None = None
        self._rows: Columns = empty_columns()
        self._row_count = 0
        self._gaps: list[Gap] = []
        # The last blob that was taken, and when it was sealed.
        self._batch = 0
        self._sealed_at = 0
        # When the first of the rows was taken, by the clock that does not jump.
        self._since = 0

    @property
    def name(self) -> str:
        """The source, as it is called in files."""
        return self._folder.source

    @property
    def last_batch(self) -> int:
        """The last commit that is in files."""
        return self._folder.last_batch

    @property
    def _folder(self) -> SegmentFolder:
        assert self._segments is not None, "the exporter is not open"
        return self._segments

    def open(self) -> bool:
        """Find out where to go on. False if another process exports this store into
        this folder. Raises SourceUnavailable, OSError, ValueError."""
        uuid = self._source.open()
        name = f"store-{uuid.hex()}"
        namespace = self._plan.namespace
        folder = SegmentFolder(self._plan.folder, name, "store", namespace)
        if not folder.open():
            self._source.close()
            return False
        self._segments = folder
        self._maker = RowMaker(name, uuid, namespace)
        self._batch = folder.last_batch
        self._learn_block()
        if folder.last_batch:
            # The export may have been stopped before the store was told.
            self._tell_store()
        return True

    def _learn_block(self) -> None:
        """Who is who at the point where the export goes on."""
        after = block_start(self._batch) - 1
        while after < self._batch:
            found = self._source.blobs(after)
            for batch, blob in found:
                if batch > self._batch:
                    return
                record = _decoded(blob)
                if record is not None:
                    self._maker.learn(batch, record)
            if not found:
                return
            after = found[-1][0]

    # --- blobs ----------------------------------------------------------------

    def take(self) -> bool:
        """Take what is there; True if there may be more. Raises SourceUnavailable,
        OSError."""
        blobs = self._source.blobs(self._batch, PORTION)
        records = [(batch, _decoded(blob)) for batch, blob in blobs]
        now = self._clock.now()
        for at, (batch, record) in enumerate(records):
            following = records[at + 1][1] if at + 1 < len(records) else None
            is_tail = at + 1 == len(records)
            if is_tail and record is not None and not record.is_last:
                if len(blobs) == PORTION:
                    # It comes first the next time, with what follows.
                    return True
                if 0 <= now - record.sealed_at < _SETTLED_MS:
                    return False
            self._take_one(batch, record, following)
        return len(blobs) == PORTION

    def is_behind(self) -> bool:
        """There is a blob that was not taken. Raises SourceUnavailable."""
        return bool(self._source.blobs(self._batch, 1))

    def _take_one(
        self,
        batch: int,
        record: OperationRecord | None,
        following: OperationRecord | None,
    ) -> None:
        if record is None:
            self._gap(batch, batch, "unreadable")
            self._batch = batch
            return
        if self._row_count and record.sealed_at // _HOUR_MS != (
            self._sealed_at // _HOUR_MS
        ):
            self.write()
        if not self._row_count:
            self._since = self._clock.monotonic()
        self._find_gap(batch, record)
        took_ms: int | None = None
        if following is not None and following.previous == batch:
            took_ms = following.previous_ms
        self._row_count += self._maker.append(batch, record, took_ms, self._rows)
        self._batch, self._sealed_at = batch, record.sealed_at
        if self._row_count >= self._plan.segment_rows:
            self.write()

    def _find_gap(self, batch: int, record: OperationRecord) -> None:
        """What is missing between the last blob and this one."""
        last = self._maker.last
        if last is None or last.batch < self._batch:
            # Nothing before it was read: it was trimmed, or never there.
            is_first = batch == 1 or (record.epoch == 1 and record.previous == 0)
            is_next = record.previous != 0 and record.previous == self._batch
            if not is_first and not is_next and batch > self._batch + 1:
                self._gap(self._batch + 1, batch - 1, "retention")
            return
        if record.epoch != last.epoch:
            if last.epoch != 0 and not last.is_last:
                self._gap(last.batch, batch, "crash")
        elif record.previous not in (0, last.batch):
            self._gap(last.batch + 1, record.previous, "retention")

    def _gap(self, first_batch: int, last_batch: int, why: str) -> None:
        self._gaps.append(Gap(first_batch=first_batch, last_batch=last_batch, why=why))
        self.counts.gaps += 1

    # --- segments -------------------------------------------------------------

    def write_if_due(self) -> None:
        """Write what has waited long enough. Raises OSError, SourceUnavailable."""
        waited_ms = self._clock.monotonic() - self._since
        if self._row_count and waited_ms >= self._plan.every_ms:
            self.write()

    def write(self) -> None:
        """Write what was taken, and tell the store. Raises OSError,
        SourceUnavailable."""
        if not self._row_count and not self._gaps:
            return
        self._folder.write(
            self._rows,
            last_batch=self._batch,
            gaps=self._gaps,
            complete_until=self._sealed_at,
            now=self._clock.now(),
        )
        self.counts.segments += 1
        self.counts.rows += self._row_count
        self._rows, self._row_count, self._gaps = empty_columns(), 0, []
        self._tell_store()
        self.retain()

    def _tell_store(self) -> None:
        place = str(self._plan.folder.resolve())
        self._source.note_exported(place, self._folder.last_batch)

    def retain(self) -> None:
        """Remove files that need not be kept. Raises OSError, ValueError."""
        plan = self._plan
        if plan.keep_ms or plan.keep_bytes:
            self.counts.removed += self._folder.retain(
                keep_ms=plan.keep_ms, keep_bytes=plan.keep_bytes, now=self._clock.now()
            )

    def close(self) -> None:
        """Give up what is not in a file: it will be read again."""
        self._source.close()
        if self._segments is not None:
            self._segments.close()


def _decoded(blob: bytes) -> OperationRecord | None:
    """None if it is damaged, or of a format that is not known."""
    try:
        return decode_operations(blob)
    except (ValueError, struct.error, IndexError):
        return None
