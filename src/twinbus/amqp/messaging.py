"""Messages and termini as values (AMQP 1.0 part 3), for use off the hot path.

A message decoded here keeps the exact wire types of its identifiers, annotations and
properties. It is used for requests and responses of management nodes, for tests and for
tools; the broker never decodes the bodies of messages that it passes on.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.composite import (
    ANY,
    BINARY,
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    MESSAGE_ID,
    STRING,
    SYMBOL,
    SYMBOLS,
    TIMESTAMP,
    UBYTE,
    UINT,
    composite,
    descriptor_code,
    encode_composite,
    from_described,
    symbol_keys,
)
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    MODIFIED,
    REJECTED,
    RELEASED,
    Accepted,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    encode_rejected,
)
from twinbus.amqp.types import Described, Symbol, ULong

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

_SECTION_CODES: Final = {
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}

# Outcomes are in part 3 of the standard too, so they can be imported from here.
__all__ = [
    "ACCEPTED",
    "ACCEPTED_OUTCOME",
    "MODIFIED",
    "REJECTED",
    "RELEASED",
    "Accepted",
    "AmqpMap",
    "AmqpSequence",
    "AmqpValue",
    "Body",
    "Data",
    "Header",
    "Message",
    "Modified",
    "Outcome",
    "Properties",
    "Received",
    "Rejected",
    "Released",
    "Source",
    "Target",
    "decode_message",
    "encode_message",
    "encode_rejected",
]

AmqpMap = dict[object, object]

T = TypeVar("T")


@composite(
    0x28,
    "amqp:source:list",
    address=ANY,
    durable=UINT,
    expiry_policy=SYMBOL,
    timeout=UINT,
    dynamic=BOOLEAN,
    dynamic_node_properties=FIELDS,
    distribution_mode=SYMBOL,
    filter=FIELDS,
    default_outcome=COMPOSITE,
    outcomes=SYMBOLS,
    capabilities=SYMBOLS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    address: object | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: AmqpMap | None = None
    distribution_mode: str | None = None
    filter: AmqpMap | None = None
    default_outcome: object | None = None
    outcomes: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = None


@composite(
    0x29,
    "amqp:target:list",
    address=ANY,
    durable=UINT,
    expiry_policy=SYMBOL,
    timeout=UINT,
    dynamic=BOOLEAN,
    dynamic_node_properties=FIELDS,
    capabilities=SYMBOLS,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    address: object | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: AmqpMap | None = None
    capabilities: tuple[str, ...] | None = None


@composite(
    HEADER,
    "amqp:header:list",
    durable=BOOLEAN,
    priority=UBYTE,
    ttl=UINT,
    first_acquirer=BOOLEAN,
    delivery_count=UINT,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


@composite(
    PROPERTIES,
    "amqp:properties:list",
    message_id=MESSAGE_ID,
    user_id=BINARY,
    to=STRING,
    subject=STRING,
    reply_to=STRING,
    correlation_id=MESSAGE_ID,
    content_type=SYMBOL,
    content_encoding=SYMBOL,
    absolute_expiry_time=TIMESTAMP,
    creation_time=TIMESTAMP,
    group_id=STRING,
    group_sequence=UINT,
    reply_to_group_id=STRING,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Identifiers keep their type: text, bytes, UUID or ULong (or a plain int)."""

    message_id: object | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: object | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """One or more data sections."""

    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AmqpSequence:
    """One or more sequence sections."""

    lists: tuple[list[object], ...]


@dataclass(frozen=True, slots=True)
class AmqpValue:
    """A body of one value, which may be None."""

    value: object | None


Body = Data | AmqpSequence | AmqpValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    header: Header | None = None
    delivery_annotations: AmqpMap | None = None
    message_annotations: AmqpMap | None = None
    properties: Properties | None = None
    application_properties: AmqpMap | None = None
    body: Body | None = None
    footer: AmqpMap | None = None


def encode_message(message: Message) -> bytes:
    """Encode the sections that are present, in the order of the standard."""
    parts: list[bytes] = []
    if message.header is not None:
        parts.append(encode_composite(message.header))
    for code, section in (
        (DELIVERY_ANNOTATIONS, message.delivery_annotations),
        (MESSAGE_ANNOTATIONS, message.message_annotations),
    ):
        if section is not None:
            parts.append(_section(code, symbol_keys(section)))
    if message.properties is not None:
        parts.append(encode_composite(message.properties))
    if message.application_properties is not None:
        parts.append(_section(APPLICATION_PROPERTIES, message.application_properties))
    parts.extend(_encode_body(message.body))
    if message.footer is not None:
        parts.append(_section(FOOTER, symbol_keys(message.footer)))
    return b"".join(parts)


def _encode_body(body: Body | None) -> list[bytes]:
    if body is None:
        return []
    if isinstance(body, Data):
        return [_section(DATA, chunk) for chunk in body.chunks]
    if isinstance(body, AmqpSequence):
        return [_section(AMQP_SEQUENCE, items) for items in body.lists]
    return [_section(AMQP_VALUE, body.value)]


def _section(code: int, value: object) -> bytes:
    return encode(Described(ULong(code), value))


def decode_message(payload: bytes) -> Message:
    """Decode a whole message. Raises DecodeError."""
    sections: dict[int, list[object]] = {}
    at = 0
    last = HEADER
    while at < len(payload):
        value, at = decode(payload, at)
        code = _section_code(value)
        if code < last:
            raise DecodeError(f"message section {code:#04x} is out of order")
        last = code
        assert isinstance(value, Described)
        sections.setdefault(code, []).append(
            from_described(value) if code in (HEADER, PROPERTIES) else value.value
        )
    header = _single(sections, HEADER, Header)
    properties = _single(sections, PROPERTIES, Properties)
    return Message(
        header=header,
        delivery_annotations=_single(sections, DELIVERY_ANNOTATIONS, dict),
        message_annotations=_single(sections, MESSAGE_ANNOTATIONS, dict),
        properties=properties,
        application_properties=_single(sections, APPLICATION_PROPERTIES, dict),
        body=_decode_body(sections),
        footer=_single(sections, FOOTER, dict),
    )


def _section_code(value: object) -> int:
    if not isinstance(value, Described):
        raise DecodeError("a message section has no descriptor")
    code = descriptor_code(value.descriptor)
    if code < 0 and isinstance(value.descriptor, Symbol):
        code = _SECTION_CODES.get(value.descriptor, -1)
    if not HEADER <= code <= FOOTER:
        raise DecodeError(f"{value.descriptor!r} is not a message section")
    return code


def _single(sections: dict[int, list[object]], code: int, kind: type[T]) -> T | None:
    found = sections.get(code)
    if found is None:
        return None
    if len(found) > 1 or not isinstance(found[0], kind):
        raise DecodeError(f"message section {code:#04x} is not well-formed")
    return found[0]


def _decode_body(sections: dict[int, list[object]]) -> Body | None:
    kinds = [code for code in (DATA, AMQP_SEQUENCE, AMQP_VALUE) if code in sections]
    if not kinds:
        return None
    if len(kinds) > 1:
        raise DecodeError("a message body mixes kinds of sections")
    found = sections[kinds[0]]
    if kinds[0] == DATA:
        return Data(_all_of(found, bytes))
    if kinds[0] == AMQP_SEQUENCE:
        return AmqpSequence(_all_of(found, list))
    if len(found) > 1:
        raise DecodeError("a message body has two values")
    return AmqpValue(found[0])


def _all_of(found: list[object], kind: type[T]) -> tuple[T, ...]:
    items: list[T] = []
    for value in found:
        if not isinstance(value, kind):
            raise DecodeError(f"a body section is not a {kind.__name__}")
        items.append(value)
    return tuple(items)
