"""Rows to a twinbus namespace, by appends.

Requests follow one another, and what may be taken later is tried again before the next
one. Once a bus has refused a row that can be tried again, it takes nothing more for its
entity in that request: so the rows of an entity keep their order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twinbus.limits import BULK_APPEND_ROWS, BULK_ENTITIES
from twinbus.spark.bulk.client import BulkClient, Refused
from twinbus.spark.patience import BUSY_SECONDS, RetryPatience
from twinbus.spark.row_messages import EncodedRows
from twinbus.spark.row_sender import RowsRefused, SentRows
from twinbus.spark.write_options import MAX_REQUEST_BYTES, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

_SERVER_BUSY: Final = "com.microsoft:server-busy"

_ROW_BYTES: Final = 16
"""What Arrow needs for a row besides its bytes: two offsets, and ends of buffers."""


class BulkSender:
    """`RowSender` for a twinbus namespace."""

    def __init__(self, options: WriteOptions) -> None:
        self._client = BulkClient(options.connection, options.patience_ms)
        self._max_bytes = options.max_request_bytes
        self._patience_ms = options.patience_ms
        # The next request.
        self._entities: list[str] = []
        self._messages: list[bytes] = []
        self._paths: set[str] = set()
        self._size_bytes = 0
        self._sent_count = 0
        self._known_count = 0

    def send(self, rows: EncodedRows) -> None:
        for entity, message in zip(rows.entities, rows.messages, strict=True):
            size_bytes = len(message) + len(entity.encode()) + _ROW_BYTES
            if size_bytes > MAX_REQUEST_BYTES:
                raise _too_large(entity, message)
            if self._is_full(entity, size_bytes):
                self._flush()
            self._entities.append(entity)
            self._messages.append(message)
            self._paths.add(entity)
            self._size_bytes += size_bytes

    def _is_full(self, entity: str, size_bytes: int) -> bool:
        return bool(self._messages) and (
            self._size_bytes + size_bytes > self._max_bytes
            or len(self._messages) == BULK_APPEND_ROWS
            or (len(self._paths) == BULK_ENTITIES and entity not in self._paths)
        )

    def finish(self) -> SentRows:
        if self._messages:
            self._flush()
        return SentRows(sent_count=self._sent_count, known_count=self._known_count)

    def close(self) -> None:
        self._client.close()

    def _flush(self) -> None:
        entities, messages = self._entities, self._messages
        self._entities, self._messages = [], []
        self._paths, self._size_bytes = set(), 0
        patience = RetryPatience(self._patience_ms / 1000)
        while messages:
            appended = self._client.append(_table(entities, messages))
            self._sent_count += appended.applied_count
            self._known_count += len(appended.known)
            refused = appended.refused
            if refused and not _may_wait(refused, patience):
                raise _refusal(entities, messages, refused)
            entities = [entities[one.row] for one in refused]
            messages = [messages[one.row] for one in refused]


def _table(entities: Sequence[str], messages: Sequence[bytes]) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(
        [pa.array(entities, pa.string()), pa.array(messages, pa.binary())],
        names=["entity", "message"],
    )


def _may_wait(refused: Sequence[Refused], patience: RetryPatience) -> bool:
    """Whether all of them may be taken later; waits for it."""
    if not all(one.is_retryable for one in refused):
        return False
    is_busy = any(one.condition == _SERVER_BUSY for one in refused)
    return patience.wait(BUSY_SECONDS if is_busy else 0.0)


def _refusal(
    entities: Sequence[str], messages: Sequence[bytes], refused: Sequence[Refused]
) -> RowsRefused:
    """About the first one that no waiting helps, if there is one."""
    first = next((one for one in refused if not one.is_retryable), refused[0])
    return RowsRefused.because(
        entities[first.row],
        messages[first.row],
        first.text,
        refused=len(refused),
        of=len(messages),
    )


def _too_large(entity: str, message: bytes) -> RowsRefused:
    return RowsRefused.because(
        entity,
        message,
        f"The message of {len(message)} bytes is larger than the {MAX_REQUEST_BYTES} "
        "bytes that one request takes, whatever the entity and 'maxBytesPerRequest' "
        "allow. Send it over AMQP, with an SDK, or store what it has elsewhere and "
        "send a reference to it.",
        refused=1,
        of=1,
    )
