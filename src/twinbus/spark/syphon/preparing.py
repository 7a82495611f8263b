"""Makes the messages for the primary from those of backlog queues.

It runs in executors, over columns of the source. A message that cannot be restored has
no bytes in the result, but the reason for its dead letter.

Messages of the same `lane` stay in order: those of one session of an entity share a
lane. Messages without a session are spread over many lanes, so that many tasks can work
on a large entity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from twinbus.amqp.errors import DecodeError
from twinbus.clock import SystemClock
from twinbus.pairing.coverage import covers_any
from twinbus.pairing.detour import restored_from
from twinbus.pairing.own.messages import OwnMessage, read_payload, restored
from twinbus.pairing.syphon.ports import Fault
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.triage import judged

SOURCE_COLUMNS: Final = ("entity", "sequence_number", "raw")
"""The columns of the source that are needed."""

SCHEMA: Final = (
    "enqueued_at bigint, path string, entity string, lane string, message binary, "
    "reason string, description string"
)
"""The columns of the result; `entity` is the path in lower case."""

_LANES: Final = 64
"""For messages without a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One message, ready for the primary, or why it cannot be restored."""

    enqueued_at: int
    path: str = ""
    lane: str = ""
    message: bytes | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How messages of one batch are prepared. It is sent to executors."""

    # The secondary's name in the primary's ledger.
    secondary_name: str
    # When each backlog queue was made: its generation.
    generations: Mapping[str, int]
    cover: tuple[str, ...]
    counts_backlog: bool

    def column(self, queues: pa.Array, numbers: pa.Array, raws: pa.Array) -> pa.Array:
        """For `arrow_udf`: from columns of the source to one of SCHEMA."""
        settings = SyphonSettings(
            covers=covers_any(self.cover),
            count_backlog_against_ttl=self.counts_backlog,
        )
        now = SystemClock().now()
        rows = zip(queues.to_pylist(), numbers.to_pylist(), raws, strict=True)
        return _array(
            [
                self.prepare(queue, number, raw.as_py(), settings, now)
                for queue, number, raw in rows
            ]
        )

    def prepare(
        self, queue: str, number: int, raw: bytes, settings: SyphonSettings, now: int
    ) -> Prepared:
        """The message as the in-process syphon would send it."""
        try:
            message = read_payload(raw)
            fault = judged(message, settings, now)
            if fault is not None:
                return _unfit(message, fault)
            message.restored_from = restored_from(
                number, self.generations[queue], f"{self.secondary_name}/{queue}"
            )
            return _fit(message, restored(message, now))
        except DecodeError as error:
            fault = Fault("InvalidMessage", f"The message cannot be read: {error}.")
            return Prepared(enqueued_at=now, fault=fault)


def _unfit(message: OwnMessage, fault: Fault) -> Prepared:
    path = "" if message.detour is None else message.detour.path
    return Prepared(enqueued_at=message.enqueued_at, path=path, fault=fault)


def _fit(message: OwnMessage, encoded: bytes) -> Prepared:
    detour = message.detour
    assert detour is not None
    lane = f"{message.sequence_number % _LANES}"
    if detour.session_id is not None:
        lane = f"session {detour.session_id}"
    return Prepared(
        enqueued_at=message.enqueued_at, path=detour.path, lane=lane, message=encoded
    )


def _array(found: Sequence[Prepared]) -> pa.Array:
    text, number = pa.string(), pa.int64()
    faults = [prepared.fault for prepared in found]
    columns = {
        "enqueued_at": pa.array([one.enqueued_at for one in found], number),
        "path": pa.array([one.path for one in found], text),
        "entity": pa.array([one.path.lower() for one in found], text),
        "lane": pa.array([one.lane for one in found], text),
        "message": pa.array([one.message for one in found], pa.binary()),
        "reason": pa.array([fault and fault.reason for fault in faults], text),
        "description": pa.array(
            [fault and fault.description for fault in faults], text
        ),
    }
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def paths_of(raws: pa.Array) -> pa.Array:
    """For `arrow_udf`: the entities of messages; empty if one is not named properly."""
    return pa.array([_path_of(raw.as_py()) for raw in raws], pa.string())


def _path_of(raw: bytes) -> str:
    try:
        detour = read_payload(raw).detour
    except DecodeError:
        return ""
    return "" if detour is None else detour.path
