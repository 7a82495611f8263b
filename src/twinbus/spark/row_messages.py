"""Rows of a DataFrame as encoded messages.

A record batch is encoded as a whole before anything of it is sent: one row that cannot
be a message fails the task, and none of its batch has gone out.

    raw      if it is not null, it is the whole message, and other columns are not
             used; what a bus wrote into it is left out
    body     null means an empty body
    entity   is never null

Ids are strings and bodies are data, unless `amqp_types` says otherwise.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.clock import SystemClock
from twinbus.encoding.composing import MessageComposer
from twinbus.encoding.resending import resendable
from twinbus.errors import ServiceBusError
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.spark.amqp_types import exact_values
from twinbus.spark.property_values import encoded_properties
from twinbus.spark.row_errors import RowError, RowNames, utf8
from twinbus.spark.schema import AMQP_TYPES, PROPERTIES, PROPERTY_TYPES, RAW
from twinbus.spark.send_ids import send_ids
from twinbus.spark.write_options import WriteOptions
from twinbus.spark.written_columns import TEXT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


_NO_VALUES: Final[Mapping[int, bytes]] = {}
_OF_OTHERS: Final = (RAW, PROPERTY_TYPES, AMQP_TYPES)
"""Columns that are no part of a composed message by themselves."""


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
            for path in utf8(self._batch.column(self._columns.entity), name)
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
        values = utf8(self._batch.column(self._columns.send_id), name)
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
            return self._composed(ids, ())
        whole = {row for row, raw in enumerate(raws) if raw is not None}
        messages: list[bytes] = []
        if len(whole) < len(raws):
            self._check_composable()
            messages = self._composed(ids, whole)
        return [
            messages[row]
            if raw is None
            else _resendable(raw, None if ids is None else ids[row])
            for row, raw in enumerate(raws)
        ]

    def _check_composable(self) -> None:
        if all(name in _OF_OTHERS for name in self._columns.sent):
            raise RowError(
                f"The column '{RAW}' is null in a row that has nothing else of a "
                "message. Filter such rows out, or have a column 'body'."
            )

    def _raws(self) -> list[bytes | None] | None:
        place = self._columns.sent.get(RAW)
        return None if place is None else utf8(self._batch.column(place), RAW)

    def _composed(self, ids: list[bytes] | None, whole: Collection[int]) -> list[bytes]:
        """Of rows in `whole`, the messages are not used."""
        composer = MessageComposer(self._batch.num_rows)
        columns = {
            name: self._batch.column(place)
            for name, place in self._columns.sent.items()
        }
        names = RowNames(self._batch, self._columns.sent)
        exact: Mapping[str, Mapping[int, bytes]] = {}
        if AMQP_TYPES in columns:
            exact = exact_values(columns[AMQP_TYPES], columns, whole, names)
        for name, column in columns.items():
            if name == PROPERTIES:
                found = encoded_properties(
                    column,
                    self._columns.properties_type,
                    columns.get(PROPERTY_TYPES) if self._options.keeps_types else None,
                    names,
                    whole,
                )
                composer.add_application_properties(
                    found.keys, found.values, found.bounds
                )
            elif name not in _OF_OTHERS:
                _add(composer, name, column, exact.get(name, _NO_VALUES))
        if ids is not None:
            composer.add_send_ids(ids)
        return composer.messages()


def _add(
    composer: MessageComposer,
    name: str,
    column: "pa.Array",
    exact: Mapping[int, bytes],
) -> None:
    if name == "body":
        composer.add_bodies(utf8(column, name, is_text=False), exact)
    elif name in TEXT_COLUMNS:
        texts = utf8(column, name)
        if name == "content_type":
            _check_ascii(texts)
        composer.add_text(name, texts, exact)
    elif name == "time_to_live_ms":
        composer.add_time_to_live(_times_to_live(column), SystemClock().now())
    else:
        assert name == "scheduled_time", name
        composer.add_scheduled_time(_instants(column))


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


def _resendable(raw: bytes, send_id: bytes | None) -> bytes:
    try:
        return resendable(raw, send_id)
    except ServiceBusError as error:
        raise RowError(
            f"The column '{RAW}' has {len(raw)} bytes in a row that are no AMQP "
            f"message: {error.text} It is for messages that were read with "
            "includeRaw=true; give other bytes as 'body'."
        ) from None
