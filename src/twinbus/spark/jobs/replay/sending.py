"""Sends the messages of a lake, in executors.

A message is what was captured, byte by byte, without what the bus had added. It carries
where it comes from (lake, entity, generation and sequence number) and the replay id, in
the form of a restored message: the bus records that for ever, and drops a second copy.
A key without rights on the whole namespace cannot use this record, so each message has
a send id as well, which entities remember for a day.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

# Spark reads the annotations of functions over Arrow.
import pyarrow as pa

from twinbus.clock import SystemClock
from twinbus.encoding.resending import ResendChanges, resendable
from twinbus.errors import ServiceBusError
from twinbus.spark.bulk.bulk_sender import BulkSender
from twinbus.spark.plain_error import each_plainly
from twinbus.spark.row_errors import RowError
from twinbus.spark.row_messages import EncodedRows
from twinbus.spark.row_sender import SentRows
from twinbus.spark.send_ids import send_ids
from twinbus.spark.write_options import WriteOptions

COLUMNS: Final = (
    *("entity", "generation", "partition", "sequence_number", "enqueued_time"),
    *("expires_at", "raw"),
)
RESULT: Final = "sent bigint, known bigint, expired bigint"

_STEPS_PER_SECOND: Final = 10
"""With a rate: how often something is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySending:
    """How the rows of one task are sent. It goes to executors."""

    options: WriteOptions
    lake: str
    replay_id: str
    # By entity of the lake.
    targets: Mapping[str, str]
    drops_schedule: bool
    drops_life: bool
    # Messages expire when they would have.
    keeps_expiry: bool
    # Messages a second; None: no limit.
    rate: float | None

    def columns(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """For `arrow_udf`: from COLUMNS, sorted, to a column of RESULT, for one task.
        The first row of each batch has the counts."""
        return _sent(self, batches)

    def message(self, row: Mapping[str, object], send_id: bytes, now: int) -> bytes:
        """The message to send. Raises RowError."""
        expires_at = row["expires_at"] if self.keeps_expiry else None
        changes = ResendChanges(
            restored_from=(
                f"{row['sequence_number']}@{row['generation']}@"
                f"{self.origin(str(row['entity']))}"
            ),
            drops_schedule=self.drops_schedule,
            drops_life=self.drops_life,
            expires_at=expires_at if isinstance(expires_at, int) else 0,
            now=now,
        )
        raw = row["raw"]
        assert isinstance(raw, bytes)
        try:
            return resendable(raw, send_id, changes)
        except ServiceBusError as error:
            raise RowError(
                f"Message {row['sequence_number']} of '{row['entity']}' in the lake is "
                f"no AMQP message: {error.text}"
            ) from None

    def origin(self, entity: str) -> str:
        """The source in the ledger of the namespace: a replay to another target, or
        with another id, is another one."""
        told = f"{self.replay_id}\n{entity}\n{self.targets[entity]}"
        return f"lake/{self.lake}/{sha256(told.encode()).hexdigest()}"

    def id_value(self, row: Mapping[str, object]) -> bytes:
        entity = str(row["entity"])
        return (
            f"{self.origin(entity)}/{row['generation']}/{row['sequence_number']}"
        ).encode()


@each_plainly
def _sent(
    sending: ReplaySending, batches: Iterator[tuple[pa.Array, ...]]
) -> Iterator[pa.Array]:
    sender: BulkSender | None = None
    pace = _Pace(sending.rate)
    told = SentRows(sent_count=0)
    try:
        for batch, is_last in _with_end(batches):
            expired = 0
            for part in pace.parts(batch):
                sender = sender or BulkSender(sending.options)
                expired += _send(sending, sender, part)
                if sending.rate is not None:
                    sender.finish()
            done = told
            if sender is not None and is_last:
                done = sender.finish()
            counts = (
                done.sent_count - told.sent_count,
                done.known_count - told.known_count,
                expired,
            )
            told = done
            yield _result(len(batch[0]), counts)
    finally:
        if sender is not None:
            sender.close()


def _with_end(
    batches: Iterator[tuple[pa.Array, ...]],
) -> Iterator[tuple[tuple[pa.Array, ...], bool]]:
    """Each, and whether it is the last one."""
    before = next(batches, None)
    for batch in batches:
        assert before is not None
        yield before, False
        before = batch
    if before is not None:
        yield before, True


def _result(count: int, counts: Sequence[int]) -> pa.Array:
    columns = [pa.array(([one] + [0] * count)[:count], pa.int64()) for one in counts]
    return pa.StructArray.from_arrays(columns, names=["sent", "known", "expired"])


def _send(
    sending: ReplaySending, sender: BulkSender, batch: tuple[pa.Array, ...]
) -> int:
    """Send rows; how many have expired, and were not sent."""
    now = SystemClock().now()
    rows = _rows(batch)
    live = [row for row in rows if not _is_expired(sending, row, now)]
    ids = send_ids("replay", [sending.id_value(row) for row in live])
    sender.send(
        EncodedRows(
            entities=[sending.targets[str(row["entity"])] for row in live],
            messages=[
                sending.message(row, send_id, now)
                for row, send_id in zip(live, ids, strict=True)
            ],
        )
    )
    return len(rows) - len(live)


def _is_expired(sending: ReplaySending, row: Mapping[str, object], now: int) -> bool:
    expires_at = row["expires_at"]
    return sending.keeps_expiry and isinstance(expires_at, int) and expires_at <= now


def _rows(batch: tuple[pa.Array, ...]) -> list[dict[str, object]]:
    columns: dict[str, Sequence[object]] = {}
    for name, column in zip(COLUMNS, batch, strict=True):
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.int64()).to_pylist()
            columns[name] = [None if one is None else one // 1000 for one in micros]
        else:
            columns[name] = column.to_pylist()
    return [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]


class _Pace:
    """Cuts batches into parts, and waits before each until it is due."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._clock = SystemClock()
        self._began_at = self._clock.monotonic()
        self._pause = threading.Event()
        self._count = 0

    def parts(self, batch: tuple[pa.Array, ...]) -> Iterator[tuple[pa.Array, ...]]:
        if self._rate is None:
            yield batch
            return
        step = max(1, int(self._rate / _STEPS_PER_SECOND))
        for at in range(0, len(batch[0]), step):
            part = tuple(column.slice(at, step) for column in batch)
            due_at = self._began_at + self._count / self._rate * 1000
            self._pause.wait(max(0.0, due_at - self._clock.monotonic()) / 1000)
            self._count += len(part[0])
            yield part
