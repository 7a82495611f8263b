"""Which columns of a DataFrame make the messages, decided when a write is planned.

They are the columns that a reader yields, so that a DataFrame can be read and written
again; columns that a bus fills in by itself are ignored. Any other column is an error,
because its author expects it to be sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from twinbus.spark.option_reader import OptionError
from twinbus.spark.schema import COLUMNS, RAW

TEXT_COLUMNS: Final = (
    *("message_id", "session_id", "partition_key", "correlation_id", "subject", "to"),
    *("reply_to", "reply_to_session_id", "content_type"),
)

_TEXT: Final = (StringType,)
_BYTES: Final = (BinaryType, StringType)

_SENT: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": _BYTES,
    **dict.fromkeys(TEXT_COLUMNS, _TEXT),
    "time_to_live_ms": (LongType, IntegerType, ShortType, ByteType),
    "scheduled_time": (TimestampType,),
    "application_properties": (MapType,),
    RAW: (BinaryType,),
}
"""The columns that are sent, and the types that they may have."""

ENTITY: Final = "entity"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumns:
    """Places of columns in a row."""

    # By the names of the columns that are sent.
    sent: Mapping[str, int]
    entity: int | None
    send_id: int | None
    # As the user calls them, for messages.
    entity_name: str = ENTITY
    send_id_name: str = ""


def written_columns(
    schema: StructType,
    *,
    has_entity: bool,
    entity_column: str | None,
    id_column: str | None,
) -> WrittenColumns:
    """Raises OptionError if the DataFrame does not fit."""
    places = _places(schema)
    if entity_column is None and not has_entity and ENTITY in places:
        entity_column = ENTITY
    if entity_column is None and not has_entity:
        raise OptionError(
            "The rows have no destination. Give the option 'entity' (a queue or "
            "topic), or have a column 'entity', or name another one by the option "
            "'entityColumn'."
        )
    entity = _named(schema, places, "entityColumn", entity_column, _TEXT)
    send_id = _named(schema, places, "idColumn", id_column, _BYTES)
    sent: dict[str, int] = {}
    for name, place in places.items():
        if name in _SENT:
            _check_type(schema[place], _SENT[name])
            sent[name] = place
        elif name not in COLUMNS and place not in (entity, send_id):
            raise _unknown(schema[place].name)
    if not sent:
        raise OptionError(
            "The DataFrame has no column of a message. Have at least one of "
            f"{', '.join(_SENT)}; usually 'body'."
        )
    return WrittenColumns(
        sent=sent,
        entity=entity,
        send_id=send_id,
        entity_name=entity_column or ENTITY,
        send_id_name=id_column or "",
    )


def _places(schema: StructType) -> dict[str, int]:
    """By name in lower case: Spark does not tell cases apart either."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name in places:
            raise OptionError(
                f"The DataFrame has the column '{field.name}' twice. Drop one, or "
                "rename it."
            )
        places[name] = place
    return places


def _named(
    schema: StructType,
    places: Mapping[str, int],
    option: str,
    name: str | None,
    types: tuple[type[DataType], ...],
) -> int | None:
    if name is None:
        return None
    place = places.get(name.lower())
    if place is None:
        raise OptionError(
            f"'{option}' is '{name}', and the DataFrame has no such column. It has "
            f"{', '.join(schema.fieldNames())}."
        )
    _check_type(schema[place], types)
    return place


def _check_type(field: StructField, types: tuple[type[DataType], ...]) -> None:
    found = field.dataType
    is_right = isinstance(found, types)
    if is_right and isinstance(found, MapType):
        is_right = isinstance(found.keyType, StringType)
        is_right = is_right and isinstance(found.valueType, StringType)
    if not is_right:
        wanted = " or ".join(_type_name(kind) for kind in types)
        raise OptionError(
            f"The column '{field.name}' is of type {found.simpleString()}; it must be "
            f"{wanted}. Cast it, or drop it."
        )


def _type_name(kind: type[DataType]) -> str:
    return "map<string,string>" if kind is MapType else kind().simpleString()


def _unknown(name: str) -> OptionError:
    return OptionError(
        f"The column '{name}' is not one of a message. Drop it, put it into "
        "'application_properties' (a map), or make it part of 'body', for example "
        f"with to_json. These are sent: {', '.join(_SENT)}."
    )
