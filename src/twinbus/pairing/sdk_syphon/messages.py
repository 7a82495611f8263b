"""Messages of a backlog queue as the SDK receives them, and as it sends them again.

The SDK tells texts and binary values apart when it sends, not when it receives: both
arrive as bytes. Bytes that can be decoded are sent as a text, because nearly all values
are texts. Other bytes are sent as binary.
"""

from collections.abc import Mapping
from typing import Any, Final, final

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType

from twinbus.instants import instant_ms, instant_of
from twinbus.pairing.detour import (
    KEY_ADDED,
    PARTITION_KEY,
    RESTORED_FROM,
    SEND_ID,
    restored_properties,
)
from twinbus.pairing.sdk.messages import raw_copy, text_of, texts_of
from twinbus.pairing.syphon.ports import BacklogMessage
from twinbus.pairing.syphon.reading import read
from twinbus.sdk_internals.messages import binary_value, message_of

_DUE: Final = "x-opt-scheduled-enqueue-time"
_BUS_ANNOTATIONS: Final = frozenset(
    (
        *("x-opt-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until"),
        *("x-opt-enqueue-sequence-number", "x-opt-message-state"),
        *("x-opt-deadletter-source", _DUE, RESTORED_FROM),
    )
)
"""Annotations that a bus writes: not copied, or written anew."""

_TEXT_PROPERTIES: Final = (
    *("message_id", "to", "subject", "reply_to", "correlation_id"),
    "reply_to_group_id",
)

_LONGEST_TTL_MS: Final = (1 << 32) - 1
"""The longest time to live that the header can hold: 49 days. A longer one is told by
two times in the properties, as the vendor's SDKs do."""


@final
class SdkMessage(BacklogMessage):
    """A message of a backlog queue, and the SDK's own object of it."""

    __slots__ = ("received", "restored_from")

    received: ServiceBusReceivedMessage
    restored_from: str


def read_received(
    received: ServiceBusReceivedMessage, *, is_deferred: bool
) -> SdkMessage:
    detour, fault = read(texts_of(received.raw_amqp_message.application_properties))
    enqueued = received.enqueued_time_utc
    message = SdkMessage(
        sequence_number=received.sequence_number or 0,
        enqueued_at=instant_ms(enqueued) if enqueued else 0,
        size_bytes=_body_bytes(received.raw_amqp_message),
        detour=detour,
        fault=fault,
        is_deferred=is_deferred,
    )
    message.received = received
    message.restored_from = ""
    return message


def _body_bytes(raw: AmqpAnnotatedMessage) -> int:
    """The bytes of the large parts of a message; a guess if the body is not data."""
    if raw.body_type is AmqpMessageBodyType.DATA:
        return sum(len(part) for part in raw.body)
    return len(str(raw.body))


# --- for the primary ----------------------------------------------------------------


def restored(message: SdkMessage, now: int) -> ServiceBusMessage:
    """The message as it was before its detour; its time to live begins now."""
    raw = raw_copy(message.received.raw_amqp_message)
    if raw.body_type is AmqpMessageBodyType.VALUE:
        raw = AmqpAnnotatedMessage(
            value_body=text_of(raw.body), header=raw.header, properties=raw.properties
        )
    given = message.received.raw_amqp_message
    own: dict[Any, Any] = restored_properties(texts_of(given.application_properties))
    raw.application_properties = {
        name: binary_value(value) if isinstance(value, bytes) else value
        for name, value in own.items()
    } or None
    raw.annotations = _annotations(message, given.annotations)
    raw.delivery_annotations = None
    _restore_properties(message, raw, now)
    return message_of(raw)


def _annotations(
    message: SdkMessage, given: Mapping[Any, Any] | None
) -> dict[str | bytes, Any]:
    assert message.detour is not None
    kept = {
        str(text_of(key)): value if text_of(key) == SEND_ID else text_of(value)
        for key, value in (given or {}).items()
        if text_of(key) not in _BUS_ANNOTATIONS
    }
    kept[RESTORED_FROM] = message.restored_from
    if kept.pop(KEY_ADDED, False):
        kept.pop(PARTITION_KEY, None)
    if message.detour.scheduled_at is not None:
        kept[_DUE] = instant_of(message.detour.scheduled_at)
    return {key.encode(): value for key, value in kept.items()}


def _restore_properties(
    message: SdkMessage, raw: AmqpAnnotatedMessage, now: int
) -> None:
    assert message.detour is not None
    properties, header = raw.properties, raw.header
    assert properties is not None and header is not None
    for name in _TEXT_PROPERTIES:
        properties[name] = text_of(properties[name])
    properties.group_id = message.detour.session_id
    header.delivery_count = None
    ttl_ms = message.time_to_live_ms
    header.time_to_live = min(ttl_ms, _LONGEST_TTL_MS) if ttl_ms else None
    if ttl_ms and ttl_ms > _LONGEST_TTL_MS:
        properties.creation_time = now
        properties.absolute_expiry_time = now + ttl_ms
