"""Builds messages from columns of plain values.

The counterpart of `columns.py`, for clients that send thousands at a time. Each column
is encoded as a whole; then the parts of each row are joined to a message, section by
section. Absent values are left out. Texts are given as UTF-8, as AMQP encodes them; ids
are strings and bodies are data, but for rows where an encoded value is given.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from twinbus.amqp.codec import encode
from twinbus.amqp.encoder import NULL
from twinbus.amqp.types import UInt
from twinbus.encoding.own_annotations import SEND_ID

PROPERTY_INDEXES: Final = {
    "message_id": 0,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "session_id": 10,
    "reply_to_session_id": 12,
}
"""Indexes of texts among the fields of the properties section."""

LONGEST_HEADER_TTL_MS: Final = (1 << 32) - 1
"""The largest value of the header: 49 days. A longer time to live is expressed by
creation and expiry time in the properties, as the service's SDKs do it."""

_EXPIRES, _CREATED, _CONTENT_TYPE = 8, 9, 6
"""Indexes among the properties."""

_HEADER: Final = b"\x00\x53\x70"
_ANNOTATIONS: Final = b"\x00\x53\x72"
_PROPERTIES: Final = b"\x00\x53\x73"
_APPLICATION: Final = b"\x00\x53\x74"
_DATA: Final = b"\x00\x53\x75"
_VALUE: Final = b"\x00\x53\x77"

_PARTITION_KEY: Final = b"\xa3\x13x-opt-partition-key"
_SCHEDULED: Final = b"\xa3\x1cx-opt-scheduled-enqueue-time"
_SEND_ID: Final = bytes((0xA3, len(SEND_ID))) + SEND_ID.encode()

_STRING, _SYMBOL, _BINARY = 0xA1, 0xA3, 0xA0
"""Codes of short values; codes of long values have one more bit."""

_NOTHING: Final[Mapping[int, bytes]] = {}


class MessageComposer:
    """Builds the messages of several rows; each method adds a column."""

    def __init__(self, count: int) -> None:
        self._count: int = count
        self._headers: list[bytes] = []
        self._annotations: list[list[bytes]] = []
        self._properties: dict[int, list[bytes]] = {}
        self._application: list[bytes] = []
        self._bodies: list[bytes] = []

    def add_text(
        self,
        name: str,
        texts: Sequence[bytes | None],
        encoded: Mapping[int, bytes] = _NOTHING,
    ) -> None:
        """Add one of `PROPERTY_INDEXES`, or `partition_key`. `encoded`: by row, values
        that are used instead of texts; not for `partition_key`."""
        if name == "partition_key":
            self._annotations.append(
                [
                    b"" if text is None else _PARTITION_KEY + _sized(_STRING, text)
                    for text in texts
                ]
            )
            return
        index = PROPERTY_INDEXES[name]
        code = _SYMBOL if index == _CONTENT_TYPE else _STRING
        values = [NULL if text is None else _sized(code, text) for text in texts]
        for row, value in encoded.items():
            values[row] = value
        self._properties[index] = values

    def add_time_to_live(self, values_ms: Sequence[int | None], now: int) -> None:
        """Add times to live, at least 1 ms; they begin at `now`."""
        self._headers = [b"" if ms is None else _header(ms) for ms in values_ms]
        if max((ms or 0 for ms in values_ms), default=0) > LONGEST_HEADER_TTL_MS:
            created, expires = _timestamp(now), self._nulls()
            self._properties[_CREATED] = self._nulls()
            self._properties[_EXPIRES] = expires
            for row, ms in enumerate(values_ms):
                if ms is not None and ms > LONGEST_HEADER_TTL_MS:
                    self._properties[_CREATED][row] = created
                    expires[row] = _timestamp(now + ms)

    def add_scheduled_time(self, instants_ms: Sequence[int | None]) -> None:
        self._annotations.append(
            [b"" if at is None else _SCHEDULED + _timestamp(at) for at in instants_ms]
        )

    def add_send_ids(self, send_ids: Sequence[bytes]) -> None:
        self._annotations.append(
            [_SEND_ID + _sized(_BINARY, send_id) for send_id in send_ids]
        )

    def add_application_properties(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        bounds: Sequence[tuple[int, int]],
    ) -> None:
        """Add the entries of all rows, one after the other: keys as UTF-8, and encoded
        values. `bounds` has the first index of each row, and the one after its last."""
        entries = [
            _sized(_STRING, key) + value
            for key, value in zip(keys, values, strict=True)
        ]
        self._application = [
            _APPLICATION + _map(entries[start:end]) if start < end else b""
            for start, end in bounds
        ]

    def add_bodies(
        self, bodies: Sequence[bytes | None], values: Mapping[int, bytes] = _NOTHING
    ) -> None:
        """Add bodies. None becomes an empty body, which all clients can read. `values`:
        by row, encoded AMQP values that are the body instead; empty for no body."""
        self._bodies = [_DATA + _sized(_BINARY, body or b"") for body in bodies]
        for row, value in values.items():
            self._bodies[row] = _VALUE + value if value else b""

    def messages(self) -> list[bytes]:
        """The encoded messages, one per row."""
        bodies = self._bodies or [_DATA + b"\xa0\x00"] * self._count
        columns = [
            column
            for column in (
                self._headers,
                self._annotation_sections(),
                self._property_sections(),
                self._application,
            )
            if column
        ]
        return [b"".join(parts) for parts in zip(*columns, bodies, strict=True)]

    def _nulls(self) -> list[bytes]:
        return [NULL] * self._count

    def _annotation_sections(self) -> list[bytes]:
        return [
            _ANNOTATIONS + _map([entry for entry in entries if entry])
            if any(entries)
            else b""
            for entries in zip(*self._annotations, strict=True)
        ]

    def _property_sections(self) -> list[bytes]:
        if not self._properties:
            return []
        width = max(self._properties) + 1
        nulls = self._nulls()
        columns = [self._properties.get(index, nulls) for index in range(width)]
        empty = NULL * width
        return [
            b"" if fields == empty else _PROPERTIES + _list(fields, width)
            for fields in map(b"".join, zip(*columns, strict=True))
        ]


def string_values(texts: Sequence[bytes | None]) -> list[bytes]:
    """Encoded strings; None becomes null."""
    return [NULL if text is None else _sized(_STRING, text) for text in texts]


def binary_values(values: Sequence[bytes | None]) -> list[bytes]:
    return [NULL if value is None else _sized(_BINARY, value) for value in values]


def _sized(short_code: int, value: bytes) -> bytes:
    size = len(value)
    if size < 256:
        return bytes((short_code, size)) + value
    return bytes((short_code | 0x10,)) + size.to_bytes(4, "big") + value


def _list(fields: bytes, count: int) -> bytes:
    size = len(fields)
    if size < 255:
        return bytes((0xC0, size + 1, count)) + fields
    return b"\xd0" + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + fields


def _map(entries: Sequence[bytes]) -> bytes:
    """Encode a map; each entry is an encoded key and value."""
    body, count = b"".join(entries), 2 * len(entries)
    size = len(body)
    if size < 255 and count < 256:
        return bytes((0xC1, size + 1, count)) + body
    return b"\xd1" + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body


def _timestamp(at: int) -> bytes:
    return b"\x83" + at.to_bytes(8, "big", signed=True)


def _header(ttl_ms: int) -> bytes:
    ttl = encode(UInt(min(ttl_ms, LONGEST_HEADER_TTL_MS)))
    return _HEADER + _list(NULL + NULL + ttl, 3)
