"""Reads the blobs of the operation log: those of format 2, and those of before.

Format 2, all numbers little-endian:

    head     see `HEAD` in `operation_log.py`
    actors, fragments    number, length, UTF-8: see `log_book.py`
    texts    length, UTF-8; numbered from 1
    uids     length, bytes
    runs     ten numbers of 64 bits each
    ids      message ids of the runs that have them, as AMQP values, in order

Format 1 had the actors, and runs of six numbers.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from twinbus.broker.operation_log import (
    COUNT_SHIFT,
    DESTINATION_SHIFT,
    FORMAT,
    HAS_ID,
    HAS_UID,
    HEAD,
    IS_EVENT,
    IS_LAST,
    LENGTH,
    NAMED,
    OPERATION_MASK,
    REASON_MASK,
    RUN_FIELDS,
)

_FIRST_HEAD: Final = struct.Struct("<BqqII")
_FIRST_ACTOR: Final = struct.Struct("<qI")
_FIRST_RUN_FIELDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRun:
    """N consecutive messages, and what one actor did to them."""

    operation: int
    actor: int
    first_row_id: int
    # Of an event: how often it happened.
    message_count: int
    # Sum over the run.
    size_bytes: int
    # Sum of now - enqueued_at over the run; 0 for a send.
    age_ms: int
    # When it happened; 0 if a blob of format 1 does not say so.
    at: int = 0
    is_event: bool = False
    delivery_count: int = 0
    # Row id of the first message at its topic; consecutive, like the row ids. 0: none.
    first_origin: int = 0
    # One for each message, or none.
    uids: list[bytes] = field(default_factory=list)
    # The message ids follow in the record's `ids`.
    has_ids: bool = False
    session_id: str | None = None
    reason: str | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """One commit's blob, decoded."""

    format: int
    opened_at: int
    sealed_at: int
    # Descriptions that precede the first mention.
    actors: dict[int, str]
    runs: list[OperationRun]
    fragments: dict[int, str] = field(default_factory=dict)
    # Which opening of the store wrote it; 0 in format 1.
    epoch: int = 0
    # Number of the commit that wrote the blob before, and how long that commit took.
    # 0 after a start.
    previous: int = 0
    previous_ms: int = 0
    # The owner stopped in order after this.
    is_last: bool = False
    # AMQP values, one after the other: see `OperationRun.has_ids`.
    ids: bytes = b""


def decode_operations(blob: bytes) -> OperationRecord:
    """Decode the operations of one commit. Raises ValueError, struct.error."""
    version = blob[0] if blob else 0
    if version == 1:
        return _decode_first(blob)
    if version != FORMAT:
        raise ValueError(
            f"operation log format {version}, this bus reads up to {FORMAT}"
        )
    head = HEAD.unpack_from(blob, 0)
    flags, opened_at, sealed_at, epoch, previous, previous_ms = head[1:7]
    actor_count, fragment_count, text_count, uid_count, run_count, id_bytes = head[7:]
    actors, at = _described(blob, HEAD.size, actor_count)
    fragments, at = _described(blob, at, fragment_count)
    texts, at = _counted(blob, at, text_count)
    uids, at = _counted(blob, at, uid_count)
    flat = struct.unpack_from(f"<{run_count * RUN_FIELDS}q", blob, at)
    at += 8 * len(flat)
    if at + id_bytes != len(blob):
        raise ValueError("the blob has another length than it says")
    return OperationRecord(
        format=FORMAT,
        opened_at=opened_at,
        sealed_at=sealed_at,
        actors=actors,
        fragments=fragments,
        runs=_runs(flat, [text.decode() for text in texts], uids),
        epoch=epoch,
        previous=previous,
        previous_ms=previous_ms,
        is_last=flags & IS_LAST != 0,
        ids=blob[at:],
    )


def _described(blob: bytes, at: int, count: int) -> tuple[dict[int, str], int]:
    found: dict[int, str] = {}
    for _ in range(count):
        number, length = NAMED.unpack_from(blob, at)
        at += NAMED.size
        found[number] = blob[at : at + length].decode()
        at += length
    return found, at


def _counted(blob: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    found: list[bytes] = []
    for _ in range(count):
        (length,) = LENGTH.unpack_from(blob, at)
        at += LENGTH.size
        found.append(blob[at : at + length])
        at += length
    return found, at


def _runs(
    flat: tuple[int, ...], texts: list[str], uids: list[bytes]
) -> list[OperationRun]:
    runs: list[OperationRun] = []
    next_uid = 0
    for i in range(0, len(flat), RUN_FIELDS):
        key, actor, first, count, size, enqueued_at, at = flat[i : i + 7]
        origin, session, detail = flat[i + 7 : i + 10]
        own_uids: list[bytes] = []
        if key & HAS_UID:
            own_uids = uids[next_uid : next_uid + count]
            next_uid += count
        runs.append(
            OperationRun(
                operation=key & OPERATION_MASK,
                actor=actor,
                first_row_id=first,
                message_count=count,
                size_bytes=size * count,
                age_ms=(at - enqueued_at) * count,
                at=at,
                is_event=key & IS_EVENT != 0,
                delivery_count=key >> COUNT_SHIFT,
                first_origin=origin,
                uids=own_uids,
                has_ids=key & HAS_ID != 0,
                session_id=_text(texts, session),
                reason=_text(texts, detail & REASON_MASK),
                destination=_text(texts, detail >> DESTINATION_SHIFT),
            )
        )
    return runs


def _text(texts: list[str], number: int) -> str | None:
    return texts[number - 1] if number else None


def _decode_first(blob: bytes) -> OperationRecord:
    _, opened_at, sealed_at, actor_count, run_count = _FIRST_HEAD.unpack_from(blob, 0)
    at = _FIRST_HEAD.size
    actors: dict[int, str] = {}
    for _ in range(actor_count):
        actor, length = _FIRST_ACTOR.unpack_from(blob, at)
        at += _FIRST_ACTOR.size
        actors[actor] = blob[at : at + length].decode()
        at += length
    flat = struct.unpack_from(f"<{run_count * _FIRST_RUN_FIELDS}q", blob, at)
    runs = [
        OperationRun(
            operation=flat[i],
            actor=flat[i + 1],
            first_row_id=flat[i + 2],
            message_count=flat[i + 3],
            size_bytes=flat[i + 4],
            age_ms=flat[i + 5],
        )
        for i in range(0, len(flat), _FIRST_RUN_FIELDS)
    ]
    return OperationRecord(
        format=1, opened_at=opened_at, sealed_at=sealed_at, actors=actors, runs=runs
    )
