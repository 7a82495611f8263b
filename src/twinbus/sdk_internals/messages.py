"""Messages and batches of the SDK, in forms that its public interface does not have."""

from typing import Any, Final

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._common.utils import transform_outbound_messages
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.amqp import AmqpAnnotatedMessage

BATCH_BYTES_STANDARD: Final = 256 * 1024
"""The SDK's size of a batch before a link has told it."""

_SECTION_BYTES: Final = (5, 8)
"""What a message adds to a batch besides its bytes: up to 255 of them, and more."""

_BATCHED: Final = 5
"""Where the message that a batch becomes has its data sections."""


def as_messages(messages: Any) -> list[ServiceBusMessage]:
    """One message or many, in any form that `send_messages` takes.

    The SDK's own function, because it alone knows all the forms, and what to raise for
    the others.
    """
    converted = transform_outbound_messages(
        messages, ServiceBusMessage, PyamqpTransport.to_outgoing_amqp_message
    )
    return converted if isinstance(converted, list) else [converted]


def messages_of(batch: ServiceBusMessageBatch) -> list[ServiceBusMessage]:
    """The messages in a batch: a diverted batch has to be taken apart."""
    return list(batch._messages)


def message_of(raw: AmqpAnnotatedMessage) -> ServiceBusMessage:
    """A message around a raw one, as the SDK makes it of an AmqpAnnotatedMessage.

    The public constructor takes bodies of data only.
    """
    return ServiceBusMessage(
        body=None,
        message=PyamqpTransport.to_outgoing_amqp_message(raw),
        raw_amqp_message=raw,
    )


def binary_value(value: bytes) -> dict[Any, Any]:
    """Bytes that are sent as such: the SDK sends bytes among properties as texts."""
    return {TYPE: AMQPTypes.binary, VALUE: value}


def encoding_of(raw: AmqpAnnotatedMessage) -> str:
    """Needed where a copy is made."""
    return str(raw._encoding)


def add_encoded(
    batch: ServiceBusMessageBatch, message: bytes, limit_bytes: int
) -> bool:
    """Add a message that is encoded already; false if the batch has no room for it."""
    size = batch._size + len(message) + _SECTION_BYTES[len(message) > 255]
    if size > limit_bytes:
        return False
    batch._message[_BATCHED].append(message)
    batch._size = size
    batch._count += 1
    return True


def set_envelope(
    batch: ServiceBusMessageBatch,
    message_id: str | None,
    session_id: str | None,
    partition_key: str | None,
) -> None:
    """Give a batch the properties of its first message, as the SDK does for its own: a
    partitioned entity chooses the partition by them."""
    batch._amqp_transport.set_batch_envelope_properties(
        batch._message, message_id, session_id, partition_key
    )
