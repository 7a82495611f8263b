"""One task: sends messages to the primary in order, and tells the result of each.

It runs after the shuffle, so all messages of a session are in this task, in order. If
an entity does not take a message now, this task sends it no more, so that later
messages do not overtake.

A task does no harm if it is repeated, runs twice, or was left over from an application
that was killed: the primary knows the messages that were restored before, and a task
only sends the successors of messages that the primary has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from twinbus.limits import DEAD_LETTER_TEXT_CHARACTERS
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.treatments import TREATMENTS, Treatment, fault_of
from twinbus.spark.connection import SparkConnection
from twinbus.spark.syphon.errors import SideAway
from twinbus.spark.syphon.outlet import MESSAGE_LIMIT_BYTES, BulkOutlet
from twinbus.spark.syphon.verdicts import (
    BEHIND,
    KNOWN,
    RESTORED,
    Fate,
    Told,
    told_array,
)

_BYTES: Final = min(4 * 1024 * 1024, MESSAGE_LIMIT_BYTES)
_ENTITIES: Final = 500
"""The size of one append, well within the limit of the bus; some thousand rows."""

_TEXT: Final = DEAD_LETTER_TEXT_CHARACTERS

COLUMNS: Final = ("path", "entity", "message", "reason", "description")
"""Of `preparing`, in the order in which they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appending:
    """How the rows of one batch are sent. Travels to executors."""

    primary: SparkConnection
    patience_ms: int
    # Entities that are parked, in lower case.
    closed: frozenset[str]

    def columns(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """For `arrow_udf`: from COLUMNS to a column with the results, for one task."""
        outlet = BulkOutlet(self.primary, self.patience_ms)
        task = _Task(outlet, set(self.closed))
        try:
            for batch in batches:
                yield told_array(task.told(*batch))
        finally:
            outlet.close()


class _Task:
    """What one task knows of the primary, and the rows that wait to be sent."""

    def __init__(self, outlet: BulkOutlet, closed: set[str]) -> None:
        self._outlet = outlet
        self._closed = closed
        # Why the whole primary does not answer.
        self._away: Told | None = None
        # Letter case does not matter; the first spelling is used for all.
        self._spellings: dict[str, str] = {}
        # Places in the batch, with where they go and what they are.
        self._waiting: list[tuple[int, str, bytes]] = []
        self._waiting_entities: set[str] = set()
        self._waiting_bytes = 0

    def told(
        self,
        paths: pa.Array,
        entities: pa.Array,
        messages: pa.Array,
        reasons: pa.Array,
        descriptions: pa.Array,
    ) -> list[Told]:
        """Send what can be sent, and tell the result of each row."""
        told = [RESTORED] * len(paths)
        names = zip(paths.to_pylist(), entities.to_pylist(), strict=True)
        faults = reasons.to_pylist()
        for at, (path, entity) in enumerate(names):
            if faults[at] is not None:
                text = descriptions[at].as_py()
                told[at] = Told(Fate.DEAD, faults[at], text[:_TEXT])
                continue
            message = messages[at].as_py()
            self._send_if_full(told, len(message))
            # Sending may have closed it just now.
            if entity in self._closed:
                told[at] = BEHIND
                continue
            spelled = self._spellings.setdefault(entity, path)
            self._waiting.append((at, spelled, message))
            self._waiting_entities.add(entity)
            self._waiting_bytes += len(message)
        self._send(told)
        return told

    def _send_if_full(self, told: list[Told], size_bytes: int) -> None:
        if (
            self._waiting_bytes + size_bytes > _BYTES
            or len(self._waiting_entities) >= _ENTITIES
        ):
            self._send(told)

    def _send(self, told: list[Told]) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_entities.clear()
        self._waiting_bytes = 0
        if not waiting:
            return
        if self._away is None:
            try:
                self._append(waiting, told)
            except SideAway as error:
                self._away = Told(Fate.AWAY, "", str(error)[:_TEXT])
        if self._away is not None:
            for at, _, _ in waiting:
                told[at] = self._away

    def _append(self, waiting: list[tuple[int, str, bytes]], told: list[Told]) -> None:
        """Raises SideAway."""
        outcome = self._outlet.append(
            [path for _, path, _ in waiting], [message for _, _, message in waiting]
        )
        for row in outcome.known:
            told[waiting[row][0]] = KNOWN
        for row, refusal in outcome.refused.items():
            at, path, _ = waiting[row]
            told[at] = self._refused(path, refusal)

    def _refused(self, path: str, refusal: RestoreRefusal) -> Told:
        if TREATMENTS[refusal.kind] is Treatment.POISON:
            fault = fault_of(refusal)
            return Told(Fate.DEAD, fault.reason, fault.description[:_TEXT])
        self._closed.add(path.lower())
        return Told(Fate.REFUSED, refusal.kind.name, refusal.text[:_TEXT])
