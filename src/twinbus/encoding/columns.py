"""Messages as columns, for clients that read thousands at a time.

Only the requested columns are filled, and a message's bytes are read only as far as
these need: once, from left to right, with a fast path for short encodings. Identifiers
and application properties that are not strings become texts as the SDKs show them, and
two columns have their types (`typed_texts.py`). The whole message as a receiver gets it
is in `raw`.

A value that cannot be decoded is null, so that one bad message does not stop a reader.
"""

from collections.abc import Collection
from typing import Final, final

from twinbus.amqp.codec import decode
from twinbus.amqp.decoder import list_header, skip
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Message
from twinbus.encoding.layout import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.maps import map_header
from twinbus.encoding.outgoing import DeliveryEncoder
from twinbus.encoding.sections import section_code
from twinbus.encoding.typed_texts import json_of, name_of, text_of, type_of

# Columns that do not need the bytes of a message.
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

# Index among the fields of the properties section.
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
_FIELD_COUNT: Final = 13

COLUMNS: Final = (
    *_OF_THE_BUS,
    *_FIELDS,
    "partition_key",
    "application_properties",
    "application_property_types",
    "body",
    "amqp_types",
)

_STATES: Final = ("active", "deferred", "scheduled")
_PARTITION_KEY: Final = "x-opt-partition-key"

_LATEST_MS: Final = ((1 << 63) - 1) // 1000

_NULL: Final = 0x40
_SHORT_TEXT: Final = 0xA1

_IDS: Final = {0: "message_id", 5: "correlation_id"}
"""The fields that may have other types than string."""


@final
class MessageColumns:
    """Messages, column by column."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.columns: dict[str, list[object]] = {name: [] for name in wanted}
        self.count: int = 0
        self._of_the_bus: list[str] = [n for n in wanted if n in _OF_THE_BUS]
        self._fields: list[tuple[int, list[object]]] = [
            (_FIELDS[name], self.columns[name]) for name in wanted if name in _FIELDS
        ]
        indexes = {index for index, _ in self._fields}
        self._is_field_wanted: list[bool] = [
            index in indexes for index in range(_FIELD_COUNT)
        ]
        self._partition_keys: list[object] | None = self.columns.get("partition_key")
        self._properties: list[object] | None = self.columns.get(
            "application_properties"
        )
        self._property_types: list[object] | None = self.columns.get(
            "application_property_types"
        )
        self._bodies: list[object] | None = self.columns.get("body")
        self._types: list[object] | None = self.columns.get("amqp_types")
        self._looks_inside: bool = len(self._of_the_bus) < len(self.columns)
        self._encoder: DeliveryEncoder = DeliveryEncoder(0, True)

    def extend(self, messages: list[Message], sequence_numbers: list[int]) -> None:
        """Add messages, with the sequence numbers that clients see."""
        self.count += len(messages)
        for name in self._of_the_bus:
            self.columns[name] += self._bus_values(name, messages, sequence_numbers)
        if self._looks_inside:
            for message in messages:
                self._look_inside(message)

    def _bus_values(
        self, name: str, messages: list[Message], sequence_numbers: list[int]
    ) -> list[object]:
        if name == "sequence_number":
            return list(sequence_numbers)
        if name == "raw":
            encode = self._encoder.encode
            return [
                encode(message, number)
                for message, number in zip(messages, sequence_numbers, strict=True)
            ]
        if name == "enqueued_time":
            return [message.enqueued_at * 1000 for message in messages]
        if name == "state":
            return [_STATES[message.state] for message in messages]
        if name == "delivery_count":
            return [message.delivery_count for message in messages]
        if name == "time_to_live_ms":
            return [message.ttl_ms or None for message in messages]
        if name == "expires_at":
            return [message.expires_at * 1000 or None for message in messages]
        if name == "scheduled_time":
            return [_scheduled(message.scheduled_at) for message in messages]
        if name == "size_bytes":
            return [len(message.raw) for message in messages]
        return [_annex_value(name, message) for message in messages]

    def _look_inside(self, message: Message) -> None:
        raw = message.raw
        try:
            sections = _sections(raw)
        except DecodeError:
            sections = {}
        odd_ids: list[tuple[int, int, int]] = []
        if self._fields or self._types is not None:
            values = _field_values(
                raw, sections.get(PROPERTIES), self._is_field_wanted, odd_ids
            )
            count = len(values)
            for index, column in self._fields:
                column.append(values[index] if index < count else None)
        if self._partition_keys is not None:
            self._partition_keys.append(
                _partition_key(raw, sections.get(MESSAGE_ANNOTATIONS))
            )
        if self._properties is not None or self._property_types is not None:
            texts, types = _application_properties(
                message, sections.get(APPLICATION_PROPERTIES)
            )
            if self._properties is not None:
                self._properties.append(texts)
            if self._property_types is not None:
                self._property_types.append(types)
        if self._bodies is not None:
            self._bodies.append(_body(raw, sections))
        if self._types is not None:
            data = sections.get(DATA)
            is_usual = data is not None and not odd_ids and _is_one_data(raw, data)
            self._types.append(None if is_usual else _types(raw, sections, odd_ids))


def _scheduled(at: int) -> int | None:
    """In microseconds, as Spark needs it; None if there is no time, or if it is too
    large: senders may choose any."""
    return at * 1000 if 0 < at <= _LATEST_MS else None


def _annex_value(name: str, message: Message) -> object:
    annex = message.annex
    if annex is None:
        return None
    if name == "dead_letter_source":
        return annex.dead_letter_source
    if name == "dead_letter_reason":
        return annex.dead_letter_reason
    return annex.dead_letter_description


def _sections(raw: bytes) -> dict[int, tuple[int, int]]:
    """As `find_sections`. Raises DecodeError."""
    found: dict[int, tuple[int, int]] = {}
    at, total = 0, len(raw)
    while at < total:
        code = section_code(raw, at)
        if code == 0:
            raise DecodeError("a message section has no known descriptor")
        start = at + 3
        at = _end_of(raw, start)
        if at > total:
            raise DecodeError("a section ends beyond its message")
        found[code] = (found[code][0] if code in found else start, at)
    return found


def _end_of(raw: bytes, at: int) -> int:
    """Where the value at `at` ends; it may be after the buffer. Raises DecodeError."""
    code = raw[at]
    if code == _NULL:
        return at + 1
    # Values that begin with their size: texts, binaries, lists and maps.
    if 0xA0 <= code <= 0xDF and at + 5 <= len(raw):
        if code & 0x10 == 0:
            return at + 2 + raw[at + 1]
        return at + 5 + int.from_bytes(raw[at + 1 : at + 5], "big")
    return skip(raw, at)


def _field_values(
    raw: bytes,
    section: tuple[int, int] | None,
    is_wanted: list[bool],
    odd_ids: list[tuple[int, int, int]],
) -> list[object]:
    """Texts of the requested fields of the properties section. If the section is
    invalid, all are null. To `odd_ids` come index, begin and end of ids that are no
    short strings."""
    if section is None:
        return []
    values: list[object] = []
    try:
        count, at, end = list_header(raw, section[0])
        if count > _FIELD_COUNT:
            return []
        for index in range(count):
            if at >= end:
                return []
            if raw[at] == _NULL:
                at += 1
                values.append(None)
                continue
            following = _end_of(raw, at)
            if following > end:
                return []
            values.append(_text_at(raw, at, following) if is_wanted[index] else None)
            if raw[at] != _SHORT_TEXT and index in _IDS:
                odd_ids.append((index, at, following))
            at = following
    except DecodeError:
        return []
    return values if at == end else []


def _text_at(raw: bytes, at: int, end: int) -> str | None:
    """Decode a text; short strings, the usual case, do not need the decoder."""
    if raw[at] != _SHORT_TEXT:
        return text_of(_decoded(raw, at))
    try:
        return raw[at + 2 : end].decode()
    except UnicodeDecodeError:
        return None


def _partition_key(raw: bytes, section: tuple[int, int] | None) -> object:
    if section is None:
        return None
    for key_at, value_at, end in _entries(raw, section):
        if _decoded(raw, key_at) == _PARTITION_KEY:
            return _text_at(raw, value_at, end)
    return None


def _application_properties(
    message: Message, section: tuple[int, int] | None
) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]] | None]:
    """The entries as pairs; those set by a settlement override others. And the types of
    those that are not strings, or None."""
    raw = message.raw
    found: dict[str, str | None] = {}
    types: dict[str, str] = {}
    if section is not None:
        for key_at, value_at, end in _entries(raw, section):
            name = _name_at(raw, key_at, value_at)
            if name is not None:
                text = _text_at(raw, value_at, end)
                found[name] = text
                if types and name in types:
                    # A malformed map has a key twice.
                    del types[name]
                if text is None or raw[value_at] != _SHORT_TEXT:
                    type_name = type_of(raw, value_at, end, text)
                    if type_name is not None:
                        types[name] = type_name
    annex = message.annex
    if annex is not None:
        for name, encoded in annex.modified.items():
            text = text_of(_decoded(encoded, 0))
            found[name] = text
            type_name = type_of(encoded, 0, len(encoded), text)
            if type_name is not None:
                types[name] = type_name
            elif name in types:
                del types[name]
    return list(found.items()), list(types.items()) if types else None


def _name_at(raw: bytes, at: int, end: int) -> str | None:
    """The key, if it is a text."""
    if raw[at] == _SHORT_TEXT:
        return _text_at(raw, at, end)
    name = _decoded(raw, at)
    return str(name) if isinstance(name, str) else None


def _entries(raw: bytes, section: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Start of key and value, and end, of each entry; none if the map is invalid."""
    found: list[tuple[int, int, int]] = []
    at, end = section
    try:
        count, at = map_header(raw, at)
        for _ in range(count // 2):
            if at >= end:
                return []
            value_at = _end_of(raw, at)
            if value_at >= end:
                return []
            following = _end_of(raw, value_at)
            if following > end:
                return []
            found.append((at, value_at, following))
            at = following
    except DecodeError:
        return []
    return found


def _body(raw: bytes, sections: dict[int, tuple[int, int]]) -> object:
    """The bytes of data sections; of a value its text, or JSON."""
    data = sections.get(DATA)
    if data is not None:
        return _data(raw, data)
    value = sections.get(AMQP_VALUE)
    if value is not None:
        decoded = _decoded(raw, value[0])
        if isinstance(decoded, bytes):
            return bytes(decoded)
        text = text_of(decoded)
        return None if text is None else text.encode()
    sequence = sections.get(AMQP_SEQUENCE)
    if sequence is not None:
        return _sequence(raw, sequence)
    return None


def _types(
    raw: bytes,
    sections: dict[int, tuple[int, int]],
    odd_ids: list[tuple[int, int, int]],
) -> list[tuple[str, str]] | None:
    """Types of ids that are not strings, and of a body that is not one data section;
    None for most messages."""
    types: list[tuple[str, str]] = []
    for index, at, end in odd_ids:
        type_name = type_of(raw, at, end, text_of(_decoded(raw, at)))
        if type_name is not None:
            types.append((_IDS[index], type_name))
    body = _body_type(raw, sections)
    if body is not None:
        types.append(("body", body))
    return types or None


def _is_one_data(raw: bytes, place: tuple[int, int]) -> bool:
    at, end = place
    code = raw[at]
    if code == 0xA0:
        return at + 2 + raw[at + 1] == end
    return code == 0xB0 and at + 5 + int.from_bytes(raw[at + 1 : at + 5], "big") == end


def _body_type(raw: bytes, sections: dict[int, tuple[int, int]]) -> str | None:
    """`value:` and the type of an AMQP value; `value`, `sequence`, `sections` and
    `unreadable` for what a text or bytes do not give back; `none` without a body."""
    data = sections.get(DATA)
    if data is not None:
        if _is_one_data(raw, data):
            return None
        return "sections" if raw[data[0]] in (0xA0, 0xB0) else "unreadable"
    value = sections.get(AMQP_VALUE)
    if value is not None:
        if raw[value[0]] == _NULL:
            return "value:null"
        decoded = _decoded(raw, value[0])
        name = name_of(raw[value[0]])
        if name is None or decoded is None or decoded != decoded:
            return "value"
        return f"value:{name}"
    if AMQP_SEQUENCE in sections:
        return "sequence"
    return "none" if sections else "unreadable"


def _data(raw: bytes, place: tuple[int, int]) -> object:
    """The bytes of all data sections, joined."""
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


def _sequence(raw: bytes, place: tuple[int, int]) -> object:
    """The items of all sequence sections, as JSON."""
    at, end = place
    items: list[object] = []
    while at < end:
        try:
            decoded, at = decode(raw, at)
        except DecodeError:
            return None
        if not isinstance(decoded, list):
            return None
        items += decoded
        if at < end:
            if section_code(raw, at) != AMQP_SEQUENCE:
                return None
            at += 3
    return json_of(items).encode()


def _decoded(raw: bytes, at: int) -> object:
    try:
        return decode(raw, at)[0]
    except DecodeError:
        return None
