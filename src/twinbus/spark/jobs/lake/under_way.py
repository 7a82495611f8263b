"""The change of a lake that is under way: the file `under-way.json`.

It is written before a batch or a compaction touches what readers see, and removed when
all is done. If it is there at a start, a run was killed, and it says what to finish or
to undo.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LakeFolder, parsed
from twinbus.spark.jobs.lake.identity import FORMAT, check_format
from twinbus.spark.jobs.lake.layout import UNDER_WAY, LakeHour

BATCH: Final = "batch"
COMPACTION: Final = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A batch that is being published, or an hour that is being compacted."""

    kind: str
    # The batch that is made.
    batch: str
    hours: tuple[LakeHour, ...]
    # Of a compaction: the batches whose place it takes.
    replaces: tuple[str, ...] = ()


def read_under_way(folder: LakeFolder) -> UnderWay | None:
    """Raises LakeError."""
    text = folder.read(UNDER_WAY)
    if text is None:
        return None
    content = parsed(folder, UNDER_WAY, text)
    check_format(folder, UNDER_WAY, content)
    try:
        return UnderWay(
            kind=str(content["kind"]),
            batch=str(content["batch"]),
            hours=tuple(
                LakeHour(str(date), str(hour), str(entity))
                for date, hour, entity in content["hours"]
            ),
            replaces=tuple(str(name) for name in content["replaces"]),
        )
    except (KeyError, TypeError, ValueError):
        raise LakeDamaged(f"{folder.name}: {UNDER_WAY} is damaged.") from None


def write_under_way(folder: LakeFolder, under_way: UnderWay) -> None:
    content = {
        "format": FORMAT,
        "kind": under_way.kind,
        "batch": under_way.batch,
        "hours": [[one.date, one.hour, one.entity] for one in under_way.hours],
        "replaces": list(under_way.replaces),
    }
    folder.replace(UNDER_WAY, json.dumps(content) + "\n")


def end_under_way(folder: LakeFolder) -> None:
    folder.remove(UNDER_WAY)


def hours_together(*several: Sequence[LakeHour]) -> tuple[LakeHour, ...]:
    return tuple(sorted({hour for hours in several for hour in hours}))
