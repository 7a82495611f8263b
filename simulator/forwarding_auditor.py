"""Judges a world in which entities forward messages.

Only the bus knows where a message is: it may be anywhere on the routes from where it
was sent. So this auditor counts. A message that was accepted and not consumed is in
exactly one place, on one of its routes, and has at most one lock; only duplicates are
dropped, and nothing stays in an entity that forwards. Delivery counts, numbers and
expiry are checked in the worlds of queues.
"""

from simulator.audited_message import (
    ACTIVE,
    DEAD,
    DEAD_DEFERRED,
    DEFERRED,
    GONE,
    NEVER,
    AuditedMessage,
    Lock,
    Rules,
    Sent,
)
from simulator.auditor import Auditor
from simulator.judgement import PLACES
from simulator.sighting import Counts, Sighting, Violation

_HERE = {ACTIVE, DEFERRED, DEAD, DEAD_DEFERRED}
_HOPS = 4


class ForwardingAuditor(Auditor):
    """Counts messages wherever they are."""

    def __init__(self) -> None:
        super().__init__()
        # Every forwarding that ever existed: from path to paths.
        self._ways: dict[str, set[str]] = {}
        # Paths that could not be forwarded to at some time.
        self._troubled: set[str] = set()
        # Paths that detect duplicates.
        self._detectors: set[str] = set()
        # In the current comparison: uid to the path where it was seen.
        self._found: dict[str, str] = {}

    # --- ways -----------------------------------------------------------------

    def queue_requested(self, path: str, rules: Rules) -> None:
        super().queue_requested(path, rules)
        self._note_ways(path, rules)

    def update_requested(self, path: str, rules: Rules) -> None:
        super().update_requested(path, rules)
        self._note_ways(path, rules)

    def _note_ways(self, path: str, rules: Rules) -> None:
        targets = {rules.forward_to, rules.forward_dead_letters_to} - {""}
        targets = {_holder(target) for target in targets}
        self._ways.setdefault(path, set()).update(targets)
        if rules.duplicate_window_ms:
            self._detectors.add(path)
        if rules.status != "Active" or rules.requires_session or rules.is_small:
            self._troubled.add(path)

    def deletion_requested(self, path: str) -> None:
        self._troubled.add(path)
        for message in self._judgement.messages.values():
            if path in self._reachable(message.queue.path):
                message.places.add(GONE)
        super().deletion_requested(path)

    def queue_deleted(self, path: str) -> None:
        """Messages that were sent there may have been forwarded before."""
        self._queues.pop(path)

    def _excuse(self, path: str, dead_letter: bool, count: int) -> None:
        """Some messages that may be there were removed; it is unknown which."""
        for message in self._judgement.messages.values():
            if count and path in self._reachable(message.queue.path):
                message.places.add(GONE)

    def _reachable(self, path: str) -> set[str]:
        found, new = {path}, [path]
        while new:
            for target in self._ways.get(new.pop(), set()) - found:
                found.add(target)
                new.append(target)
        return found

    def may_send(self, path: str) -> bool:
        if not self.has_queue(path):
            return False
        return all(rules.status == "Active" for rules in self._queues[path].rules)

    def may_receive(self, path: str, dead_letter: bool) -> bool:
        rules = self._queues[path].rules
        if dead_letter:
            return not any(rule.forward_dead_letters_to for rule in rules)
        return not any(rule.forward_to for rule in rules)

    # --- seeing ---------------------------------------------------------------

    def _known(self, seen: Sighting) -> AuditedMessage:
        message = self._judgement.messages.get(seen.uid)
        if message is None:
            raise Violation(f"nobody sent {seen.uid}")
        if seen.path not in self._reachable(message.queue.path):
            raise Violation(
                f"{seen.uid} was sent to {message.queue.path}; no way leads from "
                f"there to {seen.path}"
            )
        if not message.known_places() & _HERE:
            raise Violation(f"{seen.uid} is in {seen.path} and should not be anywhere")
        self._check_reason(message, seen)
        message.was_seen = True
        return message

    def _check_reason(self, message: AuditedMessage, seen: Sighting) -> None:
        reason = seen.reason
        if reason in (None, "MaxDeliveryCountExceeded") or reason in message.reasons:
            return
        if reason in ("AutoForwardingFailed", "Session ID is null."):
            if self._reachable(message.queue.path) & self._troubled:
                return
        if reason == "MaxTransferHopCountExceeded" and self._has_long_way(message):
            return
        raise Violation(f"{seen.uid} is a dead letter because of {reason!r}")

    def _has_long_way(self, message: AuditedMessage) -> bool:
        ends = {message.queue.path}
        for _ in range(_HOPS + 1):
            ends = {target for path in ends for target in self._ways.get(path, set())}
        return bool(ends)

    def delivered(self, seen: Sighting, token: bytes, locked_until: int) -> None:
        message = self._known(seen)
        lock = message.lock
        if lock is not None and not lock.is_over and not lock.is_settling:
            raise Violation(f"{seen.uid} was delivered while it is locked")
        message.forget_settlements()
        message.places = {PLACES[seen.dead_letter, seen.state]}
        message.touched_event = self.event
        message.lock = Lock(
            token=token,
            locked_until=locked_until,
            place=PLACES[seen.dead_letter, seen.state],
            delivery_count=seen.delivery_count,
        )
        self._locked[token] = message

    def delivered_for_good(self, seen: Sighting) -> None:
        message = self._known(seen)
        message.forget_settlements()
        message.places = {GONE}
        message.lock = None

    def peeked(
        self,
        path: str,
        dead_letter: bool,
        seen: list[Sighting],
        *,
        since: int,
        is_all: bool,
        session_id: str = "",
    ) -> None:
        for one in seen:
            message = self._judgement.messages.get(one.uid)
            if message is None or message.touched_event < since:
                self._known(one)

    def settled(self, token: bytes, uid: str, kind: str, *, asked_at: int) -> None:
        super().settled(token, uid, kind, asked_at=asked_at)
        message = self._judgement.messages[uid]
        if kind != "complete" and message.places & _HERE:
            message.places |= _HERE

    def settle_refused(
        self, token: bytes, uid: str, kind: str, *, lock_lost: bool
    ) -> None:
        # The entity where it is locked may have been deleted.
        is_sure = GONE not in self._judgement.messages[uid].places
        super().settle_refused(token, uid, kind, lock_lost=lock_lost and is_sure)

    def renew_refused(self, token: bytes, uid: str) -> None:
        if GONE not in self._judgement.messages[uid].places:
            super().renew_refused(token, uid)

    def settle_unknown(self, token: bytes, uid: str) -> None:
        super().settle_unknown(token, uid)
        self._judgement.messages[uid].places |= _HERE

    def send_requested(self, uid: str, path: str, sent: Sent) -> None:
        super().send_requested(uid, _holder(path), sent)

    # --- the end --------------------------------------------------------------

    def drained(self, path: str, dead_letter: bool) -> None:
        """What is left is checked when everything is compared."""

    def concluded(self, path: str, seen: list[Sighting], counts: Counts) -> None:
        for one in seen:
            self._known(one)
            elsewhere = self._found.setdefault(one.uid, path)
            if elsewhere != path or [o.uid for o in seen].count(one.uid) > 1:
                raise Violation(f"{one.uid} is in {elsewhere} and in {path}")
            if not one.dead_letter and one.state == "active":
                self._check_not_stuck(one)
        self._check_counts(path, seen, counts)

    def _check_not_stuck(self, seen: Sighting) -> None:
        if self._queues[seen.path].requires_session:
            return  # Sessions are not forwarded.
        rules = self._queues[seen.path].rules
        targets = {rule.forward_to and _holder(rule.forward_to) for rule in rules}
        if "" not in targets and not targets & self._troubled:
            raise Violation(f"{seen.uid} waits in {seen.path}, which forwards")

    def all_concluded(self) -> None:
        found, self._found = self._found, {}
        for message in self._judgement.messages.values():
            if message.uid in found:
                continue
            if message.known_places() & {GONE, NEVER}:
                continue
            if not self._may_be_duplicate(message):
                raise Violation(f"{message.uid} is nowhere")

    def _may_be_duplicate(self, message: AuditedMessage) -> bool:
        """On its route it could meet an older message with the same id."""
        mine = self._detecting(message)
        if message.message_id and any(self._leads_back(path) for path in mine):
            return True
        return bool(message.message_id) and any(
            other.message_id == message.message_id
            and other is not message
            and not other.was_refused
            and (other.was_seen or other.known_places() & {GONE})
            and self._detecting(other) & mine
            for other in self._judgement.messages.values()
        )

    def _leads_back(self, path: str) -> bool:
        """A message that goes in a circle returns to where its id is known."""
        targets = self._ways.get(path, set())
        return any(path in self._reachable(target) for target in targets)

    def _detecting(self, message: AuditedMessage) -> set[str]:
        """Paths on its routes that detect duplicates, or did."""
        return self._reachable(message.queue.path) & self._detectors


def _holder(path: str) -> str:
    """Where messages for an entity are: the topic has one subscription here."""
    return f"{path}/Subscriptions/a" if path == "news" else path
