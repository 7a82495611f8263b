"""Ids that are not strings, and bodies that are not data: the column `amqp_types`.

By row, it has types of `message_id`, `correlation_id` and `body`; most rows have none.
Types of bodies are

    value:TYPE  an AMQP value of that type; `value:null`
    none        no body at all
    value, sequence, sections, unreadable  what a column cannot give back, but `raw`
"""

from base64 import b64encode
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from twinbus.amqp.encoder import NULL
from twinbus.encoding.typed_texts import encoded_value
from twinbus.spark.row_errors import RowError, RowNames
from twinbus.spark.schema import AMQP_TYPES, RAW

if TYPE_CHECKING:
    import pyarrow as pa

TYPED_COLUMNS: Final = ("message_id", "correlation_id", "body")

_VALUE: Final = "value:"
_ONLY_RAW: Final = {
    "value": "an AMQP value with parts",
    "sequence": "an AMQP sequence",
    "sections": "several data sections",
    "unreadable": "malformed",
}
_IN_BASE64: Final = ("binary", "decimal32", "decimal64", "decimal128")


def exact_values(
    types: "pa.Array",
    columns: "dict[str, pa.Array]",
    whole: Collection[int],
    names: RowNames,
) -> dict[str, dict[int, bytes]]:
    """Encoded values by column and row, for the rows that have types. Rows in `whole`
    are sent as they are in `raw`. Raises RowError."""
    found: dict[str, dict[int, bytes]] = {name: {} for name in TYPED_COLUMNS}
    if types.null_count == len(types):
        return found
    for row, entries in enumerate(types.to_pylist()):
        if row in whole:
            continue
        for name, type_name in entries or ():
            if name not in TYPED_COLUMNS:
                raise RowError(
                    f"In {names.of(row)}, '{AMQP_TYPES}' has a type of '{name[:60]}'; "
                    f"it may have those of {', '.join(TYPED_COLUMNS)}."
                )
            if name in columns and type_name is not None:
                value = columns[name][row].as_py()
                found[name][row] = _exact(name, type_name, value, row, names)
    return found


def _exact(
    name: str, type_name: str, value: object, row: int, names: RowNames
) -> bytes:
    try:
        if name == "body":
            return _body(type_name, value)
        assert value is None or isinstance(value, str)
        return encoded_value(type_name, value)
    except ValueError as error:
        raise RowError(
            f"In {names.of(row)}, '{name}' has the type '{type_name[:40]}' in "
            f"'{AMQP_TYPES}': {error}. Correct the value or the type, or remove the "
            f"type to send {'data' if name == 'body' else 'a string'}."
        ) from None


def _body(type_name: str, value: object) -> bytes:
    """An encoded AMQP value; empty for no body. Raises ValueError."""
    if type_name == "none":
        return b""
    if type_name in _ONLY_RAW:
        raise ValueError(
            f"the body is {_ONLY_RAW[type_name]}, which only the column '{RAW}' gives "
            "back: read with includeRaw=true"
        )
    if type_name == f"{_VALUE}null":
        return NULL
    if not type_name.startswith(_VALUE):
        raise ValueError(
            f"a body has {_VALUE}TYPE, none, or {', '.join(_ONLY_RAW)} there"
        )
    simple = type_name.removeprefix(_VALUE)
    content = value.encode() if isinstance(value, str) else value
    assert content is None or isinstance(content, bytes | bytearray)
    if content is None:
        return NULL
    if simple in _IN_BASE64:
        return encoded_value(simple, b64encode(content).decode())
    return encoded_value(simple, content.decode())
