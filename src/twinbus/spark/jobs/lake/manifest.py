"""The manifest of one hour of an entity: which files count, and what they have.

    {"format": 1, "lake": "...", "entity": "orders", "date": "2026-11-17", "hour": "22",
     "batches": [{"batch": "3f2a9c01-00000012", "captured_at": "...",
                  "files": [{"name": "part-0.parquet", "bytes": 8123, "rows": 100}],
                  "parts": [{"source": "orders", "generation": "9a1b...",
                             "fragment": 0, "first": 1, "last": 100, "count": 100,
                             "bytes": 25600, "xor": "00f3...", "sum": "-812...",
                             "first_enqueued_at": ..., "last_enqueued_at": ...}]}]}

A part is what a batch has of one fragment of one generation of the entity. `xor` and
`sum` are over a hash of each message: its sequence number and its bytes. Two sets of
messages with the same count, xor and sum are the same.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LakeFolder, parsed
from twinbus.spark.jobs.lake.identity import FORMAT, check_format
from twinbus.spark.jobs.lake.layout import LakeHour


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """One Parquet file."""

    name: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePart:
    """Messages of one fragment of one generation."""

    # What was read: the entity itself, or the subscription of a topic.
    source: str
    generation: str
    fragment: int
    # Sequence numbers; both are in it.
    first: int
    last: int
    count: int
    # Of the messages, not of the files.
    bytes: int
    # 16 digits in hex, and a decimal number.
    xor: str
    sum: str
    # Milliseconds since the epoch.
    first_enqueued_at: int
    last_enqueued_at: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.source, self.generation, self.fragment

    def joined(self, other: "LakePart") -> "LakePart":
        """Both together; they must be of the same fragment."""
        assert self.key == other.key
        return replace(
            self,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            count=self.count + other.count,
            bytes=self.bytes + other.bytes,
            xor=f"{int(self.xor, 16) ^ int(other.xor, 16):016x}",
            sum=str(int(self.sum) + int(other.sum)),
            first_enqueued_at=min(self.first_enqueued_at, other.first_enqueued_at),
            last_enqueued_at=max(self.last_enqueued_at, other.last_enqueued_at),
        )


def joined_parts(parts: Iterable[LakePart]) -> tuple[LakePart, ...]:
    """One for each fragment."""
    found: dict[tuple[str, str, int], LakePart] = {}
    for part in parts:
        known = found.get(part.key)
        found[part.key] = part if known is None else known.joined(part)
    return tuple(found[key] for key in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeBatch:
    """What one batch, or one compaction, has of the hour."""

    batch: str
    captured_at: str
    files: tuple[LakeFile, ...]
    parts: tuple[LakePart, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class HourManifest:
    """An hour of an entity."""

    hour: LakeHour
    batches: tuple[LakeBatch, ...] = ()

    @property
    def count(self) -> int:
        return sum(batch.count for batch in self.batches)

    @property
    def parts(self) -> tuple[LakePart, ...]:
        return joined_parts(part for batch in self.batches for part in batch.parts)

    def files(self) -> list[tuple[str, LakeFile]]:
        """With the folder of each."""
        return [
            (self.hour.batch(batch.batch), file)
            for batch in self.batches
            for file in batch.files
        ]

    def with_batch(self, batch: LakeBatch) -> "HourManifest":
        """With this one in place of one of the same name."""
        kept = [one for one in self.batches if one.batch != batch.batch]
        return replace(self, batches=tuple(_sorted([*kept, batch])))

    def without(self, names: Iterable[str]) -> "HourManifest":
        gone = set(names)
        kept = [one for one in self.batches if one.batch not in gone]
        return replace(self, batches=tuple(kept))


def _sorted(batches: Sequence[LakeBatch]) -> list[LakeBatch]:
    return sorted(batches, key=lambda one: one.batch)


def read_manifest(folder: LakeFolder, hour: LakeHour) -> HourManifest | None:
    """None if nothing was captured. Raises LakeError."""
    text = folder.read(hour.manifest)
    if text is None:
        return None
    content = parsed(folder, hour.manifest, text)
    check_format(folder, hour.manifest, content)
    try:
        batches = tuple(_batch(one) for one in content["batches"])
        found = LakeHour(
            str(content["date"]), str(content["hour"]), str(content["entity"])
        )
    except (KeyError, TypeError, ValueError):
        found, batches = None, ()
    if found != hour:
        raise LakeDamaged(
            f"{folder.name}: {hour.manifest} is damaged: it lacks something, or is of "
            "another hour or entity. Restore it from a copy of the lake."
        )
    return HourManifest(hour=hour, batches=batches)


def write_manifest(folder: LakeFolder, lake: str, manifest: HourManifest) -> None:
    """An hour without a batch has no file."""
    hour = manifest.hour
    if not manifest.batches:
        folder.remove(hour.manifest)
        return
    content = {
        "format": FORMAT,
        "lake": lake,
        "entity": hour.entity,
        "date": hour.date,
        "hour": hour.hour,
        "batches": [asdict(batch) for batch in manifest.batches],
    }
    folder.replace(hour.manifest, json.dumps(content, indent=1) + "\n")


def _batch(content: Mapping[str, Any]) -> LakeBatch:
    return LakeBatch(
        batch=str(content["batch"]),
        captured_at=str(content["captured_at"]),
        files=tuple(
            LakeFile(
                name=str(one["name"]), bytes=int(one["bytes"]), rows=int(one["rows"])
            )
            for one in content["files"]
        ),
        parts=tuple(_part(one) for one in content["parts"]),
    )


def _part(content: Mapping[str, Any]) -> LakePart:
    return LakePart(
        source=str(content["source"]),
        generation=str(content["generation"]),
        fragment=int(content["fragment"]),
        first=int(content["first"]),
        last=int(content["last"]),
        count=int(content["count"]),
        bytes=int(content["bytes"]),
        xor=f"{int(str(content['xor']), 16):016x}",
        sum=str(int(content["sum"])),
        first_enqueued_at=int(content["first_enqueued_at"]),
        last_enqueued_at=int(content["last_enqueued_at"]),
    )
