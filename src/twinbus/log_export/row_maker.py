"""Makes rows of the blobs of one store, in the order of its commits.

It remembers who the actors and fragments are: see `broker/log_book.py`. To go on in the
middle of a log it is told the blobs from the start of the block on (`learn`).
"""

from dataclasses import dataclass
from typing import Any, Final, final

from twinbus.amqp.codec import decode
from twinbus.broker.log_book import BLOCK_SHIFT, actor_text
from twinbus.broker.operation_log import THE_BUS
from twinbus.broker.operation_names import (
    AGELESS,
    AWAITED,
    NAMES,
    WITHOUT_MESSAGE,
    result_of,
)
from twinbus.broker.operation_record import OperationRecord, OperationRun
from twinbus.broker.row_id import SEQUENCE_BITS, fragment_number_of, sequence_of
from twinbus.log_files.columns import Columns, append_rows

_WORD: Final = (1 << 64) - 1
_UNKNOWN: Final[dict[str, Any]] = {}
_PEERS: Final = "$management"
_SYPHON: Final = "syphon "
_BULK: Final = "bulk "
_APPEND: Final = "append"


def block_start(batch: int) -> int:
    """The first commit of the block: from here on the log describes itself."""
    return batch >> BLOCK_SHIFT << BLOCK_SHIFT


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBlob:
    """What the next blob is compared with."""

    batch: int
    epoch: int
    is_last: bool


@final
class RowMaker:
    """Of one store."""

    def __init__(self, source: str, store_uuid: bytes, namespace: str) -> None:
        self._source = source
        self._store = store_uuid.hex()
        self._namespace = namespace or None
        # Columns that say who, and where.
        self._actors: dict[int, dict[str, Any]] = {}
        self._fragments: dict[int, dict[str, Any]] = {}
        self._block = -1
        self._epoch = 0
        # None: nothing was read yet.
        self.last: LastBlob | None = None

    def learn(self, batch: int, record: OperationRecord) -> None:
        """What a blob says of actors and fragments, and which blob it is."""
        if record.format > 1 and (
            batch >> BLOCK_SHIFT != self._block or record.epoch != self._epoch
        ):
            # What was described before means nothing any more, and need not be kept.
            self._actors.clear()
            self._fragments.clear()
        self._block, self._epoch = batch >> BLOCK_SHIFT, record.epoch
        for number, text in record.actors.items():
            self._actors[number] = _actor(text)
        for number, text in record.fragments.items():
            self._fragments[number] = _fragment(text)
        self.last = LastBlob(batch=batch, epoch=record.epoch, is_last=record.is_last)

    def append(
        self, batch: int, record: OperationRecord, took_ms: int | None, rows: Columns
    ) -> int:
        """Add the rows of one blob, and return how many. `took_ms`: how long its commit
        took, if that is known."""
        self.learn(batch, record)
        ids, at = record.ids, 0
        position = 0
        for run in record.runs:
            names: list[str | None] | None = None
            if run.has_ids:
                names, at = _message_ids(ids, at, run.message_count)
            count = 1 if run.is_event else run.message_count
            values = self._values(run, record, took_ms)
            values["batch"] = batch
            values["position"] = list(range(position, position + count))
            values["message_id"] = names
            append_rows(rows, count, values)
            position += count
        return position

    def _values(
        self, run: OperationRun, record: OperationRecord, took_ms: int | None
    ) -> dict[str, Any]:
        operation = run.operation
        at = run.at or record.sealed_at
        values: dict[str, Any] = {
            "source": self._source,
            "occurred_at": at * 1000,
            "operation": NAMES.get(operation, str(operation)),
            "result": result_of(operation, is_event=run.is_event),
            "namespace": self._namespace,
            "session_id": run.session_id,
            "reason": run.reason,
            "destination": run.destination,
            **self._fragments.get(fragment_number_of(run.first_row_id), _UNKNOWN),
        }
        if run.actor != THE_BUS:
            values |= self._actors.get(run.actor, _UNKNOWN)
        if run.is_event:
            values["amount"] = run.message_count if run.message_count > 1 else None
            return values
        count = run.message_count
        values["size_bytes"] = run.size_bytes // count
        if operation not in AGELESS:
            values["age_ms"] = run.age_ms // count
        if operation in AWAITED and took_ms is not None and run.actor != THE_BUS:
            values["latency_ms"] = float(max(0, record.sealed_at - at) + took_ms)
        if operation in WITHOUT_MESSAGE:
            return values
        self._name_messages(run, values)
        return values

    def _name_messages(self, run: OperationRun, values: dict[str, Any]) -> None:
        values["delivery_count"] = run.delivery_count
        first, count = run.first_row_id, run.message_count
        has_number = sequence_of(first) != 0 and first != 0
        if has_number:
            base = (values.get("fragment") or 0) << SEQUENCE_BITS
            low = base + sequence_of(first)
            values["sequence_number"] = list(range(low, low + count))
        if run.uids:
            values["message_uid"] = [uid.hex() for uid in run.uids]
        elif has_number:
            low = run.first_origin or first
            store = self._store
            values["message_uid"] = [
                f"{store}{row & _WORD:016x}" for row in range(low, low + count)
            ]


def _actor(text: str) -> dict[str, Any]:
    if "\t" not in text:
        # Format 1, a client of another broker, or somebody of the bus itself.
        name, is_for, key_name = text.rpartition(" for ")
        if is_for and name.startswith(_BULK):
            return _actor(actor_text("", name, key_name))
        client, _, purpose = text.partition(" ")
        if ":" not in client:
            client, purpose = "", text
        return {"client": client or None, "purpose": _purpose(purpose)}
    client, purpose, key_name = [*text.split("\t"), "", ""][:3]
    return {
        "client": client or _reader(purpose),
        "purpose": _purpose(purpose),
        "key_name": key_name or None,
    }


def _reader(purpose: str) -> str | None:
    """Who settles in bulk. The audit must know a capture from all other readers."""
    reader = purpose.removeprefix(_BULK)
    return None if reader in (purpose, _APPEND) else reader or None


def _purpose(text: str) -> str | None:
    """The first word: `send`, `receive`, `management`, `http`, `forward`, ... Of a
    syphon it is `syphon`, whatever it does."""
    if text.endswith(_PEERS) and not text.startswith(_SYPHON):
        return _PEERS[1:]
    return text.partition(" ")[0] or None


def _fragment(text: str) -> dict[str, Any]:
    path, kind, sub_queue, index, generation, *namespace = text.split("\t")
    found = {
        "entity": path,
        "entity_kind": kind,
        "subqueue": sub_queue or None,
        "fragment": int(index),
        "generation": generation,
    }
    if namespace:
        # It is not in the default namespace of its server.
        found["namespace"] = namespace[0]
    return found


def _message_ids(ids: bytes, at: int, count: int) -> tuple[list[str | None], int]:
    found: list[str | None] = []
    for _ in range(count):
        value, at = decode(ids, at)
        if isinstance(value, bytes):
            value = value.hex()
        found.append(None if value is None else str(value))
    return found, at
