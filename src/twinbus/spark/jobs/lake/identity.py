"""Whose lake it is, and in which format: the file `lake.json`."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LakeFolder, parsed
from twinbus.spark.jobs.lake.layout import IDENTITY

FORMAT: Final = 1
"""Of the layout, of all JSON files and of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeIdentity:
    """Written once, when the lake is made."""

    # A random id: replays of two lakes never mean the same message.
    lake: str
    # What tells the namespace from every other one.
    namespace: str
    # The format of the messages: parquet or delta.
    data: str
    # ISO 8601.
    created_at: str

    @property
    def reader(self) -> str:
        """The reader of what is consumed: by it logs tell who has settled a message."""
        return f"spark-capture/{self.lake}"

    @property
    def namespace_name(self) -> str:
        """Without the time when it was made; of another than twinbus, its host."""
        return self.namespace.rpartition("@")[0] or self.namespace


def read_identity(folder: LakeFolder) -> LakeIdentity | None:
    """None if there is no lake yet. Raises LakeError."""
    text = folder.read(IDENTITY)
    if text is None:
        return None
    content = parsed(folder, IDENTITY, text)
    check_format(folder, IDENTITY, content)
    try:
        return LakeIdentity(
            **{name: str(content[name]) for name in LakeIdentity.__slots__}
        )
    except KeyError as error:
        raise LakeDamaged(
            f"{folder.name}: {IDENTITY} has no {error}: it is damaged."
        ) from None


def write_identity(folder: LakeFolder, identity: LakeIdentity) -> None:
    content = {"format": FORMAT, **asdict(identity)}
    folder.replace(IDENTITY, json.dumps(content, indent=2) + "\n")


def check_format(folder: LakeFolder, path: str, content: dict[str, Any]) -> None:
    """Raises LakeError for a format of another version."""
    found = content.get("format")
    if found != FORMAT:
        raise LakeError(
            f"{folder.name}: {path} is of format {found!r}; this version of twinbus "
            f"reads format {FORMAT}. Use the version that wrote it, or a newer one."
        )
