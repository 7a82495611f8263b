"""Messages of paired processes: how they are written, read, diverted and restored.

It implements the adapter's side of `pairing/ports.py` and `pairing/syphon/ports.py`:
the message type, and the kinds of failures. Messages are encoded, so the bus reads real
ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from twinbus.amqp.messaging import (
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Timestamp
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    EntityDisabled,
    MessageSizeExceeded,
    MessagingEntityNotFound,
    NotAllowed,
    QuotaExceeded,
    ServerBusy,
    ServiceBusError,
)
from twinbus.instants import instant_ms
from twinbus.pairing.detour import (
    RESTORED_FROM,
    SEND_ID,
    Detour,
    DetourError,
    diverted_properties,
    read_detour,
    restored_properties,
)
from twinbus.pairing.failures import FailureKind

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
_STATES: Final = ("active", "deferred", "scheduled")

_KINDS: Final[tuple[tuple[type[ServiceBusError], FailureKind], ...]] = (
    (MessagingEntityNotFound, FailureKind.NOT_FOUND),
    (EntityDisabled, FailureKind.DISABLED),
    (QuotaExceeded, FailureKind.QUOTA),
    (ServerBusy, FailureKind.BUSY),
    (MessageSizeExceeded, FailureKind.TOO_LARGE),
    (NotAllowed, FailureKind.MESSAGE),
    (ArgumentError, FailureKind.ARGUMENT),
    (ArgumentOutOfRange, FailureKind.ARGUMENT),
)


class Unreachable(Exception):
    """There is no connection, or it was lost."""


class PairedSendFailed(Exception):
    """The error that the application of a simulated process gets."""


class SendTimedOut(PairedSendFailed):
    """The time-out was reached."""


class SendRefused(PairedSendFailed):
    """The pair refuses the operation."""


@dataclass(slots=True, kw_only=True)
class PairMessage:
    """A message as an application, or an adapter, has it."""

    uid: str
    message_id: str | None = None
    session_id: str | None = None
    ttl_ms: int | None = None
    scheduled_at: int | None = None
    properties: dict[str, object] = field(default_factory=dict)
    send_id: bytes | None = None
    restored_from: str | None = None

    def encoded(self) -> bytes:
        annotations: dict[Any, Any] = {}
        if self.scheduled_at is not None:
            annotations[_SCHEDULED] = Timestamp(self.scheduled_at)
        if self.send_id is not None:
            annotations[SEND_ID] = self.send_id
        if self.restored_from is not None:
            annotations[RESTORED_FROM] = self.restored_from
        return encode_message(
            Message(
                header=Header(ttl=self.ttl_ms) if self.ttl_ms else None,
                message_annotations=annotations or None,
                properties=Properties(
                    message_id=self.message_id, group_id=self.session_id
                ),
                application_properties=_wire_values(self.properties) or None,
                body=Data((self.uid.encode(),)),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message as a peek at an entity shows it."""

    path: str
    dead_letter: bool
    number: int
    enqueued_at: int
    # "active", "deferred" or "scheduled".
    state: str
    message: PairMessage


def read(encoded: bytes, path: str, dead_letter: bool = False) -> Seen:
    """A message in a reply of the bus."""
    raw = decode_message(encoded)
    annotations = {str(k): v for k, v in (raw.message_annotations or {}).items()}
    assert isinstance(raw.body, Data) and raw.properties is not None
    scheduled_at, send_id = annotations.get(_SCHEDULED), annotations.get(SEND_ID)
    restored_from, header = annotations.get(RESTORED_FROM), raw.header
    message = PairMessage(
        uid=raw.body.chunks[0].decode(),
        message_id=_text(raw.properties.message_id),
        session_id=raw.properties.group_id,
        ttl_ms=None if header is None else header.ttl,
        scheduled_at=None if scheduled_at is None else _integer(scheduled_at),
        properties={str(k): v for k, v in (raw.application_properties or {}).items()},
        send_id=send_id if isinstance(send_id, bytes) else None,
        restored_from=_text(restored_from),
    )
    return Seen(
        path=path,
        dead_letter=dead_letter,
        number=_integer(annotations["x-opt-sequence-number"]),
        enqueued_at=_integer(annotations["x-opt-enqueued-time"]),
        state=_STATES[_integer(annotations.get("x-opt-message-state") or 0)],
        message=message,
    )


def restore(message: PairMessage, detour: Detour, restored_from: str) -> PairMessage:
    """The message as it was before the detour."""
    return replace(
        message,
        session_id=detour.session_id,
        ttl_ms=detour.time_to_live_ms,
        scheduled_at=detour.scheduled_at,
        properties=restored_properties(message.properties),
        restored_from=restored_from,
    )


def kind_of(error: BaseException) -> FailureKind:
    """The kind of failure of an error of the bus, or of the connection."""
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT
    if isinstance(error, Unreachable):
        return FailureKind.CONNECTION
    for error_class, kind in _KINDS:
        if isinstance(error, error_class):
            return kind
    return FailureKind.SERVICE


class SimulatedDialect:
    """Implements `pairing.ports.Dialect` for these messages."""

    def stamp(
        self, message: PairMessage, send_id: bytes, message_id: str | None
    ) -> None:
        message.send_id = send_id
        message.message_id = message.message_id or message_id

    def unstamp(self, message: PairMessage) -> None:
        message.send_id = None

    def send_id(self, message: PairMessage) -> bytes | None:
        return message.send_id

    def session_id(self, message: PairMessage) -> str | None:
        return message.session_id

    def message_id(self, message: PairMessage) -> str | None:
        return message.message_id

    def detour(self, message: PairMessage) -> Detour | None:
        try:
            return read_detour(message.properties)
        except DetourError:
            return None

    def divert(
        self,
        message: PairMessage,
        path: str,
        due_at: int | None = None,
        key: str | None = None,
    ) -> PairMessage:
        """Without the key: backlog queues are not partitioned here."""
        detour = Detour(
            path=path,
            session_id=message.session_id,
            time_to_live_ms=message.ttl_ms,
            scheduled_at=message.scheduled_at if due_at is None else due_at,
        )
        return replace(
            message,
            session_id=None,
            ttl_ms=None,
            scheduled_at=None,
            properties=diverted_properties(message.properties, detour),
        )

    def kind_of(self, error: BaseException) -> FailureKind:
        return kind_of(error)

    def reason_of(self, error: BaseException) -> str:
        return str(error) or type(error).__name__

    def as_raised(self, error: Exception) -> Exception:
        return error

    def timed_out(self, text: str) -> Exception:
        return SendTimedOut(text)

    def refused(self, text: str) -> Exception:
        return SendRefused(text)


def _wire_values(properties: Mapping[str, object]) -> dict[object, object]:
    """The properties with times as AMQP timestamps."""
    return {
        name: Timestamp(instant_ms(value)) if isinstance(value, datetime) else value
        for name, value in properties.items()
    }


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return int(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
