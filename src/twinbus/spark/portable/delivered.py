"""A message as a namespace delivers it: bytes, of which a few fields are read.

It is converted to the broker's message, so that the same code as on a bus makes its
columns. For that, what a bus adds to a delivery is separated: dead-letter texts from
the application properties, states and times from the annotations.
"""

from collections.abc import Mapping
from typing import Final, final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import SCHEDULED, Annex, Message, restored_message
from twinbus.encoding.layout import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.maps import changed_map
from twinbus.encoding.sections import canonical, find_sections

MARK: Final = "x-twinbus-spark-reader"
"""The application property by which a stream knows its own deferred messages: its id.
It is set with the deferral, and never shown in a row."""

DEAD_LETTER_TEXTS: Final = ("DeadLetterReason", "DeadLetterErrorDescription")

_MARK_BYTES: Final = MARK.encode()
_DEAD_LETTER_BYTES: Final = b"DeadLetter"
_LONGEST_TTL_MS: Final = (1 << 32) - 1
_TTL, _DELIVERY_COUNT = 2, 4
_EXPIRES, _GROUP_ID = 8, 10


@final
class Delivered:
    """One message."""

    __slots__ = ("annotations", "mark", "number", "raw", "sections", "state")

    def __init__(self, raw: bytes) -> None:
        """Raises DecodeError if the message is malformed."""
        try:
            sections = find_sections(raw)
        except DecodeError:
            raw = canonical(raw)
            sections = find_sections(raw)
        self.raw = raw
        self.sections = sections
        self.annotations = _map(raw, sections, MESSAGE_ANNOTATIONS)
        number = self.annotations.get("x-opt-sequence-number")
        if not isinstance(number, int):
            raise DecodeError("a delivered message has no sequence number")
        self.number = number
        # ACTIVE, DEFERRED or SCHEDULED.
        self.state = _integer(self.annotations.get("x-opt-message-state"))
        # The stream that deferred it.
        self.mark: str | None = None
        if _MARK_BYTES in raw:
            self._take_mark()

    def _take_mark(self) -> None:
        """Remember the mark, and remove it from the message."""
        mark = _map(self.raw, self.sections, APPLICATION_PROPERTIES).get(MARK)
        if not isinstance(mark, str):
            return
        self.mark = mark
        start, end = self.sections[APPLICATION_PROPERTIES]
        kept = changed_map(self.raw[start:end], (_MARK_BYTES,), {})
        has_others = kept != encode({})
        section = self.raw[start - 3 : start] + kept if has_others else b""
        self.raw = self.raw[: start - 3] + section + self.raw[end:]
        self.sections = find_sections(self.raw)

    @property
    def enqueued_at(self) -> int:
        return _integer(self.annotations.get("x-opt-enqueued-time"))

    @property
    def session_id(self) -> str | None:
        value = _field(_list(self.raw, self.sections, PROPERTIES), _GROUP_ID)
        return value if isinstance(value, str) else None

    def message(self) -> Message:
        """The broker's message."""
        header = _list(self.raw, self.sections, HEADER)
        return restored_message(
            row_id=0,
            raw=self.raw,
            layout=0,
            enqueued_at=self.enqueued_at,
            ttl_ms=self._ttl_ms(_integer(_field(header, _TTL))),
            delivery_count=_integer(_field(header, _DELIVERY_COUNT)),
            state=self.state,
            scheduled_at=_integer(self.annotations.get("x-opt-scheduled-enqueue-time")),
            annex=self._annex(),
        )

    def _ttl_ms(self, in_header: int) -> int:
        """A time to live that is too long for the header is told by its end."""
        if in_header != _LONGEST_TTL_MS or self.state == SCHEDULED:
            return in_header
        expires_at = _field(_list(self.raw, self.sections, PROPERTIES), _EXPIRES)
        return max(_integer(expires_at) - self.enqueued_at, in_header)

    def _annex(self) -> Annex | None:
        source = self.annotations.get("x-opt-deadletter-source")
        properties: Mapping[object, object] = {}
        if _DEAD_LETTER_BYTES in self.raw:
            properties = _map(self.raw, self.sections, APPLICATION_PROPERTIES)
        reason, description = (_text(properties.get(n)) for n in DEAD_LETTER_TEXTS)
        if source is None and reason is None and description is None:
            return None
        return Annex(
            dead_letter_source=_text(source),
            dead_letter_reason=reason,
            dead_letter_description=description,
        )


def _map(
    raw: bytes, sections: Mapping[int, tuple[int, int]], code: int
) -> dict[object, object]:
    value = decode(raw, sections[code][0])[0] if code in sections else None
    return value if isinstance(value, dict) else {}


def _list(
    raw: bytes, sections: Mapping[int, tuple[int, int]], code: int
) -> list[object]:
    value = decode(raw, sections[code][0])[0] if code in sections else None
    return value if isinstance(value, list) else []


def _field(fields: list[object], index: int) -> object:
    return fields[index] if index < len(fields) else None


def _integer(value: object) -> int:
    return int(value) if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
