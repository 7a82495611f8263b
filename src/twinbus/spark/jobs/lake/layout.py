"""Where everything is in a lake.

    lake.json                          whose lake it is
    messages/entity=E/date=D/hour=H/batch=B/*.parquet
    manifest/entity=E/date=D/hour=H.json
    manifest/coverage/CHECKPOINT.json
    checkpoint/browse, checkpoint/exclusive      of Spark
    under-way.json, staging/           of a batch that is being written, or was

E is the path of an entity, quoted as in a URL; D and H are of the enqueued time, in
UTC.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

IDENTITY: Final = "lake.json"
MESSAGES: Final = "messages"
MANIFEST: Final = "manifest"
COVERAGE: Final = "manifest/coverage"
CHECKPOINT: Final = "checkpoint"
STAGING: Final = "staging"
UNDER_WAY: Final = "under-way.json"

_ENTITY: Final = "entity="
_DATE: Final = "date="
_HOUR: Final = "hour="


@dataclass(frozen=True, slots=True, order=True)
class LakeHour:
    """An hour of an entity."""

    # In this order, hours of all entities are sorted by time.
    date: str
    hour: str
    entity: str

    @property
    def path(self) -> str:
        entity = quote(self.entity, safe="")
        return f"{_ENTITY}{entity}/{_DATE}{self.date}/{_HOUR}{self.hour}"

    @property
    def messages(self) -> str:
        return f"{MESSAGES}/{self.path}"

    @property
    def manifest(self) -> str:
        return f"{MANIFEST}/{self.path}.json"

    def batch(self, name: str) -> str:
        return f"{self.messages}/batch={name}"


def entity_of(name: str) -> str | None:
    """The entity of a folder `entity=...`; None for any other name."""
    return unquote(name.removeprefix(_ENTITY)) if name.startswith(_ENTITY) else None


def date_of(name: str) -> str | None:
    return name.removeprefix(_DATE) if name.startswith(_DATE) else None


def hour_of(name: str) -> str | None:
    """Of a manifest, or of a folder with messages."""
    if not name.startswith(_HOUR):
        return None
    return name.removeprefix(_HOUR).removesuffix(".json")
