"""Rows of the SQLite store from messages, and messages from rows.

The loops that run once per message; they know neither SQLite nor the file, so
they can be compiled. Tuples are in the order of the statements' parameters.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from twinbus.broker.message import ACTIVE, Annex, Message, restored_message
from twinbus.broker.outline import Outlines
from twinbus.store.rows.annex import decode_annex, encode_annex
from twinbus.store.rows.expiry_bucket import expiry_bucket

# How much of an active message's row is not a literal: see `sql/sqlite_store.sql`.
PLAIN: Final = 0
EXPIRING: Final = 1
OF_SESSION: Final = 2
SHARED: Final = 3
ANY: Final = 4

ROWS_PER_INSERT: Final = 25
"""One statement for so many rows takes a third less time than one for each; more
rows gain nothing."""

# Shape, number of rows, and their values one after the other.
Insert = tuple[int, int, list[object]]
Row = tuple[object, ...]
ChangedRow = tuple[int, bytes | None, int]
# row_id, raw, layout, enqueued_at, ttl_ms, delivery_count, annex, session_id, body_id,
# is_shared, and, unless all are active: state, scheduled_at. Every column counts when
# thousands are read; some statements read more behind these.
MessageRow = tuple[Any, ...]
_COLUMNS_IF_ACTIVE: Final = 10


class BodyMissing(Exception):
    """A row uses a shared body that does not exist."""


def active_inserts(messages: list[Message]) -> list[Insert]:
    """Messages as runs of rows of the same shape, at most `ROWS_PER_INSERT` each.

    In the order of the table, where neighbours are found without a search: messages
    of one fragment come that way, those of several are sorted. Bytes become a
    bytearray, the one kind of bytes that Python's sqlite3 binds without looking for
    an adapter, which would cost more than the copy.
    """
    inserts: list[Insert] = []
    values: list[object] = []
    run_shape = PLAIN
    count = 0
    for message in _in_order(messages):
        shape = _shape_of(message)
        if count == ROWS_PER_INSERT or (shape != run_shape and count != 0):
            inserts.append((run_shape, count, values))
            values = []
            count = 0
        run_shape = shape
        count += 1
        values.append(message.row_id)
        values.append(message.enqueued_at)
        values.append(message.layout)
        if shape == SHARED:
            values.append(message.body_id)
        else:
            values.append(_own_bytes(message))
        if shape != PLAIN:
            _append_unusual(values, message, shape)
    if count != 0:
        inserts.append((run_shape, count, values))
    return inserts


def _in_order(messages: list[Message]) -> list[Message]:
    if not messages:
        return messages
    last = messages[0].row_id
    for message in messages:
        if message.row_id < last:
            return sorted(messages, key=_row_id)
        last = message.row_id
    return messages


def _row_id(message: Message) -> int:
    return message.row_id


def _append_unusual(values: list[object], message: Message, shape: int) -> None:
    """What a plain row has as literals."""
    values.append(message.ttl_ms)
    values.append(_bucket_of(message))
    if shape == OF_SESSION:
        values.append(message.session_id)
    elif shape == ANY:
        values.append(message.delivery_count)
        values.append(_annex_of(message))
        values.append(message.session_id)
        values.append(message.body_id)
        values.append(1 if message.is_shared else 0)


def _own_bytes(message: Message) -> bytearray:
    """The bytes that are in the row itself."""
    return bytearray(b"" if message.is_shared else message.raw)


def _bucket_of(message: Message) -> int | None:
    if message.expires_at == 0:
        return None
    return expiry_bucket(message.expires_at, message.ttl_ms)


def _shape_of(message: Message) -> int:
    if (
        message.delivery_count != 0
        or message.annex is not None
        or message.scheduled_at != 0
        or message.uid
    ):
        return ANY
    if message.body_id != 0:
        is_only_shared = message.is_shared and message.session_id is None
        return SHARED if is_only_shared else ANY
    if message.session_id is not None:
        return OF_SESSION
    if message.ttl_ms == 0:
        return PLAIN
    return EXPIRING if message.expires_at != 0 else ANY


def _annex_of(message: Message) -> bytes | None:
    if message.annex is None and message.scheduled_at == 0 and not message.uid:
        return None
    return encode_annex(message.annex, message.scheduled_at, message.uid)


def deferred_rows(messages: list[Message]) -> list[Row]:
    """Parameters of `insert_deferred`."""
    return [
        (
            message.row_id,
            message.enqueued_at,
            message.ttl_ms,
            message.delivery_count,
            message.layout,
            _annex_of(message),
            _own_bytes(message),
            message.session_id,
            message.body_id,
            1 if message.is_shared else 0,
        )
        for message in messages
    ]


def moved_active_rows(messages: list[Message]) -> list[Row]:
    """Parameters of `move_to_active`."""
    return [
        (
            message.row_id,
            message.enqueued_at,
            message.layout,
            message.ttl_ms,
            _bucket_of(message),
            message.delivery_count,
            _annex_of(message),
            message.session_id,
            message.body_id,
            message.copied_from,
            message.copied_from,
        )
        for message in messages
    ]


def moved_deferred_rows(messages: list[Message]) -> list[Row]:
    """Parameters of `move_to_deferred`."""
    return [
        (
            message.row_id,
            message.enqueued_at,
            message.ttl_ms,
            message.delivery_count,
            message.layout,
            _annex_of(message),
            message.session_id,
            message.body_id,
            message.copied_from,
        )
        for message in messages
    ]


def scheduled_rows(messages: list[Message]) -> list[Row]:
    """Parameters of `insert_scheduled`."""
    return [
        (
            message.row_id,
            message.scheduled_at,
            message.enqueued_at,
            message.ttl_ms,
            message.delivery_count,
            message.layout,
            encode_annex(message.annex, 0, message.uid),
            _own_bytes(message),
            message.session_id,
            message.body_id,
            1 if message.is_shared else 0,
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
    """Messages from rows; no more once they have `limit_bytes`.

    Raises BodyMissing.
    """
    messages: list[Message] = []
    size_bytes = 0
    for row in rows:
        message = _message_of(row)
        messages.append(message)
        size_bytes += len(message.raw)
        if size_bytes >= limit_bytes:
            break
    return messages


def outlines_of(rows: Iterable[Sequence[Any]]) -> Outlines:
    """Row id, enqueued time, size, the shared body or 0, annex, and number at a topic.
    Raises BodyMissing."""
    outlines = Outlines()
    for row_id, enqueued_at, size_bytes, body_id, annex, origin in rows:
        if size_bytes is None:
            raise _missing(row_id)
        uid = b"" if annex is None else decode_annex(annex)[2]
        outlines.add(row_id, enqueued_at, size_bytes, body_id, uid, origin or 0)
    return outlines


def _missing(row_id: int) -> BodyMissing:
    return BodyMissing(f"row {row_id} uses a shared body that is missing")


def _message_of(row: MessageRow) -> Message:
    raw: bytes | None = row[1]
    if raw is None:
        raise _missing(row[0])
    state = ACTIVE
    scheduled_at = 0
    if len(row) > _COLUMNS_IF_ACTIVE:
        state = row[10]
        scheduled_at = row[11]
    blob: bytes | None = row[6]
    annex: Annex | None = None
    uid = b""
    if blob is not None:
        annex, was_scheduled_at, uid = decode_annex(blob)
        scheduled_at = scheduled_at or was_scheduled_at
    session_id: str | None = row[7]
    # NULL in a row that has nothing to do with a topic.
    body_id: int | None = row[8]
    is_shared: int = row[9]
    return restored_message(
        row[0],
        raw,
        row[2],
        row[3],
        row[4],
        row[5],
        state,
        scheduled_at,
        annex,
        session_id,
        body_id or 0,
        is_shared != 0,
        uid,
    )
