"""The options of `df.write` and `df.writeStream`.

docs/howto/spark.md has them as a table, made from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructType

from twinbus.limits import BULK_APPEND_BYTES
from twinbus.spark.connection import (
    CONNECTION_OPTIONS,
    SparkConnection,
    read_connection,
)
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.written_columns import WrittenColumns, written_columns

WRITE_OPTIONS: Final[dict[str, str]] = {
    "entity": "the queue or topic that all rows go to; also the argument of `save`",
    "entityColumn": "the column with the queue or topic of each row; `entity` if the "
    "DataFrame has such a column and the option `entity` is not given",
    "idColumn": "a column of strings or bytes that identifies a message: if it was "
    "sent to its entity before, it is not sent again (twinbus only)",
    "idScope": "a name that separates the ids of this use from those of others",
    "propertyTypes": "keep, the default, or strings: send all texts of "
    "`application_properties` as strings, whatever types they had",
    "maxBytesPerRequest": "most bytes of one request, 4m by default",
    "timeout": "how long to wait for a namespace that is away or busy, 5m by default",
}
"""All options with their meaning, for the documentation."""

REQUEST_OVERHEAD_BYTES: Final = 64 * 1024
"""What a request has besides its rows, generously."""

MAX_REQUEST_BYTES: Final = BULK_APPEND_BYTES - REQUEST_OVERHEAD_BYTES

_MIN_REQUEST_BYTES: Final = 1024
_REQUEST_BYTES: Final = 4 << 20
_SCOPE_CHARACTERS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """A checked set of options, and the columns that they are for."""

    connection: SparkConnection
    # None: a column has it.
    entity: str | None
    columns: WrittenColumns
    id_scope: str
    # Whether `application_property_types` is used.
    keeps_types: bool
    max_request_bytes: int
    patience_ms: int


def write_options(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> WriteOptions:
    """Raises OptionError."""
    reader = OptionReader(options)
    reader.check_no_table()
    reader.check_known((*WRITE_OPTIONS, *CONNECTION_OPTIONS, "path"))
    if overwrite:
        raise OptionError(
            "Queues and topics are not overwritten: rows are added to what is there. "
            "Use mode('append'), for a stream outputMode('append') or 'update'."
        )
    entity, entity_column = _entity(reader), reader.text("entityColumn")
    if entity is not None and entity_column is not None:
        raise OptionError(
            "Give either 'entity' (one queue or topic for all rows) or 'entityColumn' "
            "(the column that says it), not both."
        )
    id_column = reader.text("idColumn")
    keeps_types = reader.choice("propertyTypes", ("keep", "strings"), "keep") == "keep"
    # Check options before columns: a wrong call is reported before wrong data.
    return WriteOptions(
        connection=read_connection(reader),
        entity=entity,
        id_scope=_id_scope(id_column, reader.text("idScope")),
        keeps_types=keeps_types,
        max_request_bytes=reader.size(
            "maxBytesPerRequest", _MIN_REQUEST_BYTES, MAX_REQUEST_BYTES, _REQUEST_BYTES
        ),
        patience_ms=reader.milliseconds("timeout", 1_000, 86_400_000, 300_000),
        columns=written_columns(
            schema,
            has_entity=entity is not None,
            entity_column=entity_column,
            id_column=id_column,
            keeps_types=keeps_types,
        ),
    )


def _entity(reader: OptionReader) -> str | None:
    named, path = reader.text("entity"), reader.text("path")
    if named is not None and path is not None and named != path:
        raise OptionError(
            f"'entity' is '{named[:100]}', and save() was given '{path[:100]}'. Say it "
            "once."
        )
    text = named or path
    if text is None:
        return None
    entity = text.strip("/")
    if not entity or "," in entity:
        raise OptionError(
            f"'entity' is '{text[:100]}'; it must be the path of one queue or topic. "
            "For several have a column that says it."
        )
    return entity


def _id_scope(id_column: str | None, id_scope: str | None) -> str:
    if id_scope is None:
        return ""
    if id_column is None:
        raise OptionError("'idScope' is given without 'idColumn', which it is for.")
    if len(id_scope) > _SCOPE_CHARACTERS:
        raise OptionError(
            f"'idScope' has {len(id_scope)} characters; at most {_SCOPE_CHARACTERS} "
            "are allowed."
        )
    return id_scope
