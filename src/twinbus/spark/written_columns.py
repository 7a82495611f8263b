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
from twinbus.spark.property_values import VALUE_TYPES
from twinbus.spark.schema import (
    AMQP_TYPES,
    COLUMNS,
    PROPERTIES,
    PROPERTY_TYPES,
    RAW,
    TYPES_NOTE,
)

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
    PROPERTIES: (MapType, StructType),
    PROPERTY_TYPES: (MapType,),
    AMQP_TYPES: (MapType,),
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
    # Of `application_properties`, if it is sent: a map or a struct.
    properties_type: DataType = COLUMNS[PROPERTIES]
    # As the user calls them, for messages.
    entity_name: str = ENTITY
    send_id_name: str = ""


def written_columns(
    schema: StructType,
    *,
    has_entity: bool,
    entity_column: str | None,
    id_column: str | None,
    keeps_types: bool = True,
) -> WrittenColumns:
    """Raises OptionError if the DataFrame does not fit. `keeps_types`: refuse to turn
    properties that have types into strings."""
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
    properties = _properties(schema, sent, keeps_types)
    return WrittenColumns(
        sent=sent,
        properties_type=properties,
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


def _properties(
    schema: StructType, sent: Mapping[str, int], keeps_types: bool
) -> DataType:
    """The type of the application properties. Raises OptionError."""
    if PROPERTIES not in sent:
        return COLUMNS[PROPERTIES]
    field = schema[sent[PROPERTIES]]
    kind = field.dataType
    if keeps_types and RAW not in sent:
        noted = field.metadata.get(TYPES_NOTE)
        if noted is not None and noted not in sent:
            raise OptionError(
                f"The column '{field.name}' was read from a bus, and the types of its "
                f"values are in the column '{noted}', which is not written: numbers "
                f"and booleans would become strings. Keep '{noted}', or ask for "
                "strings by the option propertyTypes=strings."
            )
    if PROPERTY_TYPES in sent and not _is_texts(kind):
        raise OptionError(
            f"The column '{field.name}' is of type {kind.simpleString()}, which has "
            f"the types of its values already: drop '{PROPERTY_TYPES}', which is for "
            "map<string,string>."
        )
    return kind


def _is_texts(kind: DataType) -> bool:
    return isinstance(kind, MapType) and isinstance(kind.valueType, StringType)


def _check_type(field: StructField, types: tuple[type[DataType], ...]) -> None:
    found = field.dataType
    if field.name.lower() == PROPERTIES:
        _check_properties(field)
        return
    is_right = isinstance(found, types)
    if is_right and isinstance(found, MapType):
        is_right = isinstance(found.keyType, StringType) and _is_texts(found)
    if not is_right:
        wanted = " or ".join(_type_name(kind) for kind in types)
        raise OptionError(
            f"The column '{field.name}' is of type {found.simpleString()}; it must be "
            f"{wanted}. Cast it, or drop it."
        )


def _check_properties(field: StructField) -> None:
    """Raises OptionError unless each value has an AMQP type."""
    found = field.dataType
    values: list[tuple[str, DataType]]
    if isinstance(found, StructType):
        values = [(f"{field.name}.{one.name}", one.dataType) for one in found.fields]
    elif isinstance(found, MapType) and isinstance(found.keyType, StringType):
        values = [(f"values of '{field.name}'", found.valueType)]
    else:
        raise OptionError(
            f"The column '{field.name}' is of type {found.simpleString()}; it must be "
            "map<string,string>, a map of strings to values of another type, or a "
            "struct. Cast it, or drop it."
        )
    for name, kind in values:
        if not isinstance(kind, VALUE_TYPES):
            known = ", ".join(one().simpleString() for one in VALUE_TYPES)
            raise OptionError(
                f"{name} are of type {kind.simpleString()}, which AMQP does not have. "
                f"Cast them to one of {known}."
            )


def _type_name(kind: type[DataType]) -> str:
    return "map<string,string>" if kind is MapType else kind().simpleString()


def _unknown(name: str) -> OptionError:
    return OptionError(
        f"The column '{name}' is not one of a message. Drop it, put it into "
        "'application_properties' (a map), or make it part of 'body', for example "
        f"with to_json. These are sent: {', '.join(_SENT)}."
    )
