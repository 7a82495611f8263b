"""Messages as columns, for whoever reads thousands at a time.

Only the columns that were asked for are filled, and a message's bytes are looked at
only as far as those need it. Texts for identifiers of other types, and for values of
application properties, are those that the SDKs show: what is lost in them is in `raw`,
the message as a receiver gets it.

What cannot be decoded is null: a reader of ranges must get past any message.
"""

from base64 import b64encode
from collections.abc import Collection
from json import dumps
from typing import Final, final
from uuid import UUID

from twinbus.amqp.codec import decode
from twinbus.amqp.decoder import field_offsets
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Described, Timestamp
from twinbus.broker.message import Message
from twinbus.encoding.layout import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.maps import map_entries
from twinbus.encoding.outgoing import encode_delivery
from twinbus.encoding.sections import find_sections, section_code

# Known without looking at the bytes.
_OF_THE_BUS: Final = (
    "sequence_number",
    "enqueued_time",
    "time_to_live_ms",
    "scheduled_time",
    "expires_at",
    "delivery_count",
    "state",
    "dead_letter_source",
    "dead_letter_reason",
    "dead_letter_description",
    "size_bytes",
    "raw",
)

# By index among the fields of the properties section.
_FIELDS: Final = {
    "message_id": 0,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "session_id": 10,
    "reply_to_session_id": 12,
}

COLUMNS: Final = (
    *_OF_THE_BUS,
    *_FIELDS,
    "partition_key",
    "application_properties",
    "body",
)

_STATES: Final = ("active", "deferred", "scheduled")


@final
class MessageColumns:
    """The messages of one answer, column by column."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.columns: dict[str, list[object]] = {name: [] for name in wanted}
        self.size_bytes: int = 0
        self._of_the_bus: list[str] = [n for n in wanted if n in _OF_THE_BUS]
        self._fields: list[tuple[int, list[object]]] = [
            (_FIELDS[name], self.columns[name]) for name in wanted if name in _FIELDS
        ]
        self._partition_keys: list[object] | None = self.columns.get("partition_key")
        self._properties: list[object] | None = self.columns.get(
            "application_properties"
        )
        self._bodies: list[object] | None = self.columns.get("body")
        self._looks_inside: bool = (
            bool(self._fields)
            or self._partition_keys is not None
            or self._properties is not None
            or self._bodies is not None
        )

    def add(self, message: Message, sequence_number: int) -> None:
        self.size_bytes += len(message.raw)
        for name in self._of_the_bus:
            self.columns[name].append(_bus_value(name, message, sequence_number))
        if self._looks_inside:
            self._look_inside(message)

    def _look_inside(self, message: Message) -> None:
        raw = message.raw
        try:
            sections = find_sections(raw)
        except DecodeError:
            sections = {}
        if self._fields:
            self._add_fields(raw, sections.get(PROPERTIES))
        if self._partition_keys is not None:
            self._partition_keys.append(
                _partition_key(raw, sections.get(MESSAGE_ANNOTATIONS))
            )
        if self._properties is not None:
            self._properties.append(
                _application_properties(message, sections.get(APPLICATION_PROPERTIES))
            )
        if self._bodies is not None:
            self._bodies.append(_body(raw, sections))

    def _add_fields(self, raw: bytes, section: tuple[int, int] | None) -> None:
        offsets: list[int] = []
        if section is not None:
            try:
                offsets = field_offsets(raw, section[0])
            except DecodeError:
                offsets = []
        last = len(offsets) - 1
        for index, column in self._fields:
            column.append(_field(raw, offsets[index]) if index < last else None)


def _bus_value(name: str, message: Message, sequence_number: int) -> object:
    if name == "sequence_number":
        return sequence_number
    if name == "enqueued_time":
        return message.enqueued_at * 1000
    if name == "raw":
        return encode_delivery(message, sequence_number, 0)
    if name == "state":
        return _STATES[message.state]
    if name == "delivery_count":
        return message.delivery_count
    if name == "time_to_live_ms":
        return message.ttl_ms or None
    if name == "expires_at":
        return message.expires_at * 1000 or None
    if name == "scheduled_time":
        return message.scheduled_at * 1000 or None
    if name == "size_bytes":
        return len(message.raw)
    annex = message.annex
    if annex is None:
        return None
    if name == "dead_letter_source":
        return annex.dead_letter_source
    if name == "dead_letter_reason":
        return annex.dead_letter_reason
    return annex.dead_letter_description


def _field(raw: bytes, at: int) -> object:
    # Short strings, which most of them are, without a call for each.
    code = raw[at]
    if code == 0xA1:
        end = at + 2 + raw[at + 1]
        try:
            return raw[at + 2 : end].decode()
        except UnicodeDecodeError:
            return None
    if code == 0x40:
        return None
    return _text_of(_decoded(raw, at))


def _partition_key(raw: bytes, section: tuple[int, int] | None) -> object:
    if section is None:
        return None
    for key_at, value_at, _ in _entries(raw, section[0]):
        if _decoded(raw, key_at) == "x-opt-partition-key":
            return _text_of(_decoded(raw, value_at))
    return None


def _application_properties(
    message: Message, section: tuple[int, int] | None
) -> list[tuple[str, object]]:
    """As a map's entries; those that a settlement set come last, and count."""
    raw = message.raw
    found: dict[str, object] = {}
    if section is not None:
        for key_at, value_at, _ in _entries(raw, section[0]):
            name = _decoded(raw, key_at)
            if isinstance(name, str):
                found[str(name)] = _text_of(_decoded(raw, value_at))
    annex = message.annex
    if annex is not None:
        for name, encoded in annex.modified.items():
            found[name] = _text_of(_decoded(encoded, 0))
    return list(found.items())


def _body(raw: bytes, sections: dict[int, tuple[int, int]]) -> object:
    """The bytes of data; the text of a value that is one, or its JSON."""
    data = sections.get(DATA)
    if data is not None:
        return _data(raw, data)
    value = sections.get(AMQP_VALUE)
    if value is not None:
        decoded = _decoded(raw, value[0])
        if decoded is None:
            return None
        return decoded if isinstance(decoded, bytes) else _json(decoded).encode()
    sequence = sections.get(AMQP_SEQUENCE)
    if sequence is not None:
        return _json(_decoded(raw, sequence[0])).encode()
    return None


def _data(raw: bytes, place: tuple[int, int]) -> object:
    """One section, or several as one."""
    at, end = place
    parts: list[bytes] = []
    while at < end:
        code = raw[at]
        if code == 0xA0:
            start, size = at + 2, raw[at + 1]
        elif code == 0xB0:
            start, size = at + 5, int.from_bytes(raw[at + 1 : at + 5], "big")
        else:
            return None
        parts.append(raw[start : start + size])
        at = start + size
        if at < end and section_code(raw, at) == DATA:
            at += 3
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _entries(raw: bytes, at: int) -> list[tuple[int, int, int]]:
    try:
        return map_entries(raw, at)
    except DecodeError:
        return []


def _decoded(raw: bytes, at: int) -> object:
    try:
        return decode(raw, at)[0]
    except DecodeError:
        return None


def _text_of(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, int | float | UUID):
        return str(value)
    return _json(value)


def _json(value: object) -> str:
    """A text as it is; anything else as JSON, as far as that goes."""
    if isinstance(value, str):
        return str(value)
    return dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, Described):
        return _plain(value.value)
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Timestamp):
        return int(value)
    return value
