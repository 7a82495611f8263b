"""A message as the bus keeps it: the sender's bytes, and the properties that the bus
adds.

The bytes are never rewritten, with one exception: a message without an id gets one when
it is accepted. What the bus adds later (delivery count, dead-letter reason, properties
that an abandon changed) is kept beside the bytes and merged in when the message is
delivered. `layout` says where the sections are in the bytes; only the package
`encoding` interprets it.

`Message` is on the hot path: a plain class, changed in place by its fragment alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

# MessageState, numbered as on the wire (`x-opt-message-state`).
ACTIVE: Final = 0
DEFERRED: Final = 1
SCHEDULED: Final = 2

# Where a message is in the fragment's memory.
NOWHERE: Final = 0  # only on disk, or not committed yet
READY: Final = 1  # in the window
LOCKED: Final = 2  # delivered to a receiver
LEAVING: Final = 3  # settled or expired; an uncommitted change removes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Annex:
    """Properties that the bus added after the send. Most messages have none."""

    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None
    # Path of the entity whose dead letter this is.
    dead_letter_source: str | None = None
    # Application properties set at settlement: name -> encoded AMQP value.
    modified: Mapping[str, bytes] = field(default_factory=dict)
    # Sequence number at the first entity; 0 if it has not been moved.
    enqueued_sequence_number: int = 0
    # How many entities have forwarded it.
    forwarded_count: int = 0


NO_ANNEX: Final = Annex()


@final
class Message:
    """One message of a fragment."""

    def __init__(self, raw: bytes, layout: int, ttl_ms: int, scheduled_at: int) -> None:
        # The encoded message as it was sent.
        self.raw: bytes = raw
        # Positions of its sections; see `encoding`.
        self.layout: int = layout
        # Time to live, counted from enqueueing; 0: it does not expire.
        self.ttl_ms: int = ttl_ms
        # When it becomes active; 0 unless it was scheduled.
        self.scheduled_at: int = scheduled_at
        # Key in the store; set by the fragment that enqueues it.
        self.row_id: int = 0
        # When it became active (scheduled: when it was accepted).
        self.enqueued_at: int = 0
        # When its time to live ends; 0: never.
        self.expires_at: int = 0
        # Deliveries that ended without a settlement, or with an abandon.
        self.delivery_count: int = 0
        # ACTIVE, DEFERRED or SCHEDULED.
        self.state: int = ACTIVE
        # NOWHERE, READY, LOCKED or LEAVING.
        self.place: int = NOWHERE
        # Properties that the bus added; None for most.
        self.annex: Annex | None = None
        # The session of the message; None if the entity does not require sessions.
        self.session_id: str | None = None
        # The row id that it had at its topic; 0 if it was not sent to a topic.
        self.body_id: int = 0
        # Its bytes are stored once for all copies, under `body_id`.
        self.is_shared: bool = False
        # The sender gave no message id, and the bus has not added one yet.
        self.lacks_id: bool = False
        # Size of the bytes while only the store has them and `raw` is empty; else 0.
        self.absent_bytes: int = 0
        # The row from which the commit copies the bytes; 0 for most.
        self.copied_from: int = 0
        # What it is called wherever it goes: see `uid_of`. Empty while its place says
        # it.
        self.uid: bytes = b""
        # Where the message id is in the bytes, while the message arrives; 0: nowhere.
        self.id_at: int = 0
        self.id_end: int = 0

    def size_bytes(self) -> int:
        """The length of the encoded message, in memory or not."""
        return len(self.raw) + self.absent_bytes

    def leave_body(self) -> None:
        """Drop the bytes from memory; the store has them."""
        self.absent_bytes = self.size_bytes()
        self.raw = b""

    def bring_body(self, raw: bytes) -> None:
        """The bytes were read from the store again."""
        self.raw = raw
        self.absent_bytes = 0


def uid_of(message: Message, store_uuid: bytes) -> bytes:
    """The name of the message that stays the same wherever it goes: its send id, or the
    store and the row id of its first place. Copies of one message to a topic have the
    same. It is kept with a message only from its first move on."""
    if message.uid:
        return message.uid
    row_id = message.body_id or message.row_id
    return store_uuid + row_id.to_bytes(8, "big", signed=True)


def restored_message(
    row_id: int,
    raw: bytes,
    layout: int,
    enqueued_at: int,
    ttl_ms: int,
    delivery_count: int,
    state: int,
    scheduled_at: int,
    annex: Annex | None,
    session_id: str | None = None,
    body_id: int = 0,
    is_shared: bool = False,
    uid: bytes = b"",
) -> Message:
    """A message as it was read from a store."""
    message = Message(raw, layout, ttl_ms, scheduled_at)
    message.row_id = row_id
    message.enqueued_at = enqueued_at
    if ttl_ms != 0 and state != SCHEDULED:
        message.expires_at = enqueued_at + ttl_ms
    message.delivery_count = delivery_count
    message.state = state
    message.annex = annex
    message.session_id = session_id
    message.body_id = body_id
    message.is_shared = is_shared
    message.uid = uid
    return message
