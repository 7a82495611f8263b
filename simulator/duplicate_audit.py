"""What clients know of duplicates: messages with the same id in one queue.

Two messages are rivals if both were sent within the duplicate window: both must never
be seen. A message may be masked by another that could have been first within the
window: only then may it be dropped, and one of its maskers must have existed.
"""

from typing import TYPE_CHECKING

from simulator.audited_message import GONE, NEVER, AuditedMessage
from simulator.history import History
from simulator.sighting import Violation

if TYPE_CHECKING:
    from simulator.judgement import Judgement


class DuplicateAudit:
    """The duplicates of all queues."""

    def __init__(self, history: History, judgement: "Judgement") -> None:
        self._history = history
        self._judgement = judgement

    def _namesakes(self, message: AuditedMessage) -> list[AuditedMessage]:
        return [
            other
            for other in self._judgement.of(message.queue)
            if other.message_id == message.message_id
            and other is not message
            and not other.was_refused
            and not _is_later(other, message)
        ]

    def answered(self, message: AuditedMessage) -> None:
        """It was accepted, or the outcome is unknown: find rivals and maskers."""
        window_ms = message.queue.duplicate_window_ms
        if not message.message_id or not window_ms:
            return
        highest_since = self._history.highest_since
        message.highest_answer = highest_since(message.sent_event)
        earliest = min(message.sent_at, self._history.now)
        for other in self._namesakes(message):
            latest = other.highest_answer or highest_since(other.sent_event)
            if earliest < latest + window_ms:
                message.maskers.append(other)
            first = min(message.sent_event, other.sent_event)
            since = min(message.sent_at, other.sent_at)
            if other.highest_answer and highest_since(first) < since + window_ms:
                message.rivals.append(other)
                other.rivals.append(message)

    def may_be_dropped(self, message: AuditedMessage) -> bool:
        return bool(message.maskers)

    def dropped(self, message: AuditedMessage) -> None:
        """The bus reports that the message is a duplicate."""
        if not message.maskers:
            raise Violation(f"{message.uid} was dropped, and is no duplicate")
        message.places = {NEVER}

    def check_seen(self, message: AuditedMessage) -> None:
        message.was_seen = True
        for other in message.rivals:
            if other.was_seen:
                raise Violation(
                    f"{message.uid} and {other.uid} have the id {message.message_id}, "
                    "and both were there"
                )

    def check_missing(self, message: AuditedMessage) -> None:
        """An accepted message that was never seen must have been a duplicate."""
        if message.was_seen or not message.accepted_event:
            return
        if NEVER not in message.places or GONE in self._judgement.may_be_at(message):
            return
        for other in message.maskers:
            if other.was_refused:
                continue
            may_be_gone = GONE in self._judgement.may_be_at(other)
            if other.was_seen or may_be_gone:
                return
        raise Violation(f"{message.uid} was dropped, and is no duplicate")


def _is_later(other: AuditedMessage, message: AuditedMessage) -> bool:
    """Sent in the same batch, after it."""
    return other.sent_event == message.sent_event and other.uid > message.uid
