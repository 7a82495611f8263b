"""Checks whether a message may be where it was seen, and as it was seen.

The auditor records requests and replies. From these the possible places of a message
are computed and compared. Every sighting makes the knowledge more exact.
"""

from bisect import bisect_left
from collections.abc import Callable

from simulator.audited_message import (
    ACTIVE,
    DEAD,
    DEAD_DEFERRED,
    DEFERRED,
    GONE,
    NEVER,
    SCHEDULED,
    AuditedMessage,
    AuditedQueue,
)
from simulator.duplicate_audit import DuplicateAudit
from simulator.history import History
from simulator.sighting import Sighting, Violation

PLACES = {
    (False, "active"): ACTIVE,
    (False, "deferred"): DEFERRED,
    (False, "scheduled"): SCHEDULED,
    (True, "active"): DEAD,
    (True, "deferred"): DEAD_DEFERRED,
}


class Judgement:
    """Compares sightings with what is known."""

    def __init__(self, history: History) -> None:
        self._history = history
        # By uid; the auditor adds to it.
        self.messages: dict[str, AuditedMessage] = {}
        self.duplicates = DuplicateAudit(history, self)
        # Called for an unknown message; it may add it.
        self.on_unknown: Callable[[str], None] = _stay_unknown

    def of(self, queue: AuditedQueue) -> list[AuditedMessage]:
        return [m for m in self.messages.values() if m.queue is queue]

    def may_be_at(self, message: AuditedMessage) -> set[str]:
        return message.may_be_at(self._history.highest_since(message.sent_event))

    def known(self, seen: Sighting) -> AuditedMessage:
        message = self.messages.get(seen.uid)
        if message is None:
            self.on_unknown(seen.uid)
            message = self.messages.get(seen.uid)
        if message is None:
            raise Violation(f"nobody sent {seen.uid}")
        if message.queue.path != seen.path:
            raise Violation(f"{seen.uid} was sent to {message.queue.path}")
        return message

    def check(self, message: AuditedMessage, seen: Sighting) -> None:
        """The message may be where it was seen, with these properties."""
        place = PLACES[seen.dead_letter, seen.state]
        may_be_at = self.may_be_at(message)
        if place not in may_be_at:
            raise Violation(
                f"{seen.uid} is {place}, it should be {text_of(may_be_at)} "
                f"(number {seen.sequence_number}, count {seen.delivery_count})"
            )
        group = "dead" if seen.dead_letter else "main"
        if seen.state == "scheduled":
            group = "scheduled"
        self.check_number(message, group, seen.sequence_number)
        if not message.count_low <= seen.delivery_count <= message.count_high:
            raise Violation(
                f"delivery count of {seen.uid} is {seen.delivery_count}, not "
                f"{message.count_low} to {message.count_high}"
            )
        if not message.under_way:
            message.count_low = seen.delivery_count
        self._check_enqueued(message, seen)
        if seen.dead_letter:
            self._check_reason(message, seen)
        message.places = {place}
        message.is_excused = False
        self.duplicates.check_seen(message)
        if message.fate is not None:
            message.fate.seen(message)
        message.touched_event = self._history.event

    def check_number(self, message: AuditedMessage, group: str, number: int) -> None:
        numbers = message.queue.numbers[group == "dead"]
        other = numbers.setdefault(number, message.uid)
        if other != message.uid:
            raise Violation(f"{message.uid} and {other} both have number {number}")
        known = message.sequence_numbers.setdefault(group, number)
        if known != number:
            raise Violation(f"{message.uid} has the numbers {known} and {number}")
        if group == "main" and message.scheduled_at == 0:
            self._check_order_of_acceptance(message, number)

    def _check_order_of_acceptance(self, message: AuditedMessage, number: int) -> None:
        for other in self.of(message.queue):
            theirs = other.sequence_numbers.get("main")
            if theirs is None or other.scheduled_at or other is message:
                continue
            first, second = (other, message) if theirs < number else (message, other)
            if second.accepted_event and second.accepted_event < first.sent_event:
                raise Violation(
                    f"{second.uid} was accepted before {first.uid} was sent and has "
                    "the higher number"
                )

    def _check_enqueued(self, message: AuditedMessage, seen: Sighting) -> None:
        if seen.state == "scheduled":
            return
        times = message.queue.enqueued[seen.dead_letter]
        entry = (seen.sequence_number, seen.enqueued_at)
        at = bisect_left(times, (seen.sequence_number,))
        if at < len(times) and times[at][0] == seen.sequence_number:
            if times[at] != entry:
                raise Violation(f"the enqueued time of {seen.uid} has changed")
            return
        is_before = at > 0 and times[at - 1][1] > seen.enqueued_at
        is_after = at < len(times) and times[at][1] < seen.enqueued_at
        if is_before or is_after:
            raise Violation(f"the enqueued time goes back at {seen.uid}")
        times.insert(at, entry)
        if not seen.dead_letter:
            message.enqueued_at = seen.enqueued_at

    def _check_reason(self, message: AuditedMessage, seen: Sighting) -> None:
        queue, reason = message.queue, seen.reason
        if reason in message.reasons:
            return
        if reason == "MaxDeliveryCountExceeded":
            is_right = message.count_high >= queue.lowest_limit()
        elif reason == "TTLExpiredException":
            highest_now = self._history.highest_since(message.sent_event)
            is_right = message.may_have_expired(highest_now)
            is_right = is_right and DEAD in queue.after_expiry()
        else:
            is_right = False
        if not is_right:
            raise Violation(f"{seen.uid} is a dead letter because of {reason!r}")

    def check_expiry(self, message: AuditedMessage, seen: Sighting) -> None:
        if seen.dead_letter or seen.state != "active":
            return
        if message.must_have_expired(self._history.now):
            raise Violation(f"{seen.uid} was delivered at {self._history.now}, expired")

    def check_order_of_delivery(self, message: AuditedMessage, seen: Sighting) -> None:
        """Messages that were never delivered come in the order of their numbers."""
        if seen.state != "active" or message.was_delivered:
            return
        through = message.queue.delivered_through
        if seen.sequence_number < through[seen.dead_letter]:
            raise Violation(
                f"{seen.uid} has number {seen.sequence_number} and came after "
                f"{through[seen.dead_letter]}"
            )
        through[seen.dead_letter] = seen.sequence_number

    def check_missing(self, queue: AuditedQueue, present: set[str]) -> None:
        excused = 0
        for message in self.of(queue):
            if message.uid in present:
                continue
            self.duplicates.check_missing(message)
            if message.fate is not None:
                highest_now = self._history.highest_since(message.sent_event)
                message.fate.missing(message, highest_now)
            may_be_at = self.may_be_at(message)
            if not may_be_at & {GONE, NEVER}:
                raise Violation(
                    f"{message.uid} is lost; it should be {text_of(may_be_at)}"
                )
            excused += message.is_excused and not self._may_be_expired(message)
        if excused > sum(queue.excused_count):
            raise Violation(
                f"{excused} messages of {queue.path} are lost, "
                f"{sum(queue.excused_count)} were taken away"
            )

    def _may_be_expired(self, message: AuditedMessage) -> bool:
        highest_now = self._history.highest_since(message.sent_event)
        is_dropped = GONE in message.queue.after_expiry()
        return is_dropped and message.may_have_expired(highest_now)


def _stay_unknown(uid: str) -> None:
    """Adds nothing."""


def text_of(places: set[str]) -> str:
    return " or ".join(sorted(places)) or "nowhere"
