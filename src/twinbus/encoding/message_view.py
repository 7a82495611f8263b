"""A message as rules see it; properties are read from its bytes on demand.

Sections are found once per message, and a property is decoded when it is first used. A
value that cannot be decoded exists but equals nothing: a message is not refused because
of a rule. Names of application properties are compared ignoring case; if two differ
only in case, the first is used.
"""

from collections.abc import Callable
from typing import Final, final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.decoder import field_offsets
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Annex, Message
from twinbus.encoding.layout import (
    ANNOTATED,
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.maps import map_entries
from twinbus.encoding.rule_values import Opaque, rule_value
from twinbus.encoding.sections import find_sections
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.rules.text_work import TextWork
from twinbus.rules.values import MISSING, Duration, Instant
from twinbus.rules.view import MessageView

PROPERTY_FIELDS: Final = {
    "messageid": 0,
    "to": 2,
    "label": 3,
    "replyto": 4,
    "correlationid": 5,
    "contenttype": 6,
    "sessionid": 10,
    "replytosessionid": 12,
}
"""Index of a system property among the fields of the properties section."""

ANNOTATION_KEYS: Final = {
    "partitionkey": "x-opt-partition-key",
    "viapartitionkey": "x-opt-via-partition-key",
    "scheduledenqueuetimeutc": "x-opt-scheduled-enqueue-time",
}
"""System properties that are message annotations."""

_NEVER_AT: Final = 253_402_300_799_999
"""The end of the year 9999: the expiry of a message that does not expire."""

ENTROPY_BYTES: Final = 16

_UNREAD: Final = Opaque(b"")
"""A property that was not read yet."""


@final
class EncodedView(MessageView):
    """The view of one message in the entity where it arrived."""

    def __init__(
        self,
        message: Message,
        sequence_number: int,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._message: Message = message
        self._sequence_number: int = sequence_number
        self._entropy: Callable[[int], bytes] = entropy
        # Positions of sections; None until needed.
        self._sections: dict[int, tuple[int, int]] | None = None
        # Offsets of the fields of the properties, and of their end.
        self._fields: list[int] | None = None
        # Offsets of key, value and end, by lower-case name.
        self._application: dict[str, tuple[int, int, int]] | None = None
        # Encoded application properties that the bus keeps beside the bytes.
        self._annexed: dict[str, bytes] = _annexed(message.annex)
        # Values read before: a thousand rules use the same few properties.
        self._user_values: dict[str, object] = {}
        self._system_values: dict[str, object] = {}
        self._text_work: TextWork = TextWork()

    @property
    def message(self) -> Message:
        return self._message

    def text_work(self) -> TextWork:
        return self._text_work

    def entropy(self) -> bytes:
        return self._entropy(ENTROPY_BYTES)

    def user(self, name: str) -> object:
        known = self._user_values.get(name, _UNREAD)
        if known is _UNREAD:
            known = self._read_user(name)
            self._user_values[name] = known
        return known

    def system(self, name: str) -> object:
        known = self._system_values.get(name, _UNREAD)
        if known is _UNREAD:
            known = self._read_system(name)
            self._system_values[name] = known
        return known

    def _read_user(self, name: str) -> object:
        encoded = self._annexed.get(name)
        if encoded is not None:
            return rule_value(encoded, 0, len(encoded))
        place = self.application().get(name)
        if place is None:
            return MISSING
        return rule_value(self._message.raw, place[1], place[2])

    def _read_system(self, name: str) -> object:
        field = PROPERTY_FIELDS.get(name)
        if field is not None:
            return _as_text(self._field(field))
        if name == "scheduledenqueuetimeutc":
            at = self._message.scheduled_at
            return None if at == 0 else Instant(at)
        key = ANNOTATION_KEYS.get(name)
        if key is not None:
            return _as_text(self._annotation(key))
        return self._broker_property(name)

    def sections(self) -> dict[int, tuple[int, int]]:
        """Positions of the sections' values."""
        sections = self._sections
        if sections is None:
            sections = find_sections(self._message.raw)
            self._sections = sections
        return sections

    def application(self) -> dict[str, tuple[int, int, int]]:
        """Positions of the application properties, by lower-case name."""
        application = self._application
        if application is None:
            application = self._locate_application()
            self._application = application
        return application

    def _locate_application(self) -> dict[str, tuple[int, int, int]]:
        found: dict[str, tuple[int, int, int]] = {}
        section = self.sections().get(APPLICATION_PROPERTIES)
        if section is None:
            return found
        raw = self._message.raw
        for entry in map_entries(raw, section[0]):
            name = _decoded(raw, entry[0])
            if isinstance(name, str):
                found.setdefault(name.lower(), entry)
        return found

    def field_offsets(self) -> list[int]:
        """Start of each field of the properties, and the end of the last."""
        fields = self._fields
        if fields is None:
            section = self.sections().get(PROPERTIES)
            fields = []
            if section is not None:
                fields = field_offsets(self._message.raw, section[0])
            self._fields = fields
        return fields

    def _field(self, index: int) -> object:
        fields = self.field_offsets()
        if index + 1 >= len(fields):
            return None
        return rule_value(self._message.raw, fields[index], fields[index + 1])

    def _annotation(self, key: str) -> object:
        if self._message.layout & ANNOTATED == 0:
            return None
        section = self.sections().get(MESSAGE_ANNOTATIONS)
        if section is None:
            return None
        raw = self._message.raw
        for key_at, value_at, end in map_entries(raw, section[0]):
            if _decoded(raw, key_at) == key:
                return rule_value(raw, value_at, end)
        return None

    def _broker_property(self, name: str) -> object:
        message = self._message
        if name == "sequencenumber":
            return self._sequence_number
        if name == "enqueuedsequencenumber":
            annex = message.annex
            first = 0 if annex is None else annex.enqueued_sequence_number
            return first or self._sequence_number
        if name == "enqueuedtimeutc":
            return Instant(message.enqueued_at)
        if name == "expiresatutc":
            return Instant(message.expires_at or _NEVER_AT)
        if name == "timetolive":
            return Duration(message.ttl_ms or DURATION_MS_UNLIMITED)
        if name == "deliverycount":
            return message.delivery_count
        if name == "size":
            return len(message.raw)
        if name == "state":
            return message.state
        assert name == "deadlettersource", f"{name} is not a system property"
        return None if message.annex is None else message.annex.dead_letter_source


def _annexed(annex: Annex | None) -> dict[str, bytes]:
    if annex is None:
        return {}
    annexed = {name.lower(): encoded for name, encoded in annex.modified.items()}
    if annex.dead_letter_reason is not None:
        annexed["deadletterreason"] = encode(annex.dead_letter_reason)
    if annex.dead_letter_description is not None:
        description = encode(annex.dead_letter_description)
        annexed["deadlettererrordescription"] = description
    return annexed


def _as_text(value: object) -> object:
    """Identifiers that are not texts become texts, as the SDKs show them."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, Opaque) else str(value)


def _decoded(raw: bytes, at: int) -> object:
    try:
        return decode(raw, at)[0]
    except DecodeError:
        return None
