"""Columns of the PostgreSQL store from messages, and messages from rows.

A commit hands each column over as one array, in PostgreSQL's binary form: a
header, then the length and the bytes of each value. The loops here run once per
message; they know neither a driver nor a connection, so they can be compiled. Lists
are in the order of the statements' parameters.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from twinbus.broker.message import Annex, Message, restored_message
from twinbus.store.rows.annex import decode_annex, encode_annex
from twinbus.store.rows.expiry_bucket import expiry_bucket
from twinbus.store.rows.sqlite_rows import BodyMissing

# Types of elements, as PostgreSQL numbers them.
_BIGINT: Final = 20
_BYTEA: Final = 17

# Dimensions, whether there are NULLs, type of the elements, their number, first index.
_HEAD: Final = struct.Struct(">iiIii")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = b"\xff\xff\xff\xff"

MessageRow = tuple[Any, ...]
_BUCKET_COLUMN: Final = 12


@final
class BigintArray:
    """A column of integers, as PostgreSQL reads it."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data


@final
class ByteaArray:
    """A column of bytes, as PostgreSQL reads it."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data


def bigints(values: Sequence[int]) -> BigintArray:
    count = len(values)
    # Length and value by turns.
    fields = [8] * (2 * count)
    fields[1::2] = values
    packed = struct.pack(">" + "iq" * count, *fields)
    return BigintArray(_HEAD.pack(1, 0, _BIGINT, count, 1) + packed)


def bigints_or_nulls(values: Sequence[int | None]) -> BigintArray:
    parts = [_HEAD.pack(1, 1, _BIGINT, len(values), 1)]
    for value in values:
        parts.append(_NULL if value is None else struct.pack(">iq", 8, value))
    return BigintArray(b"".join(parts))


def byteas(values: Sequence[bytes | None]) -> ByteaArray:
    parts = [_HEAD.pack(1, 1, _BYTEA, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(_LENGTH.pack(len(value)))
            parts.append(value)
    return ByteaArray(b"".join(parts))


# --- messages -------------------------------------------------------------------------


def split_plain(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Those whose rows have nothing but defaults beside their bytes, and the others."""
    unusual = [message for message in messages if not _is_plain(message)]
    if not unusual:
        return messages, unusual
    return [message for message in messages if _is_plain(message)], unusual


def _is_plain(message: Message) -> bool:
    return (
        message.ttl_ms == 0
        and message.session_id is None
        and message.body_id == 0
        and message.delivery_count == 0
        and message.annex is None
        and message.scheduled_at == 0
        and not message.uid
    )


def plain_columns(messages: list[Message]) -> list[object]:
    """Parameters of `insert_plain`."""
    return [
        bigints([message.row_id for message in messages]),
        bigints([message.enqueued_at for message in messages]),
        bigints([message.layout for message in messages]),
        byteas([message.raw for message in messages]),
    ]


def any_columns(messages: list[Message]) -> list[object]:
    """Parameters of `insert_any`."""
    return [
        *_first_columns(messages),
        bigints_or_nulls([_bucket_of(message) for message in messages]),
        bigints([message.delivery_count for message in messages]),
        bigints([message.body_id for message in messages]),
        bigints([1 if message.is_shared else 0 for message in messages]),
        *_last_columns(messages),
        byteas([b"" if message.is_shared else message.raw for message in messages]),
    ]


def moved_active_columns(messages: list[Message]) -> list[object]:
    """Parameters of `move_to_active`."""
    return [
        *_first_columns(messages),
        bigints_or_nulls([_bucket_of(message) for message in messages]),
        bigints([message.delivery_count for message in messages]),
        bigints([message.body_id for message in messages]),
        *_last_columns(messages),
        bigints([message.copied_from for message in messages]),
    ]


def moved_deferred_columns(messages: list[Message]) -> list[object]:
    """Parameters of `move_to_deferred`."""
    return [
        *_first_columns(messages),
        bigints([message.delivery_count for message in messages]),
        bigints([message.body_id for message in messages]),
        *_last_columns(messages),
        bigints([message.copied_from for message in messages]),
    ]


def deferred_columns(messages: list[Message]) -> list[object]:
    """Parameters of `insert_deferred`."""
    return [
        *_first_columns(messages),
        bigints([message.delivery_count for message in messages]),
        bigints([message.body_id for message in messages]),
        bigints([1 if message.is_shared else 0 for message in messages]),
        *_last_columns(messages),
        byteas([b"" if message.is_shared else message.raw for message in messages]),
    ]


def scheduled_columns(messages: list[Message]) -> list[object]:
    """Parameters of `insert_scheduled`."""
    return [
        *_first_columns(messages),
        bigints([message.delivery_count for message in messages]),
        bigints([message.body_id for message in messages]),
        bigints([1 if message.is_shared else 0 for message in messages]),
        byteas([_session_of(message) for message in messages]),
        byteas([encode_annex(message.annex, 0, message.uid) for message in messages]),
        byteas([b"" if message.is_shared else message.raw for message in messages]),
        bigints([message.scheduled_at for message in messages]),
    ]


def changed_columns(messages: list[Message]) -> list[object]:
    """Parameters of `change_active` and `change_deferred`."""
    return [
        bigints([message.row_id for message in messages]),
        bigints([message.delivery_count for message in messages]),
        byteas([_annex_of(message) for message in messages]),
    ]


def range_columns(ranges: list[tuple[int, int]]) -> list[object]:
    """First and last row id of each range."""
    return [
        bigints([first for first, _ in ranges]),
        bigints([last for _, last in ranges]),
    ]


def _first_columns(messages: list[Message]) -> list[object]:
    return [
        bigints([message.row_id for message in messages]),
        bigints([message.enqueued_at for message in messages]),
        bigints([message.layout for message in messages]),
        bigints([message.ttl_ms for message in messages]),
    ]


def _last_columns(messages: list[Message]) -> list[object]:
    return [
        byteas([_session_of(message) for message in messages]),
        byteas([_annex_of(message) for message in messages]),
    ]


def _bucket_of(message: Message) -> int | None:
    if message.expires_at == 0:
        return None
    return expiry_bucket(message.expires_at, message.ttl_ms)


def _session_of(message: Message) -> bytes | None:
    return None if message.session_id is None else message.session_id.encode()


def _annex_of(message: Message) -> bytes | None:
    if message.annex is None and message.scheduled_at == 0 and not message.uid:
        return None
    return encode_annex(message.annex, message.scheduled_at, message.uid)


# --- rows -----------------------------------------------------------------------------


def messages_of(rows: Iterable[MessageRow]) -> list[Message]:
    """Messages from rows. Raises BodyMissing."""
    return [_message_of(row) for row in rows]


def bucket_of_row(row: MessageRow) -> int:
    """Of a row of `expired`."""
    bucket: int = row[_BUCKET_COLUMN]
    return bucket


def _message_of(row: MessageRow) -> Message:
    raw: bytes | None = row[1]
    if raw is None:
        raise BodyMissing(f"row {row[0]} uses a shared body that is missing")
    blob: bytes | None = row[6]
    session: bytes | None = row[7]
    is_shared: int = row[9]
    scheduled_at: int = row[11]
    annex: Annex | None = None
    uid = b""
    if blob is not None:
        annex, was_scheduled_at, uid = decode_annex(blob)
        scheduled_at = scheduled_at or was_scheduled_at
    return restored_message(
        row[0],
        raw,
        row[2],
        row[3],
        row[4],
        row[5],
        row[10],
        scheduled_at,
        annex,
        None if session is None else session.decode(),
        row[8],
        is_shared != 0,
        uid,
    )
