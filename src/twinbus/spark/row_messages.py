"""Rows of a DataFrame as encoded messages.

A record batch is encoded as a whole before anything of it is sent: one row that cannot
be a message fails the task, and none of its batch has gone out.

    raw      if it is not null, it is the whole message, and other columns are not
             used; what a bus wrote into it is left out
    body     null means an empty body
    entity   is never null
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinbus.clock import SystemClock
from twinbus.encoding.composing import MessageComposer
from twinbus.encoding.resending import resendable
from twinbus.errors import ServiceBusError
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.spark.plain_error import PlainError
from twinbus.spark.schema import RAW
from twinbus.spark.send_ids import send_ids
from twinbus.spark.write_options import WriteOptions
from twinbus.spark.written_columns import TEXT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


class RowError(PlainError, ValueError):
    """A row cannot be a message; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """Messages, and where each of them goes."""

    entities: Sequence[str]
    messages: Sequence[bytes]


def encode_rows(batch: "pa.RecordBatch", options: WriteOptions) -> EncodedRows:
    """Raises RowError."""
    rows = _Rows(batch, options)
    entities = rows.entities()
    ids = rows.send_ids()
    return EncodedRows(entities=entities, messages=rows.messages(ids))


class _Rows:
    """One record batch."""

    def __init__(self, batch: "pa.RecordBatch", options: WriteOptions) -> None:
        self._batch = batch
        self._options = options
        self._columns = options.columns

    def entities(self) -> list[str]:
        if self._columns.entity is None:
            assert self._options.entity is not None
            return [self._options.entity] * self._batch.num_rows
        name = self._columns.entity_name
        paths = [
            "" if path is None else path.decode().strip().strip("/")
            for path in _bytes(self._batch.column(self._columns.entity), name)
        ]
        if not all(paths):
            raise RowError(
                f"The column '{name}' is null or empty in {paths.count('')} of "
                f"{len(paths)} rows: it must say which queue or topic a row goes to. "
                "Fill it, or filter these rows out."
            )
        return paths

    def send_ids(self) -> list[bytes] | None:
        if self._columns.send_id is None:
            return None
        name = self._columns.send_id_name
        values = _bytes(self._batch.column(self._columns.send_id), name)
        found = [value for value in values if value]
        if len(found) < len(values):
            raise RowError(
                f"'{name}', which 'idColumn' names, is null or empty in "
                f"{len(values) - len(found)} of {len(values)} rows. Every row needs an "
                "id of its own; fill it, or filter these rows out."
            )
        return send_ids(self._options.id_scope, found)

    def messages(self, ids: list[bytes] | None) -> list[bytes]:
        raws = self._raws()
        if raws is None:
            return self._composed(ids)
        is_whole = len(self._columns.sent) == 1
        composed = raws if is_whole else self._composed(ids)
        messages = []
        for row, raw in enumerate(raws):
            send_id = None if ids is None else ids[row]
            found = composed[row] if raw is None else _resendable(raw, send_id)
            if found is None:
                raise RowError(
                    f"The column '{RAW}' is null in a row that has nothing else of a "
                    "message. Filter such rows out, or have a column 'body'."
                )
            messages.append(found)
        return messages

    def _raws(self) -> list[bytes | None] | None:
        place = self._columns.sent.get(RAW)
        return None if place is None else _bytes(self._batch.column(place), RAW)

    def _composed(self, ids: list[bytes] | None) -> list[bytes]:
        composer = MessageComposer(self._batch.num_rows)
        for name, place in self._columns.sent.items():
            if name != RAW:
                _add(composer, name, self._batch.column(place))
        if ids is not None:
            composer.add_send_ids(ids)
        return composer.messages()


def _add(composer: MessageComposer, name: str, column: "pa.Array") -> None:
    if name == "body":
        composer.add_bodies(_bytes(column, name, is_text=False))
    elif name in TEXT_COLUMNS:
        texts = _bytes(column, name)
        if name == "content_type":
            _check_ascii(texts)
        composer.add_text(name, texts)
    elif name == "time_to_live_ms":
        composer.add_time_to_live(_times_to_live(column), SystemClock().now())
    elif name == "scheduled_time":
        composer.add_scheduled_time(_instants(column))
    else:
        assert name == "application_properties", name
        _add_properties(composer, column)


def _bytes(
    column: "pa.Array", name: str, *, is_text: bool = True
) -> "list[bytes | None]":
    """Texts in UTF-8. Spark does not check strings that were made from bytes; a bus
    does."""
    import pyarrow as pa

    if is_text:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise RowError(
                f"The column '{name}' has a string that is not valid UTF-8. Make it "
                "one with decode(), or use binary values."
            ) from None
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


def _check_ascii(texts: "Sequence[bytes | None]") -> None:
    for text in texts:
        if text is not None and not text.isascii():
            raise RowError(
                f"'content_type' is '{text.decode()[:60]}'; only ASCII is allowed "
                "there. Percent-encode it, or use an application property."
            )


def _times_to_live(column: "pa.Array") -> list[int | None]:
    values: list[int | None] = column.to_pylist()
    low = min((value for value in values if value is not None), default=1)
    if low < 1:
        raise RowError(
            f"'time_to_live_ms' is {low} in a row; it must be at least 1, or null for "
            "the entity's own."
        )
    return [value and min(value, DURATION_MS_UNLIMITED) for value in values]


def _instants(column: "pa.Array") -> list[int | None]:
    """Spark's microseconds as milliseconds."""
    import pyarrow as pa

    values = column.cast(pa.int64()).to_pylist()
    return [None if value is None else value // 1000 for value in values]


def _add_properties(composer: MessageComposer, column: "pa.Array") -> None:
    """Keys and values of all rows as two columns; a map is a range of them."""
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    name = "application_properties"
    composer.add_application_properties(
        [key or b"" for key in _bytes(column.keys, name)],
        _bytes(column.items, name),
        [
            (offsets[row], offsets[row + 1]) if there else (0, 0)
            for row, there in enumerate(valid)
        ],
    )


def _resendable(raw: bytes, send_id: bytes | None) -> bytes:
    try:
        return resendable(raw, send_id)
    except ServiceBusError as error:
        raise RowError(
            f"The column '{RAW}' has {len(raw)} bytes in a row that are no AMQP "
            f"message: {error.text} It is for messages that were read with "
            "includeRaw=true; give other bytes as 'body'."
        ) from None
