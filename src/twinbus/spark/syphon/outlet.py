"""Sends to the primary by appends, in executors, and tells what was refused.

The rows of an entity are accepted in order; after one that has no room, the later ones
are refused, too. A request with too many entities, or with an entity that the key is
not for, is refused as a whole; then each entity is tried alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.messaging import Message, Properties, encode_message
from twinbus.limits import BULK_APPEND_BYTES, BULK_ENTITIES
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.own.failures import kind_of_condition
from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.treatments import TREATMENTS, Treatment
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.connection import SparkConnection
from twinbus.spark.syphon.errors import SideAway

MESSAGE_LIMIT_BYTES: Final = BULK_APPEND_BYTES - 64 * 1024
"""The largest message: what an append takes, without its frame."""

_TOO_LARGE: Final = RestoreRefusal(
    FailureKind.SERVICE,
    f"a message has more than {MESSAGE_LIMIT_BYTES} bytes, which only `twinbus syphon` "
    "restores",
)

_PING: Final = encode_message(
    Message(properties=Properties(content_type="application/vnd.ms-servicebus-ping"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOutcome:
    """The rows of an append that were not applied, and why."""

    known: set[int] = field(default_factory=set)
    refused: dict[int, RestoreRefusal] = field(default_factory=dict)


class BulkOutlet:
    """Into a twinbus namespace. Not shared between threads."""

    def __init__(self, connection: SparkConnection, patience_ms: int) -> None:
        self._client = BulkClient(connection, patience_ms)

    def close(self) -> None:
        self._client.close()

    def ping(self, paths: Sequence[str]) -> dict[str, RestoreRefusal]:
        """The entities that would not take a message now. Raises SideAway."""
        found: dict[str, RestoreRefusal] = {}
        for at in range(0, len(paths), BULK_ENTITIES):
            asked = paths[at : at + BULK_ENTITIES]
            refused = self.append(asked, [_PING] * len(asked)).refused
            found.update((asked[row], refusal) for row, refusal in refused.items())
        return found

    def append(self, paths: Sequence[str], messages: Sequence[bytes]) -> AppendOutcome:
        """Send messages, those of one entity in their order. Raises SideAway."""
        outcome = AppendOutcome()
        rows = []
        for row, message in enumerate(messages):
            if len(message) > MESSAGE_LIMIT_BYTES:
                outcome.refused[row] = _TOO_LARGE
            else:
                rows.append(row)
        self._append(rows, paths, messages, outcome)
        return outcome

    def _append(
        self,
        rows: Sequence[int],
        paths: Sequence[str],
        messages: Sequence[bytes],
        outcome: AppendOutcome,
    ) -> None:
        import pyarrow as pa

        if not rows:
            return
        table = pa.table(
            {
                "entity": pa.array([paths[row] for row in rows], pa.string()),
                "message": pa.array([messages[row] for row in rows], pa.binary()),
            }
        )
        try:
            appended = self._client.append(table)
        except BulkError as error:
            parts = _parts(error, rows, paths)
            for part in parts:
                self._append(part, paths, messages, outcome)
            if not parts:
                refusal = RestoreRefusal(_kind(error.condition), str(error))
                outcome.refused.update((row, refusal) for row in rows)
            return
        outcome.known.update(rows[at] for at in appended.known)
        for refused in appended.refused:
            refusal = RestoreRefusal(_kind(refused.condition), refused.text)
            outcome.refused[rows[refused.row]] = refusal


def _parts(
    error: BulkError, rows: Sequence[int], paths: Sequence[str]
) -> list[list[int]]:
    """Smaller requests instead of one that was refused as a whole: one for each entity,
    then one for each row if rows may be at fault; none if there is no smaller one.
    Raises SideAway."""
    if error.status == 0 or error.status >= 500:
        raise SideAway(f"The primary: {error}")
    by_path: dict[str, list[int]] = {}
    for row in rows:
        by_path.setdefault(paths[row], []).append(row)
    if len(by_path) > 1:
        return list(by_path.values())
    if TREATMENTS[_kind(error.condition)] is Treatment.POISON and len(rows) > 1:
        return [[row] for row in rows]
    return []


def _kind(condition: str) -> FailureKind:
    return kind_of_condition(AmqpError(condition))
