"""Encodes the messages of a sender: one in a request, or a batch in JSON.

The body of a request is one data section. A batch is a JSON array of objects with
`Body`, `BrokerProperties` and `UserProperties`; all of them are sent, or none.
"""

from typing import Final

from twinbus.amqp.errors import LocalError
from twinbus.amqp.messaging import Data, Header, Message, Properties, encode_message
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.doors.http.messaging.broker_properties import (
    HEADER,
    NONE_SET,
    BrokerProperties,
    broker_properties,
)
from twinbus.doors.http.messaging.custom_headers import (
    read_json_properties,
    read_properties,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.encoding.composing import LONGEST_HEADER_TTL_MS
from twinbus.encoding.json_reading import as_object, read_json, read_object
from twinbus.errors import ArgumentError

BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"

_PARTITION_KEY: Final = Symbol("x-opt-partition-key")
_VIA_PARTITION_KEY: Final = Symbol("x-opt-via-partition-key")
_SCHEDULED: Final = Symbol("x-opt-scheduled-enqueue-time")


def is_batch(request: HttpRequest) -> bool:
    written = request.headers.get("content-type", "")
    return written.partition(";")[0].strip().lower() == BATCH_TYPE


def sent_message(request: HttpRequest, now: int) -> bytes:
    """The encoded message. Raises ArgumentError, ArgumentOutOfRange."""
    given = request.headers.get(HEADER)
    properties = NONE_SET
    if given is not None:
        properties = broker_properties(read_object(given, "BrokerProperties"))
    return _encoded(
        request.body,
        properties,
        request.headers.get("content-type") or properties.content_type,
        read_properties(request.headers, request.names),
        now,
    )


def sent_batch(body: bytes, now: int) -> list[bytes]:
    """The encoded messages. Raises ArgumentError, ArgumentOutOfRange."""
    content = read_json(body, "The batch")
    if not isinstance(content, list) or not content:
        raise ArgumentError("The batch must be a JSON array with a message or more.")
    return [_of_batch(item, number, now) for number, item in enumerate(content)]


def _of_batch(item: object, number: int, now: int) -> bytes:
    where = f"Message {number} of the batch"
    fields = {key.lower(): one for key, one in as_object(item, where).items()}
    body = fields.get("body")
    if body is None:
        body = ""
    if not isinstance(body, str):
        raise ArgumentError(f"The Body of message {number} of the batch must be text.")
    of_broker = as_object(
        fields.get("brokerproperties") or {}, f"{where}: BrokerProperties"
    )
    of_user = as_object(fields.get("userproperties") or {}, f"{where}: UserProperties")
    properties = broker_properties(of_broker)
    application = read_json_properties(of_user)
    return _encoded(_utf8(body), properties, properties.content_type, application, now)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeError:
        raise _half_character() from None


def _half_character() -> ArgumentError:
    return ArgumentError(
        "A text of the message has half of a surrogate pair, which is no character."
    )


def _encoded(
    body: bytes,
    properties: BrokerProperties,
    content_type: str | None,
    application: dict[object, object],
    now: int,
) -> bytes:
    message = Message(
        header=_header(properties),
        message_annotations=_annotations(properties),
        properties=_properties(properties, content_type, now),
        application_properties=application or None,
        body=Data((body,)),
    )
    try:
        return encode_message(message)
    except (UnicodeError, LocalError):
        raise _half_character() from None


def _header(properties: BrokerProperties) -> Header | None:
    lasting_ms = properties.time_to_live_ms
    return Header(ttl=min(lasting_ms, LONGEST_HEADER_TTL_MS)) if lasting_ms else None


def _annotations(properties: BrokerProperties) -> dict[object, object] | None:
    found: dict[object, object] = {}
    if properties.partition_key is not None:
        found[_PARTITION_KEY] = properties.partition_key
    if properties.via_partition_key is not None:
        found[_VIA_PARTITION_KEY] = properties.via_partition_key
    if properties.scheduled_at:
        found[_SCHEDULED] = Timestamp(properties.scheduled_at)
    return found or None


def _properties(
    properties: BrokerProperties, content_type: str | None, now: int
) -> Properties:
    lasting_ms = properties.time_to_live_ms
    is_long = lasting_ms > LONGEST_HEADER_TTL_MS
    return Properties(
        message_id=properties.message_id,
        to=properties.to,
        subject=properties.label,
        reply_to=properties.reply_to,
        correlation_id=properties.correlation_id,
        content_type=_ascii(content_type),
        absolute_expiry_time=now + lasting_ms if is_long else None,
        creation_time=now if is_long else None,
        group_id=properties.session_id,
        reply_to_group_id=properties.reply_to_session_id,
    )


def _ascii(content_type: str | None) -> str | None:
    if content_type is not None and not content_type.isascii():
        raise ArgumentError.about(
            "Content-Type", value=content_type[:60], expected="ASCII characters"
        )
    return content_type
