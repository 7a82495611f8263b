"""Tells that a DataFrame has the messages of an earlier time.

Spark plans a batch read once for each `load()`, with the first action, and keeps the
plan for all later ones. So a second action does not see messages that came after the
first. Nobody expects that of a queue, so a task that reads an old plan says it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from twinbus.spark.bulk.client import BulkClient, EntityBounds

_log = logging.getLogger(__name__)

_OLD_MS: Final = 10_000
"""Younger plans are those of the action that is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAge:
    """When a batch was planned, and where its entities ended then."""

    planned_at: int
    # The next number, by path and fragment.
    ends: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, entities: Sequence[EntityBounds], now: int) -> "SnapshotAge":
        ends = {
            entity.path: {part.index: part.next for part in entity.fragments}
            for entity in entities
        }
        return cls(planned_at=now, ends=ends)

    def tell_if_old(self, client: BulkClient, now: int) -> None:
        """Log a warning if there are newer messages. Raises BulkError."""
        if now - self.planned_at < _OLD_MS or not self.ends:
            return
        found, _ = client.runtime(list(self.ends))
        newer = [entity.path for entity in found if self._has_grown(entity)]
        if newer:
            planned = datetime.fromtimestamp(self.planned_at / 1000, UTC)
            _log.warning(
                "This DataFrame has the messages of %s, when its first action planned "
                "it. '%s' has newer ones (%d of %d entities do): load() again to see "
                "them.",
                planned.isoformat(timespec="seconds"),
                newer[0],
                len(newer),
                len(self.ends),
            )

    def _has_grown(self, entity: EntityBounds) -> bool:
        ends = self.ends[entity.path]
        return any(part.next > ends.get(part.index, 0) for part in entity.fragments)
