"""Makes the dead letter of a message.

It is a new message with the same bytes, and with a sequence number of the dead-letter
queue: numbers there rise in the order of arrival, which readers of ranges rely on. The
dead letter keeps the old number beside it.
"""

from dataclasses import replace
from typing import Final

from twinbus.broker.message import NO_ANNEX, Message, uid_of
from twinbus.broker.row_id import sequence_of

SESSION_ID_IS_NULL: Final = "Session ID is null."
"""The service's reason if a message without session id is forwarded to an entity that
requires sessions. A sender is refused instead."""

FORWARDING_FAILED: Final = "AutoForwardingFailed"
"""The service's reason if the target of a forwarded message does not take it."""

TRANSFER_FAILED: Final = "TransferFailed"
"""The reason if a message that was sent via an entity is refused by its destination."""


def dead_letter_of(
    message: Message,
    source_path: str,
    source_sequence_number: int,
    reason: str | None,
    description: str | None,
    store_uuid: bytes,
) -> Message:
    """The dead letter of a message of `source_path`. If only the store has the bytes,
    the store copies them."""
    dead_letter = Message(message.raw, message.layout, 0, 0)
    if message.absent_bytes != 0:
        dead_letter.absent_bytes = message.absent_bytes
        dead_letter.copied_from = message.row_id
    dead_letter.delivery_count = message.delivery_count
    dead_letter.body_id = message.body_id
    dead_letter.is_shared = message.is_shared
    if message.uid or message.body_id or message.row_id:
        dead_letter.uid = uid_of(message, store_uuid)
    annex = message.annex or NO_ANNEX
    dead_letter.annex = replace(
        annex,
        dead_letter_reason=reason,
        dead_letter_description=description,
        dead_letter_source=source_path,
        enqueued_sequence_number=(
            annex.enqueued_sequence_number
            or sequence_of(message.body_id)
            or source_sequence_number
        ),
    )
    return dead_letter
