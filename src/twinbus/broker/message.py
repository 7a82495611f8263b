"""A message as the bus keeps it: the sender's bytes, and what the bus knows of them.

The bytes are never rewritten, but for the id of a message that came without one: it is
put in when the message is accepted. What the bus adds later (delivery count,
dead-letter reason, properties an abandon changed) stands beside them and is woven in
when the message is delivered. `layout` says where in the bytes the sections lie; only
the package that reads and writes encoded messages understands it.

`Message` is on the hot path: a plain class, changed in place by its fragment alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

# MessageState, numbered as on the wire (`x-opt-message-state`).
ACTIVE: Final = 0
DEFERRED: Final = 1
SCHEDULED: Final = 2

# Where the fragment's memory holds a message.
NOWHERE: Final = 0  # on disk alone, or not yet committed
READY: Final = 1  # in the window
LOCKED: Final = 2  # handed to a receiver
LEAVING: Final = 3  # settled or expired; a change that removes it is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Annex:
    """What the bus wrote to a message after it was sent. Most have none."""

    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None
    # Path of the entity whose dead letter this is.
    dead_letter_source: str | None = None
    # Application properties set at settlement: name -> encoded AMQP value.
    modified: Mapping[str, bytes] = field(default_factory=dict)
    # Sequence number at the first entity; 0 while it is still there.
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
        # Where its sections lie; opaque here.
        self.layout: int = layout
        # Time to live from enqueueing on; 0 means for ever.
        self.ttl_ms: int = ttl_ms
        # When it becomes active; 0 unless it was scheduled.
        self.scheduled_at: int = scheduled_at
        # Key in the store; set by the fragment that enqueues it.
        self.row_id: int = 0
        # When it became active (scheduled: when it was accepted).
        self.enqueued_at: int = 0
        # When its time to live ends; 0 means never.
        self.expires_at: int = 0
        # Deliveries that count and did not end in a settlement.
        self.delivery_count: int = 0
        # ACTIVE, DEFERRED or SCHEDULED.
        self.state: int = ACTIVE
        # NOWHERE, READY, LOCKED or LEAVING.
        self.place: int = NOWHERE
        # What the bus wrote to it; None for most.
        self.annex: Annex | None = None
        # The session it belongs to; None where sessions are not required.
        self.session_id: str | None = None
        # The row id it had at the topic it was sent to; 0 if it was no topic.
        self.body_id: int = 0
        # Its bytes are stored once for all copies of that message, by `body_id`.
        self.is_shared: bool = False
        # Its sender gave it no message id, and nobody else did so far.
        self.lacks_id: bool = False
        # So many bytes it has that only the store has; `raw` is empty then. 0: they
        # are here.
        self.absent_bytes: int = 0
        # The row whose bytes the commit copies to this message's; 0 for most.
        self.copied_from: int = 0

    def size_bytes(self) -> int:
        """The length of the encoded message, wherever it is."""
        return len(self.raw) + self.absent_bytes

    def leave_body(self) -> None:
        """Keep the bytes no more; the store has them."""
        self.absent_bytes = self.size_bytes()
        self.raw = b""

    def bring_body(self, raw: bytes) -> None:
        """The bytes were read again."""
        self.raw = raw
        self.absent_bytes = 0


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
) -> Message:
    """A message as a store read it back."""
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
    return message
