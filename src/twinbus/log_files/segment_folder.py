"""The files of one source: numbered, checksummed, whole or not there.

    operations/date=YYYY-MM-DD/hour=HH/SOURCE-NUMBER.parquet
    segments/SOURCE-NUMBER.json

A file is written under another name, synced and renamed; then its JSON is written the
same way. The JSON makes the segment count: whoever starts again goes on after the last
one, and a file without one is written again. So a kill at any moment neither loses a
row nor writes one twice.
"""

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, final

from twinbus.log_files.columns import FORMAT, Columns, parquet_bytes

_DIGITS: Final = 12
_PART: Final = ".part-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Commits of which operations are not here."""

    first_batch: int
    last_batch: int
    # crash, retention, unreadable, or overflow.
    why: str

    def as_json(self) -> dict[str, Any]:
        return {
            "first_batch": self.first_batch,
            "last_batch": self.last_batch,
            "why": self.why,
        }


@final
class SegmentFolder:
    """The segments of one source. Only one process writes them at a time."""

    def __init__(self, folder: Path, source: str, kind: str, namespace: str) -> None:
        self.folder = folder
        self.source = source
        self._kind = kind
        self._namespace = namespace
        self._lock: IO[bytes] | None = None
        # The last segment.
        self.number = 0
        self.last_batch = 0
        # What its JSON says, and until when in milliseconds, if it was written here.
        self._last: dict[str, Any] = {}
        self._complete_until = 0

    # --- one writer -----------------------------------------------------------

    def open(self) -> bool:
        """Take the folder and find the last segment. False if another process writes
        this source. Raises OSError, ValueError."""
        segments = self.folder / "segments"
        segments.mkdir(parents=True, exist_ok=True)
        lock = (segments / f".{self.source}.lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        self._find_last()
        self._remove_unfinished()
        return True

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _find_last(self) -> None:
        names = [file.name for file in self._descriptions()]
        if names:
            last = self._read(self.folder / "segments" / max(names))
            self.number, self.last_batch = last["number"], last["last_batch"]

    def _descriptions(self) -> Iterator[Path]:
        return (self.folder / "segments").glob(f"{self.source}-*.json")

    def descriptions(self) -> list[dict[str, Any]]:
        """What is known of all segments, oldest first. Raises OSError, ValueError."""
        return [self._read(file) for file in sorted(self._descriptions())]

    def _read(self, file: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(file.read_text())
        except ValueError as error:
            raise ValueError(
                f"{file} is damaged ({error}). Restore it from a copy, or export into "
                "another folder."
            ) from None
        return found

    def _remove_unfinished(self) -> None:
        """A file without its JSON, and what never got its name."""
        unfinished = self._name(self.number + 1)
        under = "operations/date=*/hour=*"
        for file in self.folder.glob(f"{under}/{unfinished}.parquet"):
            file.unlink()
        for file in self.folder.glob(f"{under}/{self.source}-*{_PART}*"):
            file.unlink()
        for file in (self.folder / "segments").glob(f"{self.source}-*{_PART}*"):
            file.unlink()

    def _name(self, number: int) -> str:
        return f"{self.source}-{number:0{_DIGITS}d}"

    # --- segments -------------------------------------------------------------

    def write(
        self,
        rows: Columns,
        *,
        last_batch: int,
        gaps: list[Gap],
        complete_until: int,
        now: int,
        is_last: bool = False,
    ) -> dict[str, Any]:
        """Write the next segment, which stands for all commits up to `last_batch`.
        Times are in milliseconds. `is_last`: the source ends here. Raises OSError."""
        number = self.number + 1
        times = rows["occurred_at"]
        first_at = times[0] if times else complete_until * 1000
        hour = datetime.fromtimestamp(first_at / 1e6, UTC)
        place = f"operations/date={hour:%Y-%m-%d}/hour={hour:%H}"
        relative = f"{place}/{self._name(number)}.parquet"
        content = parquet_bytes(rows)
        write_durably(self.folder / relative, content)
        description = {
            "format": FORMAT,
            "source": self.source,
            "kind": self._kind,
            "namespace": self._namespace or None,
            "number": number,
            "file": relative,
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "rows": len(times),
            "first_batch": self.last_batch + 1,
            "last_batch": last_batch,
            "first_occurred_at": _iso(min(times)) if times else None,
            "last_occurred_at": _iso(max(times)) if times else None,
            "exported_at": _iso(now * 1000),
            "gaps": [gap.as_json() for gap in gaps],
            "complete_until": _iso(complete_until * 1000),
        }
        if is_last:
            description["closed"] = True
        self._describe(number, description)
        self.number, self.last_batch = number, last_batch
        self._last, self._complete_until = description, complete_until
        return description

    def extend(self, complete_until: int) -> None:
        """Nothing came since the last segment, which was written here: let it say
        until when. Raises OSError."""
        if not self._last or complete_until <= self._complete_until:
            return
        self._last = {**self._last, "complete_until": _iso(complete_until * 1000)}
        self._describe(self.number, self._last)
        self._complete_until = complete_until

    def _describe(self, number: int, description: Mapping[str, Any]) -> None:
        text = json.dumps(description, indent=2) + "\n"
        file = self.folder / "segments" / f"{self._name(number)}.json"
        write_durably(file, text.encode())

    # --- retention ------------------------------------------------------------

    def retain(self, *, keep_ms: int, keep_bytes: int, now: int) -> int:
        """Remove files that are too old or too many; 0: no limit. Their JSON stays and
        says so. Returns how many were removed. Raises OSError, ValueError."""
        kept = [one for one in self.descriptions() if "removed_at" not in one]
        size_bytes = sum(one["bytes"] for one in kept)
        removed = 0
        # The last one always stays.
        for one in kept[:-1]:
            until = one["last_occurred_at"] or one["exported_at"]
            age_ms = now - datetime.fromisoformat(until).timestamp() * 1000
            is_old = keep_ms != 0 and age_ms > keep_ms
            is_much = keep_bytes != 0 and size_bytes > keep_bytes
            if not is_old and not is_much:
                break
            size_bytes -= one["bytes"]
            # The JSON first: a file that is missing without a word looks like a loss.
            self._describe(one["number"], {**one, "removed_at": _iso(now * 1000)})
            file = self.folder / one["file"]
            file.unlink(missing_ok=True)
            _remove_if_empty(file.parent)
            removed += 1
        return removed


def retain_ended(
    folder: Path, kind: str, namespace: str, *, keep_ms: int, keep_bytes: int, now: int
) -> int:
    """The same for all sources of a namespace that no process writes now. Raises
    OSError, ValueError."""
    removed = 0
    # The first JSON of a source is never removed.
    for file in sorted((folder / "segments").glob(f"{kind}-*-{1:0{_DIGITS}d}.json")):
        if json.loads(file.read_text())["namespace"] != (namespace or None):
            continue
        source = file.name.rpartition("-")[0]
        segments = SegmentFolder(folder, source, kind, namespace)
        try:
            if segments.open():
                removed += segments.retain(
                    keep_ms=keep_ms, keep_bytes=keep_bytes, now=now
                )
        finally:
            segments.close()
    return removed


def _remove_if_empty(folder: Path) -> None:
    for one in (folder, folder.parent):
        try:
            one.rmdir()
        except OSError:
            return


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def write_durably(file: Path, content: bytes) -> None:
    """The whole file under its name, on disk, or nothing. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}{_PART}{secrets.token_hex(4)}")
    with unfinished.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.rename(file)
    # The names of new folders must last, too.
    for folder in (file.parent, *list(file.parents)[1:4]):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
