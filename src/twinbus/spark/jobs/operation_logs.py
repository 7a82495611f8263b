"""Operation logs of several folders: which segments there are, and what is missing.

Nothing is taken on trust: numbers and commit numbers must follow each other, and files
must be what their segments say. What is missing is a gap, with the time that it may be
of. A damaged file or an unknown format ends the job before it has done anything, unless
the caller wants damaged files to count as gaps.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from twinbus.spark.jobs.segment_files import (
    STORE,
    DamagedFile,
    OperationLogError,
    SegmentFile,
    check_file,
    read_segment,
)

_READERS: Final = 4
"""Threads that take digests: Python releases its lock while it does."""

MISSING: Final = "missing"
DAMAGED: Final = "damaged"
RETENTION: Final = "retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGap:
    """Operations of a source that are not in its log."""

    source: str
    kind: str
    namespace: str
    # crash, retention, unreadable, overflow, missing, damaged, unclosed
    why: str
    what: str
    # What is missing happened in this time; None: without a bound on that side.
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """One message store, or one paired sender, and how far its log reaches."""

    source: str
    kind: str
    namespace: str
    segments: int
    rows: int
    first_batch: int
    first_occurred_at: datetime | None
    last_occurred_at: datetime | None
    # Every operation before this is in the log, or in a gap. What is after it is the
    # open tail.
    complete_until: datetime | None
    # A sender that ended in order: it has done nothing since.
    is_closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLogs:
    """All that was found, checked."""

    segments: tuple[SegmentFile, ...]
    sources: tuple[LogSource, ...]
    gaps: tuple[LogGap, ...]

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those that the log of a store is of."""
        return tuple(sorted({one.namespace for one in self.stores()}))

    def stores(self) -> list[LogSource]:
        return [one for one in self.sources if one.kind == STORE]

    def complete_until(self, namespace: str | None = None) -> datetime | None:
        """Until when the logs of all stores, or those of a namespace, are complete."""
        found = [
            one.complete_until
            for one in self.stores()
            if namespace in (None, one.namespace)
        ]
        known = [one for one in found if one is not None]
        return min(known) if known and len(known) == len(found) else None


def find_logs(
    folders: Sequence[str | Path], *, damaged_is_gap: bool = False
) -> OperationLogs:
    """Find and check the logs of some folders. Raises OperationLogError."""
    found: dict[tuple[str, int], SegmentFile] = {}
    for folder in folders:
        for segment in _segments_of(_local(folder)):
            key = (segment.source, segment.number)
            known = found.setdefault(key, segment)
            if known.sha256 != segment.sha256:
                raise OperationLogError(
                    f"{known.path} and {segment.path} are the same segment with "
                    "different contents. Give the folders of one log."
                )
    if not found:
        raise OperationLogError(
            f"There is no operation log in {', '.join(map(str, folders))}: no segment "
            "was exported yet, or it is another folder than that of the setting "
            "operation_log_folder."
        )
    ordered = [found[key] for key in sorted(found)]
    damage = _damage(ordered)
    if damage and not damaged_is_gap:
        first = next(iter(damage.values()))
        more = f" {len(damage) - 1} more files are damaged." if len(damage) > 1 else ""
        raise DamagedFile(
            f"{first}{more} Restore it from a backup, or let damaged files count as "
            "gaps."
        )
    return _checked(ordered, damage)


def _local(folder: str | Path) -> Path:
    return Path(str(folder).removeprefix("file://"))


def _segments_of(folder: Path) -> Iterator[SegmentFile]:
    if not folder.is_dir():
        raise OperationLogError(f"{folder}: there is no such folder.")
    for path in sorted((folder / "segments").glob("*.json")):
        yield read_segment(folder, path)


def _damage(segments: Iterable[SegmentFile]) -> dict[tuple[str, int], str]:
    """Why files cannot be used, by segment. A file that is not there is no damage."""

    def fault(segment: SegmentFile) -> str | None:
        try:
            check_file(segment)
        except DamagedFile as error:
            return str(error)
        return None

    there = [one for one in segments if not one.is_removed and one.path.exists()]
    with ThreadPoolExecutor(_READERS) as pool:
        faults = list(pool.map(fault, there))
    pairs = zip(there, faults, strict=True)
    return {(one.source, one.number): text for one, text in pairs if text}


def _checked(
    segments: Sequence[SegmentFile], damage: dict[tuple[str, int], str]
) -> OperationLogs:
    usable: list[SegmentFile] = []
    sources: list[LogSource] = []
    gaps: list[LogGap] = []
    for _, group in groupby(segments, key=lambda one: one.source):
        of_source = list(group)
        usable_here = [
            one
            for one in of_source
            if not one.is_removed
            and (one.source, one.number) not in damage
            and one.path.exists()
        ]
        gaps += _gaps(of_source, {one.number for one in usable_here}, damage)
        sources.append(_source(of_source, usable_here))
        usable += usable_here
    return OperationLogs(
        segments=tuple(usable), sources=tuple(sources), gaps=tuple(gaps)
    )


def _source(all_of: Sequence[SegmentFile], usable: Sequence[SegmentFile]) -> LogSource:
    last = all_of[-1]
    if any(one.namespace != last.namespace for one in all_of):
        raise OperationLogError(
            f"The segments of {last.source} name different namespaces. Give the "
            "folders of one bus."
        )
    firsts = [one.first_occurred_at for one in usable if one.first_occurred_at]
    lasts = [one.last_occurred_at for one in usable if one.last_occurred_at]
    return LogSource(
        source=last.source,
        kind=last.kind,
        namespace=last.namespace,
        segments=len(usable),
        rows=sum(one.rows for one in usable),
        first_batch=all_of[0].first_batch,
        first_occurred_at=min(firsts, default=None),
        last_occurred_at=max(lasts, default=None),
        complete_until=last.complete_until or last.last_occurred_at,
        is_closed=last.is_closed,
    )


def _gaps(
    segments: Sequence[SegmentFile],
    usable: set[int],
    damage: dict[tuple[str, int], str],
) -> Iterator[LogGap]:
    """What is missing of a source, in order."""
    before: SegmentFile | None = None
    for segment in segments:
        since = before.last_occurred_at if before is not None else None
        expected = before.number + 1 if before is not None else 1
        if segment.number != expected:
            what = f"segments {expected} to {segment.number - 1}"
            yield _gap(segment, MISSING, what, since, segment.first_occurred_at)
        elif before is not None and segment.first_batch != before.last_batch + 1:
            what = f"commits {before.last_batch + 1} to {segment.first_batch - 1}"
            yield _gap(segment, MISSING, what, since, segment.first_occurred_at)
        for gap in segment.gaps:
            what = f"commits {gap.first_batch} to {gap.last_batch}"
            yield _gap(segment, gap.why, what, since, segment.last_occurred_at)
        if segment.number not in usable:
            why, what = _absence(segment, damage)
            yield _gap(segment, why, what, since, segment.last_occurred_at)
        before = segment


def _absence(
    segment: SegmentFile, damage: dict[tuple[str, int], str]
) -> tuple[str, str]:
    if segment.is_removed:
        return RETENTION, f"segment {segment.number}"
    if (segment.source, segment.number) in damage:
        return DAMAGED, damage[segment.source, segment.number]
    return MISSING, f"the file of segment {segment.number}, {segment.path}"


def _gap(
    segment: SegmentFile,
    why: str,
    what: str,
    since: datetime | None,
    until: datetime | None,
) -> LogGap:
    return LogGap(
        source=segment.source,
        kind=segment.kind,
        namespace=segment.namespace,
        why=why,
        what=what,
        since=since,
        until=until,
    )
