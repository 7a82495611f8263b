"""Rows of the SQLite store from messages, and messages from rows.

The loops that run once per message; they know neither SQLite nor the file, so
they can be compiled. Tuples are in the order of the statements' parameters.
"""

from collections.abc import Iterable
from typing import Final

from twinbus.broker.message import Annex, Message, restored_message
from twinbus.store.annex import decode_annex, encode_annex

EXPIRY_BUCKET_MS: Final = 60_000
"""Part of the stored format. Finer buckets make inserts slower (D2)."""

DeferredRow = tuple[int, int, int, int, int, bytes | None, bytes]
ScheduledRow = tuple[int, int, int, int, int, int, bytes | None, bytes]
ChangedRow = tuple[int, bytes | None, int]
# row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, state, scheduled_at, annex
MessageRow = tuple[int, bytes, int, int, int, int, int, int, bytes | None]


def active_values(messages: list[Message], begin: int, end: int) -> list[object]:
    """Parameters of `insert_active` for several rows, one after the other."""
    values: list[object] = []
    for at in range(begin, end):
        message = messages[at]
        expires_at = message.expires_at
        values.append(message.row_id)
        values.append(message.enqueued_at)
        values.append(message.ttl_ms)
        values.append(expires_at // EXPIRY_BUCKET_MS if expires_at != 0 else None)
        values.append(message.delivery_count)
        values.append(message.layout)
        values.append(_annex_of(message))
        values.append(message.raw)
    return values


def _annex_of(message: Message) -> bytes | None:
    if message.annex is None and message.scheduled_at == 0:
        return None
    return encode_annex(message.annex, message.scheduled_at)


def deferred_rows(messages: list[Message]) -> list[DeferredRow]:
    """Parameters of `insert_deferred`."""
    return [
        (
            message.row_id,
            message.enqueued_at,
            message.ttl_ms,
            message.delivery_count,
            message.layout,
            _annex_of(message),
            message.raw,
        )
        for message in messages
    ]


def scheduled_rows(messages: list[Message]) -> list[ScheduledRow]:
    """Parameters of `insert_scheduled`."""
    return [
        (
            message.row_id,
            message.scheduled_at,
            message.enqueued_at,
            message.ttl_ms,
            message.delivery_count,
            message.layout,
            encode_annex(message.annex, 0),
            message.raw,
        )
        for message in messages
    ]


def changed_rows(messages: list[Message]) -> list[ChangedRow]:
    """Parameters of `change_active` and `change_deferred`."""
    return [
        (message.delivery_count, _annex_of(message), message.row_id)
        for message in messages
    ]


def row_ranges(row_ids: list[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive row ids.

    Receivers settle in order, so thousands of ids are usually a few runs, and
    deleting a run costs half of deleting its rows one by one.
    """
    ranges: list[tuple[int, int]] = []
    if not row_ids:
        return ranges
    first = row_ids[0]
    last = first - 1
    for row_id in row_ids:
        if row_id != last + 1:
            if row_id < last:
                return row_ranges(sorted(row_ids))
            ranges.append((first, last))
            first = row_id
        last = row_id
    ranges.append((first, last))
    return ranges


def messages_of(rows: Iterable[MessageRow], limit_bytes: int) -> list[Message]:
    """Messages from rows; no more once they have `limit_bytes`."""
    messages: list[Message] = []
    size_bytes = 0
    for row in rows:
        blob = row[8]
        annex: Annex | None = None
        scheduled_at = row[7]
        if blob is not None:
            annex, was_scheduled_at = decode_annex(blob)
            scheduled_at = scheduled_at or was_scheduled_at
        raw = row[1]
        messages.append(
            restored_message(
                row[0], raw, row[2], row[3], row[4], row[5], row[6], scheduled_at, annex
            )
        )
        size_bytes += len(raw)
        if size_bytes >= limit_bytes:
            break
    return messages
