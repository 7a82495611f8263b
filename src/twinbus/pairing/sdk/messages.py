"""The SDK's messages: copied, stamped and diverted.

The application's own objects are not changed, because it may send them twice: copies
are stamped, diverted and sent. Bodies are shared and not copied.

Received messages have bytes where sent ones have texts; both are read here.
"""

from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final

from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

from twinbus.instants import instant_ms
from twinbus.pairing.detour import (
    KEY_ADDED,
    PARTITION_KEY,
    RESTORED_FROM,
    SEND_ID,
    Detour,
    diverted_properties,
    read_detour,
)
from twinbus.sdk_internals.messages import encoding_of, message_of

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"


_BODY_ARGUMENTS: Final = {
    AmqpMessageBodyType.DATA: "data_body",
    AmqpMessageBodyType.SEQUENCE: "sequence_body",
    AmqpMessageBodyType.VALUE: "value_body",
}

_LONGEST_TTL_MS: Final = (1 << 32) - 1
"""The longest time to live that the header can hold: 49 days. A longer one is told by
two times in the properties, as the vendor's other SDKs do."""


def outgoing_copy(message: ServiceBusMessage) -> ServiceBusMessage:
    """A copy that is a new message. A received message may carry ids from a detour;
    with them, the copy would be dropped as a duplicate of that message."""
    raw = raw_copy(message.raw_amqp_message)
    _take(raw.annotations, RESTORED_FROM)
    return message_of(raw)


def stamp(message: ServiceBusMessage, send_id: bytes, message_id: str | None) -> None:
    """Write the send id, and the message id if it has none."""
    raw = message.raw_amqp_message
    _take(raw.annotations, SEND_ID)
    raw.annotations = {**(raw.annotations or {}), SEND_ID.encode(): send_id}
    if message_id is not None and message.message_id is None:
        message.message_id = message_id


def unstamp(message: ServiceBusMessage) -> None:
    """Remove the send id, and the message id if it was made from it."""
    raw = message.raw_amqp_message
    send_id = _take(raw.annotations, SEND_ID)
    if not raw.annotations:
        raw.annotations = None
    if send_id is not None and message.message_id == send_id.hex():
        message.message_id = None


def send_id_of(message: ServiceBusMessage) -> bytes | None:
    value = _look_up(message.raw_amqp_message.annotations, SEND_ID)
    return value if isinstance(value, bytes) else None


def divert(
    message: ServiceBusMessage,
    path: str,
    due_at: int | None = None,
    key: str | None = None,
) -> ServiceBusMessage:
    """A copy for a backlog queue: it neither expires there, nor is it scheduled, nor
    does it belong to a session (P9). `key` is its partition key, unless it has one."""
    raw = raw_copy(message.raw_amqp_message)
    scheduled = _instant_ms(_take(raw.annotations, _SCHEDULED))
    detour = Detour(
        path=path,
        session_id=message.session_id,
        time_to_live_ms=_take_time_to_live(raw),
        scheduled_at=scheduled if due_at is None else due_at,
    )
    if raw.properties is not None:
        raw.properties.group_id = None
    if key is not None and _look_up(raw.annotations, PARTITION_KEY) is None:
        added: dict[str | bytes, Any] = {
            PARTITION_KEY.encode(): key,
            KEY_ADDED.encode(): True,
        }
        raw.annotations = {**(raw.annotations or {}), **added}
    own = texts_of(raw.application_properties)
    diverted: dict[Any, Any] = {**diverted_properties(own, detour)}
    raw.application_properties = diverted
    return message_of(raw)


def detour_of(message: ServiceBusMessage) -> Detour:
    """The detour that a diverted message carries. Raises DetourError."""
    return read_detour(texts_of(message.raw_amqp_message.application_properties))


# --- parts of a message -----------------------------------------------------------


def raw_copy(raw: AmqpAnnotatedMessage) -> AmqpAnnotatedMessage:
    is_value = raw.body_type is AmqpMessageBodyType.VALUE
    body: Any = raw.body if is_value else list(raw.body)
    body_argument: dict[str, Any] = {_BODY_ARGUMENTS[raw.body_type]: body}
    copy = AmqpAnnotatedMessage(
        **body_argument,
        annotations=_copied(raw.annotations),
        application_properties=_copied(raw.application_properties),
        delivery_annotations=_copied(raw.delivery_annotations),
        footer=_copied(raw.footer),
        encoding=encoding_of(raw),
    )
    copy.header = AmqpMessageHeader(**dict(raw.header or {}))
    copy.properties = AmqpMessageProperties(**dict(raw.properties or {}))
    return copy


def _copied(section: Mapping[Any, Any] | None) -> dict[Any, Any] | None:
    return None if section is None else dict(section)


def _take_time_to_live(raw: AmqpAnnotatedMessage) -> int | None:
    """Remove the time to live, and return it in milliseconds."""
    header, properties = raw.header, raw.properties
    if header is None or properties is None or not header.time_to_live:
        return None
    ttl_ms = int(header.time_to_live)
    header.time_to_live = None
    created_at, expires_at = properties.creation_time, properties.absolute_expiry_time
    if ttl_ms == _LONGEST_TTL_MS and created_at and expires_at:
        ttl_ms = max(int(expires_at) - int(created_at), ttl_ms)
    properties.absolute_expiry_time = None
    return ttl_ms


def _look_up(section: Mapping[Any, Any] | None, name: str) -> Any:
    if section is None:
        return None
    return section.get(name.encode(), section.get(name))


def _take(section: MutableMapping[Any, Any] | None, name: str) -> Any:
    """Remove the value under the name, which is a text or bytes, and return it."""
    if section is None:
        return None
    found = [section.pop(key, None) for key in (name.encode(), name)]
    return next((value for value in found if value is not None), None)


def texts_of(section: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Names and values as the application wrote them: the SDK gives texts as bytes."""
    return {str(text_of(key)): text_of(value) for key, value in (section or {}).items()}


def text_of(value: Any) -> Any:
    """Bytes that are not a text stay bytes: other clients send such values."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _instant_ms(value: Any) -> int | None:
    """The scheduled time: an instant if it was set, milliseconds if it was received."""
    if not isinstance(value, datetime):
        return None if value is None else int(value)
    return instant_ms(value)
