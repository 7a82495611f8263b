"""Messages of simulated clients: how they are written and read.

The last eight bytes of a body are the uid, for the auditor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from simulator.audited_message import Sent
from simulator.sighting import Sighting
from simulator.topic_audit import SUBSCRIPTIONS, copy_identity
from twinbus.amqp.messaging import (
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Timestamp
from twinbus.broker import message as broker_message

TAG: Final = "tag-00"
"""What actions of rules write: all have this length."""

_UID_BYTES: Final = 8
_STATES: Final = ("active", "deferred", "scheduled")

_ASSIGNED_ID: Final = "0" * 32
"""As long as the id that the bus adds to a message without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to send."""

    uid: str
    ttl_ms: int = 0
    scheduled_at: int = 0
    padding: int = 0
    session_id: str = ""
    message_id: str = ""
    # The color that rules match, and what their actions set.
    color: str = ""
    tag: str = ""
    rule: str = ""

    def encoded(self) -> bytes:
        annotations: dict[Any, Any] | None = None
        if self.scheduled_at:
            at = Timestamp(self.scheduled_at)
            annotations = {"x-opt-scheduled-enqueue-time": at}
        return encode_message(
            Message(
                header=Header(ttl=self.ttl_ms) if self.ttl_ms else None,
                message_annotations=annotations,
                properties=self._properties(),
                application_properties=self._application_properties(),
                body=Data((b"." * self.padding + self.uid.encode(),)),
            )
        )

    def sent(self) -> Sent:
        """The description for the auditor."""
        tagged = replace(self, tag=TAG, rule="r")
        named = replace(self, message_id=self.message_id or _ASSIGNED_ID)
        return Sent(
            size_bytes=len(named.encoded()),
            ttl_ms=self.ttl_ms,
            scheduled_at=self.scheduled_at,
            session_id=self.session_id,
            message_id=self.message_id,
            color=self.color,
            tagged_bytes=len(tagged.encoded()) - len(self.encoded()) - 1,
        )

    def _properties(self) -> Properties | None:
        if not (self.session_id or self.message_id):
            return None
        return Properties(
            message_id=self.message_id or None, group_id=self.session_id or None
        )

    def _application_properties(self) -> dict[Any, Any] | None:
        properties = {"color": self.color, "tag": self.tag, "RuleName": self.rule}
        return {name: text for name, text in properties.items() if text} or None


def uid_of(number: int) -> str:
    return f"m{number:07}"


def sighting_of(
    message: broker_message.Message, sequence_number: int, path: str, dead_letter: bool
) -> Sighting:
    """A message as a link delivers it."""
    annex = message.annex
    uid = message.raw[-_UID_BYTES:].decode()
    if SUBSCRIPTIONS in path:
        uid = _identity(uid, path, decode_message(message.raw))
    return Sighting(
        uid=uid,
        path=path,
        dead_letter=dead_letter,
        sequence_number=sequence_number,
        delivery_count=message.delivery_count,
        enqueued_at=message.enqueued_at,
        state=_STATES[message.state],
        reason=annex.dead_letter_reason if annex is not None else None,
    )


def sighting_in(encoded: bytes, path: str, dead_letter: bool) -> tuple[Sighting, int]:
    """A message in a management reply, and the end of its lock (0: none)."""
    message = decode_message(encoded)
    annotations: dict[str, Any] = {
        str(name): value for name, value in (message.message_annotations or {}).items()
    }
    properties: Mapping[Any, Any] = message.application_properties or {}
    header = message.header
    body = message.body
    assert header is not None and isinstance(body, Data)
    uid = body.chunks[0][-_UID_BYTES:].decode()
    uid = _identity(uid, path, message)
    seen = Sighting(
        uid=uid,
        path=path,
        dead_letter=dead_letter,
        sequence_number=int(annotations["x-opt-sequence-number"]),
        delivery_count=header.delivery_count or 0,
        enqueued_at=int(annotations["x-opt-enqueued-time"]),
        state=_STATES[int(annotations.get("x-opt-message-state") or 0)],
        reason=properties.get("DeadLetterReason"),
    )
    return seen, int(annotations.get("x-opt-locked-until") or 0)


def _identity(uid: str, path: str, message: Message) -> str:
    """If rules match colors, each subscription's copy is a message of its own."""
    properties: Mapping[Any, Any] = message.application_properties or {}
    if SUBSCRIPTIONS not in path or "color" not in properties:
        return uid
    return copy_identity(uid, path, str(properties.get("tag", "")))
