"""What Spark's checkpoint of a capture says: the id of the query, and what a batch is.

The offsets of a batch are in Spark's log before the batch is read. They tell the
generation of each entity, and the numbers that the batch looks at.
"""

import json
from collections.abc import Mapping

from twinbus.spark.jobs.lake.coverage import Spans
from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LakeFolder, parsed
from twinbus.spark.jobs.lake.layout import CHECKPOINT
from twinbus.spark.offsets import Offset, OffsetError, read_offset

_ID_CHARACTERS = 12


class CaptureCheckpoint:
    """The checkpoint of one query, in its lake."""

    def __init__(self, folder: LakeFolder, name: str) -> None:
        self._folder = folder
        self._path = f"{CHECKPOINT}/{name}"

    @property
    def url(self) -> str:
        return self._folder.url(self._path)

    def query_id(self) -> str | None:
        """The beginning of the id that Spark gave the query when it first began; None
        if it never did. It is another one if the checkpoint was deleted."""
        path = f"{self._path}/metadata"
        text = self._folder.read(path)
        if text is None:
            return None
        content = parsed(self._folder, path, text)
        return str(content.get("id", "")).replace("-", "")[:_ID_CHARACTERS] or None

    def end_of(self, batch_id: int) -> Offset:
        """Where a batch ends. Raises LakeDamaged."""
        path = f"{self._path}/offsets/{batch_id}"
        lines = (self._folder.read(path) or "").splitlines()
        for line in reversed(lines):
            try:
                return read_offset(json.loads(line))
            except (ValueError, OffsetError):
                continue
        raise LakeDamaged(
            f"{self._folder.name}: {path} has no offset of this source: the checkpoint "
            "is damaged, or of another version."
        )


def spans_of(offset: Offset) -> Mapping[str, tuple[str, Spans]]:
    """By path: the generation, and what was looked at of each fragment."""
    return {
        path: (
            position.generation,
            {
                index: (position.begin.get(index, number), number)
                for index, number in position.next.items()
            },
        )
        for path, position in offset.entities.items()
    }
