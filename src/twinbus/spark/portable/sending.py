"""Rows to any namespace, by the vendor's SDK: batches, one after the other.

The messages are encoded already, and go into the SDK's batches as they are. Its own
messages would lose types on the way: the SDK reads texts as bytes, and would send
them as such.

A batch is taken or refused as a whole. Nothing here knows what was sent before.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessageBatch,
    ServiceBusSender,
)

from twinbus.amqp.messaging import decode_message
from twinbus.pairing.failures import ASKS_FOR_PATIENCE, FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.spark.patience import BUSY_SECONDS, RetryPatience
from twinbus.spark.portable.namespace import FAILURES, TRANSIENT, close_quietly
from twinbus.spark.row_messages import EncodedRows
from twinbus.spark.row_sender import RowsRefused, SentRows
from twinbus.spark.write_options import WriteOptions

_ATTEMPT_SECONDS: Final = 60.0

_OPEN_SENDERS: Final = 16
"""Each has a connection of its own; the one that was used longest ago is closed."""

_REMEDIES: Final = {
    FailureKind.AUTHENTICATION: "Check the key in the connection string.",
    FailureKind.AUTHORIZATION: "The key needs the claim Send.",
    FailureKind.NOT_FOUND: "Make the queue or topic, or name another one.",
    FailureKind.DISABLED: "Enable it for sending.",
}

_SECTION_BYTES: Final = (5, 8)
"""What a message costs in a batch besides its bytes: up to 255 of them, and more."""


class SdkSender:
    """`RowSender` for any namespace."""

    def __init__(self, options: WriteOptions) -> None:
        trust: dict[str, Any] = {}
        if options.connection.ca_file is not None:
            trust["connection_verify"] = options.connection.ca_file
        self._client = ServiceBusClient.from_connection_string(
            options.connection.open().connection_string, retry_total=0, **trust
        )
        self._max_bytes = options.max_request_bytes
        self._patience_seconds = options.patience_ms / 1000
        self._senders: OrderedDict[str, ServiceBusSender] = OrderedDict()
        self._sent_count = 0

    def send(self, rows: EncodedRows) -> None:
        by_entity: dict[str, list[bytes]] = {}
        for entity, message in zip(rows.entities, rows.messages, strict=True):
            by_entity.setdefault(entity, []).append(message)
        for entity, messages in by_entity.items():
            self._send(entity, messages)

    def finish(self) -> SentRows:
        return SentRows(sent_count=self._sent_count)

    def close(self) -> None:
        for entity in list(self._senders):
            self._discard(entity)
        self._client.close()

    def _send(self, entity: str, messages: Sequence[bytes]) -> None:
        patience, sent = RetryPatience(self._patience_seconds), 0
        while sent < len(messages):
            waiting = messages[sent:]
            try:
                sent += self._send_batch(entity, waiting)
            except FAILURES as error:
                self._discard(entity)
                if not _may_wait(error, patience):
                    raise self._refusal(entity, waiting, error) from None
            else:
                # There was an answer: the time begins anew.
                patience = RetryPatience(self._patience_seconds)
        self._sent_count += sent

    def _send_batch(self, entity: str, messages: Sequence[bytes]) -> int:
        """How many of them went with one batch."""
        sender = self._opened(entity)
        batch = sender.create_message_batch()
        limit = min(batch.max_size_in_bytes, self._max_bytes)
        count = 0
        for message in messages:
            if not _add(batch, message, limit if count else batch.max_size_in_bytes):
                break
            count += 1
        if count == 0:
            raise _too_large(entity, messages[0], batch.max_size_in_bytes)
        sender.send_messages(batch, timeout=_ATTEMPT_SECONDS)
        return count

    def _opened(self, entity: str) -> ServiceBusSender:
        sender = self._senders.get(entity)
        if sender is None:
            while len(self._senders) >= _OPEN_SENDERS:
                self._discard(next(iter(self._senders)))
            # Topics, too: at the other end there is an address and no more.
            sender = self._client.get_queue_sender(entity)
            self._senders[entity] = sender
        self._senders.move_to_end(entity)
        return sender

    def _discard(self, entity: str) -> None:
        sender = self._senders.pop(entity, None)
        if sender is not None:
            close_quietly(sender)

    def _refusal(
        self, entity: str, messages: Sequence[bytes], error: Exception
    ) -> RowsRefused:
        kind = kind_of(error)
        remedy = _REMEDIES.get(kind, "")
        if kind in TRANSIENT:
            remedy = (
                f"It was tried for {self._patience_seconds:g} s; the option 'timeout' "
                "says how long."
            )
        text = f"{str(error).rstrip('.') or kind.value}. {remedy}".rstrip()
        count = len(messages)
        return RowsRefused.because(entity, messages[0], text, refused=count, of=count)


def _add(batch: ServiceBusMessageBatch, message: bytes, limit_bytes: int) -> bool:
    """Whether there is room for it. Touches what is not the SDK's public interface,
    which has no place for messages that are encoded."""
    size = batch._size + len(message) + _SECTION_BYTES[len(message) > 255]
    if size > limit_bytes:
        return False
    batch._message[5].append(message)
    batch._size = size
    batch._count += 1
    if batch._count == 1:
        _address(batch, message)
    return True


def _address(batch: ServiceBusMessageBatch, message: bytes) -> None:
    """A batch says for its first message where it belongs, as those of the SDK do: a
    partitioned entity goes by it."""
    decoded = decode_message(message)
    properties = decoded.properties
    key = (decoded.message_annotations or {}).get("x-opt-partition-key")
    message_id = None if properties is None else properties.message_id
    session_id = None if properties is None else properties.group_id
    batch._amqp_transport.set_batch_envelope_properties(
        batch._message, *_texts(message_id, session_id, key)
    )


def _texts(*values: object) -> Iterator[str | None]:
    for value in values:
        yield value if isinstance(value, str) else None


def _may_wait(error: Exception, patience: RetryPatience) -> bool:
    """Whether the same may succeed later; waits for it."""
    kind = kind_of(error)
    if kind not in TRANSIENT:
        return False
    return patience.wait(BUSY_SECONDS if kind in ASKS_FOR_PATIENCE else 0.0)


def _too_large(entity: str, message: bytes, limit_bytes: int) -> RowsRefused:
    return RowsRefused.because(
        entity,
        message,
        f"The message of {len(message)} bytes is larger than the {limit_bytes} bytes "
        "of a batch. Send a smaller one.",
        refused=1,
        of=1,
    )
