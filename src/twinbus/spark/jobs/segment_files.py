"""One segment of an operation log: a Parquet file, and the JSON that vouches for it.

The JSON is written after its file, so a file without one is not part of the log yet. A
file is what its segment says, byte by byte, or it is damaged.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 2
"""The format of segments and rows that this version reads."""

STORE: Final = "store"
SENDER: Final = "sender"


class OperationLogError(Exception):
    """A log cannot be used; the text says which file, why, and what to do."""


class DamagedFile(OperationLogError):
    """A file is not what its segment says."""


@dataclass(frozen=True, slots=True)
class BatchGap:
    """Commits that a segment says it does not have."""

    first_batch: int
    last_batch: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """What the JSON of a segment says."""

    folder: Path
    source: str
    kind: str
    namespace: str
    number: int
    file: str
    sha256: str
    size_bytes: int
    rows: int
    first_batch: int
    last_batch: int
    first_occurred_at: datetime | None
    last_occurred_at: datetime | None
    complete_until: datetime | None
    gaps: tuple[BatchGap, ...]
    # Retention removed the file.
    is_removed: bool
    # The last one of a sender that ended in order.
    is_closed: bool

    @property
    def path(self) -> Path:
        return self.folder / self.file


def read_segment(folder: Path, path: Path) -> SegmentFile:
    """Read the JSON of a segment. Raises OperationLogError."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{path}: not readable as JSON ({error}).") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise OperationLogError(
            f"{path}: its format is {found!r}, and this version of twinbus reads "
            f"format {FORMAT}. Use the version that wrote it."
        )
    try:
        return _segment(folder, content)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path}: {_said(error)}.") from None


def _segment(folder: Path, content: Mapping[str, Any]) -> SegmentFile:
    if content["kind"] not in (STORE, SENDER):
        raise ValueError(f"its kind is {content['kind']!r}")
    return SegmentFile(
        folder=folder,
        source=str(content["source"]),
        kind=str(content["kind"]),
        namespace=str(content["namespace"] or ""),
        number=int(content["number"]),
        file=str(content["file"]),
        sha256=str(content["sha256"]),
        size_bytes=int(content["bytes"]),
        rows=int(content["rows"]),
        first_batch=int(content["first_batch"]),
        last_batch=int(content["last_batch"]),
        first_occurred_at=_instant(content["first_occurred_at"]),
        last_occurred_at=_instant(content["last_occurred_at"]),
        complete_until=_instant(content["complete_until"]),
        gaps=tuple(
            BatchGap(int(one["first_batch"]), int(one["last_batch"]), str(one["why"]))
            for one in content["gaps"]
        ),
        is_removed=bool(content.get("removed_at")),
        is_closed=bool(content.get("closed")),
    )


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    return str(error)


def check_file(segment: SegmentFile) -> None:
    """Compare a file with its segment, all of it. Raises DamagedFile."""
    path = segment.path
    try:
        size = path.stat().st_size
        if size != segment.size_bytes:
            raise DamagedFile(
                f"{path}: it has {size:,} bytes and its segment says "
                f"{segment.size_bytes:,}: it was cut short or changed."
            )
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedFile(f"{path}: {error.strerror}.") from None
    if digest != segment.sha256:
        raise DamagedFile(
            f"{path}: its SHA-256 is not that of its segment: it was changed after it "
            "was written."
        )
