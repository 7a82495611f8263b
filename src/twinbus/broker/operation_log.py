"""The operation log: who did what to which messages, as part of the commit.

Every commit writes one compact blob in its own transaction, so the log has no gaps.
Operations are run-length coded: one record says "this actor did this to N messages from
that row id on". If messages are handled in order, a commit of a thousand sends has one
record.

An actor (a link, or the bus itself) is a number. Its description precedes the first
record after a start that mentions it. A message is identified by its row id and the
uuid of the store.
"""

import struct
from array import array
from dataclasses import dataclass
from sys import byteorder
from typing import Final, final

from twinbus.broker.message import Message

# Operations. The numbers are part of the stored format: never change one.
SEND: Final = 1
SCHEDULE: Final = 2
ACTIVATE: Final = 3
LOCK: Final = 4
RECEIVE_AND_DELETE: Final = 5
COMPLETE: Final = 6
ABANDON: Final = 7
DEFER: Final = 8
DEAD_LETTER: Final = 9
RELEASE: Final = 10
LOCK_EXPIRED: Final = 11
EXPIRE: Final = 12
CANCEL: Final = 13
DELETE: Final = 14
RENEW: Final = 15
PEEK: Final = 16
REFUSE: Final = 17
DUPLICATE: Final = 18
FORWARD: Final = 19
# Of an entity, not of a message: the row id is that of sequence number zero.
PING: Final = 20
# Locks that a reader lease revoked.
REVOKE: Final = 21

THE_BUS: Final = 0
"""The actor of operations without a client, such as expiry and activation."""

_FORMAT: Final = 1
_HEAD: Final = struct.Struct("<BqqII")
_ACTOR: Final = struct.Struct("<qI")
_RUN_FIELDS: Final = 6

_LONG: Final = 10_000
"""Limit of entries that wait: lock renewals, for example, need no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRun:
    """N consecutive messages, and what one actor did to them."""

    operation: int
    actor: int
    first_row_id: int
    message_count: int
    size_bytes: int
    # Sum of now - enqueued_at over the run; 0 for a send.
    age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """One commit's blob, decoded."""

    opened_at: int
    sealed_at: int
    actors: dict[int, str]
    runs: list[OperationRun]


@final
class OperationLog:
    """Collects one commit's operations."""

    def __init__(self) -> None:
        self._opened_at: int = 0
        self._actors: list[tuple[int, str]] = []
        # Closed runs, flat: operation, actor, first row, count, bytes, age.
        self._runs: list[int] = []
        # The open run.
        self._operation: int = 0
        self._actor: int = 0
        self._first: int = 0
        self._count: int = 0
        self._bytes: int = 0
        self._age: int = 0

    def is_long(self) -> bool:
        """True if it should be committed even if nothing else has to be."""
        return len(self._runs) + len(self._actors) > _LONG

    def entry_count(self) -> int:
        """How long it is, in numbers and actors."""
        return len(self._runs) + len(self._actors)

    def is_empty(self) -> bool:
        return self._count == 0 and not self._runs and not self._actors

    def introduce(self, actor: int, description: str) -> None:
        """Describe an actor, before its first operation."""
        self._actors.append((actor, description))

    def introduce_those_of(self, lost: "OperationLog") -> None:
        """Describe again actors whose descriptions were in an uncommitted log."""
        self._actors += lost._actors

    def record(self, operation: int, actor: int, message: Message, now: int) -> None:
        """Record an operation on one message."""
        self.add(
            operation,
            actor,
            message.row_id,
            len(message.raw) + message.absent_bytes,
            message.enqueued_at,
            now,
        )

    def add(
        self,
        operation: int,
        actor: int,
        row_id: int,
        size_bytes: int,
        enqueued_at: int,
        now: int,
    ) -> None:
        """Record an operation on one message; it extends the open run if it can."""
        if (
            self._count != 0
            and row_id == self._first + self._count
            and operation == self._operation
            and actor == self._actor
        ):
            self._count += 1
            self._bytes += size_bytes
            self._age += now - enqueued_at
            return
        if self._count != 0:
            self._close_run()
        else:
            self._opened_at = now
        self._operation = operation
        self._actor = actor
        self._first = row_id
        self._count = 1
        self._bytes = size_bytes
        self._age = now - enqueued_at

    def _close_run(self) -> None:
        self._runs.append(self._operation)
        self._runs.append(self._actor)
        self._runs.append(self._first)
        self._runs.append(self._count)
        self._runs.append(self._bytes)
        self._runs.append(self._age)
        self._count = 0

    def encode(self, now: int) -> bytes:
        """Encode the blob; nothing may be added afterwards."""
        if self._count != 0:
            self._close_run()
        run_count = len(self._runs) // _RUN_FIELDS
        opened_at = self._opened_at or now
        parts = [_HEAD.pack(_FORMAT, opened_at, now, len(self._actors), run_count)]
        for actor, description in self._actors:
            text = description.encode()
            parts.append(_ACTOR.pack(actor, len(text)) + text)
        runs = array("q", self._runs)
        if byteorder == "big":
            runs.byteswap()
        parts.append(runs.tobytes())
        return b"".join(parts)


def decode_operations(blob: bytes) -> OperationRecord:
    """Decode the operations of one commit."""
    version, opened_at, sealed_at, actor_count, run_count = _HEAD.unpack_from(blob, 0)
    if version != _FORMAT:
        raise ValueError(f"operation log format {version}, this bus reads {_FORMAT}")
    at = _HEAD.size
    actors: dict[int, str] = {}
    for _ in range(actor_count):
        actor, length = _ACTOR.unpack_from(blob, at)
        at += _ACTOR.size
        actors[actor] = blob[at : at + length].decode()
        at += length
    flat = struct.unpack_from(f"<{run_count * _RUN_FIELDS}q", blob, at)
    runs = [
        OperationRun(
            operation=flat[i],
            actor=flat[i + 1],
            first_row_id=flat[i + 2],
            message_count=flat[i + 3],
            size_bytes=flat[i + 4],
            age_ms=flat[i + 5],
        )
        for i in range(0, len(flat), _RUN_FIELDS)
    ]
    return OperationRecord(
        opened_at=opened_at, sealed_at=sealed_at, actors=actors, runs=runs
    )
