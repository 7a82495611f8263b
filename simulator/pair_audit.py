"""Judges a world of pairs, by the replies to applications and by the final content.

In these worlds nobody receives, and expired messages are dead-lettered, so that every
copy that was ever visible is found at the end. For each message it is known who sent
it, when, with what properties, and the reply. From this follows:

- accepted: exists once, as it was sent, not before its scheduled time, and
  dead-lettered only after its whole time to live;
- cancelled: does not exist; failed, or the process ended: exists at most once;
- a send fails only if there was trouble on the way, and within its time-out;
- messages of one application to a session are in order, if that is promised;
- only poison messages are left in the backlog.

It shares no code with the pair.
"""

from dataclasses import dataclass, field

from simulator.pair_message import PairMessage, Seen
from simulator.pair_troubles import BAD_STORE, STEADY, Troubles
from simulator.pair_wire import BUSY
from simulator.sighting import Violation

_GRACE_MS = 100
"""Tolerance between the end of a time-out and its notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What the settings of a world's pairs promise."""

    failover_interval_ms: int
    attempt_timeout_ms: int
    busy_wait_ms: int
    backlog_retry_ms: int
    ping_interval_ms: int
    keeps_order: bool
    waits: bool


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of an application, and its result."""

    path: str
    timeout_ms: int
    asked_at: int
    uids: list[str]
    # "asked", "accepted", "failed" or "unknown".
    state: str = "asked"
    ended_at: int = 0


@dataclass(slots=True, kw_only=True)
class Sent:
    """One message, as its application knows it."""

    message: PairMessage
    path: str
    call: Call
    # By the clock of the primary: when the application called, and when it is due.
    primary_asked_at: int
    due_at: int | None
    # "", "asked", "cancelled" or "unknown".
    cancelling: str = ""
    cancel_asked_at: int = 0


@dataclass(slots=True)
class PairAuditor:
    """All that is known of one world."""

    troubles: Troubles
    promises: Promises
    sent: dict[str, Sent] = field(default_factory=dict)
    # Messages that cannot be restored; the world sent them.
    poison: set[str] = field(default_factory=set)
    # Messages that a syphon received at least once.
    received: set[str] = field(default_factory=set)
    # If clocks jump, the lifetime of a message cannot be judged.
    clocks_jump: bool = False
    # A restarted process may not know what an earlier one left in the backlog.
    order_is_void: bool = False

    # --- what applications do -----------------------------------------------------

    def asked(
        self,
        path: str,
        messages: list[PairMessage],
        timeout_ms: int,
        now: int,
        due_at: int | None,
    ) -> Call:
        uids = [message.uid for message in messages]
        call = Call(
            path=path, timeout_ms=timeout_ms, asked_at=self.troubles.now(), uids=uids
        )
        for message in messages:
            self.sent[message.uid] = Sent(
                message=message,
                path=path,
                call=call,
                primary_asked_at=now,
                due_at=message.scheduled_at if due_at is None else due_at,
            )
        return call

    def ended(self, call: Call, state: str, error: Exception | None = None) -> None:
        """The call was accepted, failed, or ended with its process."""
        call.state, call.ended_at = state, self.troubles.now()
        took_ms = call.ended_at - call.asked_at
        if state != "unknown" and took_ms > call.timeout_ms + _GRACE_MS:
            raise Violation(
                f"a send to {call.path} had {call.timeout_ms} ms and took {took_ms}"
            )
        if state == "failed" and not self._may_fail(call):
            raise Violation(
                f"a send to {call.path} of {call.timeout_ms} ms failed after "
                f"{took_ms} ms, and nothing was in its way: {error!r}"
            )
        if state == "accepted" and self._is_late(call):
            raise Violation(
                f"a send to {call.path} took {took_ms} ms, and a failover only "
                f"{self.promises.failover_interval_ms}"
            )

    def _may_fail(self, call: Call) -> bool:
        """The primary had trouble, and either the time was too short for a failover, or
        the secondary had trouble, too."""
        promises = self.promises
        wrong = self.troubles.of("primary", call.path, call.asked_at, call.ended_at)
        if any(trouble.kind in (BUSY, BAD_STORE) for trouble in wrong):
            return True
        if (wrong and not promises.waits) or self._both_away(call):
            return True
        if call.ended_at - call.asked_at < call.timeout_ms - _GRACE_MS:
            return False
        enough_ms = promises.failover_interval_ms + 2 * promises.attempt_timeout_ms
        if call.timeout_ms <= enough_ms:
            return bool(wrong)
        # Each attempt may fail, and each success of another send starts over.
        return any(trouble.kind not in STEADY for trouble in wrong)

    def _both_away(self, call: Call) -> bool:
        """The secondary had trouble, and the primary too, at the same time or shortly
        before: an entity is back only after a ping, and a session only after its
        backlog."""
        promises, last = self.promises, call.ended_at
        attempt_ms = promises.attempt_timeout_ms
        back_ms = promises.failover_interval_ms + promises.ping_interval_ms
        recently = call.asked_at - 2 * (back_ms + 2 * attempt_ms)
        if promises.keeps_order:
            recently = 0
        pause_ms = max(promises.backlog_retry_ms, promises.busy_wait_ms)
        earlier = call.asked_at - pause_ms - attempt_ms
        return bool(
            self.troubles.of("primary", call.path, recently, last)
            and self.troubles.anywhere("secondary", earlier, last)
        )

    def _is_late(self, call: Call) -> bool:
        """The primary was not reachable, the secondary was fine, and still the call
        took longer than one attempt and one failover interval."""
        promises = self.promises
        most_ms = promises.failover_interval_ms + promises.attempt_timeout_ms
        first, last = call.asked_at, call.ended_at
        if last - first <= most_ms + 1_000 or promises.keeps_order:
            return False
        wrong = self.troubles.of("primary", call.path, first - most_ms, last)
        earlier = first - promises.backlog_retry_ms - promises.attempt_timeout_ms
        return all(trouble.kind in STEADY for trouble in wrong) and not (
            self.troubles.anywhere("secondary", earlier, last)
        )

    def cancel_asked(self, uid: str) -> None:
        self.sent[uid].cancelling = "asked"
        self.sent[uid].cancel_asked_at = self.troubles.now()

    def cancel_ended(self, uid: str, state: str, timeout_ms: int, now: int) -> None:
        """A message that a syphon has received, or that is due and may be active on the
        primary, may not be cancelled."""
        sent = self.sent[uid]
        took_ms = self.troubles.now() - sent.cancel_asked_at
        if took_ms > timeout_ms + _GRACE_MS:
            raise Violation(f"cancelling {uid} had {timeout_ms} ms and took {took_ms}")
        if uid in self.received or (sent.due_at or 0) <= now:
            state = "unknown"
        sent.cancelling = state

    # --- the final content ------------------------------------------------------------

    def judge(self, on_primary: list[Seen], in_backlog: list[Seen]) -> None:
        """Raises Violation."""
        self._judge_backlog(in_backlog)
        copies: dict[str, list[Seen]] = {}
        for seen in on_primary:
            copies.setdefault(seen.message.uid, []).append(seen)
        for uid in copies:
            if uid not in self.sent:
                raise Violation(f"nobody sent {uid}")
        for uid, sent in self.sent.items():
            self._judge_count(sent, len(copies.get(uid, ())))
            for seen in copies.get(uid, ()):
                self._judge_copy(sent, seen)
        if self.promises.keeps_order and not self.order_is_void:
            self._judge_order(copies)

    def _judge_backlog(self, in_backlog: list[Seen]) -> None:
        for seen in in_backlog:
            uid = seen.message.uid
            if uid not in self.poison:
                where = "dead letters of the backlog" if seen.dead_letter else "backlog"
                raise Violation(f"{uid} was left in the {where}, in {seen.path}")
            if not seen.dead_letter:
                raise Violation(f"poison {uid} was left in {seen.path}")
        if len(in_backlog) != len(self.poison):
            raise Violation("poison was lost")

    def _judge_count(self, sent: Sent, count: int) -> None:
        uid = sent.message.uid
        if count > 1:
            raise Violation(f"{uid} is there {count} times")
        if sent.cancelling == "cancelled" and count == 1:
            raise Violation(f"{uid} was cancelled, and is there")
        must_be = sent.call.state == "accepted" and sent.cancelling == ""
        if must_be and count == 0:
            raise Violation(f"{uid} was accepted, and is lost")

    def _judge_copy(self, sent: Sent, seen: Seen) -> None:
        meant, found = sent.message, seen.message
        path = seen.path.partition("/Subscriptions/")[0]
        if path != sent.path:
            raise Violation(f"{meant.uid} was sent to {sent.path} and is in {path}")
        own, ttl_ms = dict(found.properties), found.ttl_ms
        if seen.dead_letter:
            self._judge_expiry(sent, seen)
            ttl_ms = meant.ttl_ms
            for name in ("DeadLetterReason", "DeadLetterErrorDescription"):
                own.pop(name)
        for name, was, now in (
            ("session", meant.session_id, found.session_id),
            # The bus adds an id to a message that has none.
            ("message id", meant.message_id or found.message_id, found.message_id),
            ("time to live", meant.ttl_ms, ttl_ms),
            ("properties", meant.properties, own),
        ):
            if was != now:
                raise Violation(f"{name} of {meant.uid} was {was!r} and is {now!r}")
        if found.message_id is None:
            raise Violation(f"{meant.uid} has no message id")
        if not seen.dead_letter and seen.enqueued_at < (sent.due_at or 0):
            raise Violation(f"{meant.uid} was there before its time")

    def _judge_expiry(self, sent: Sent, seen: Seen) -> None:
        uid, ttl_ms = sent.message.uid, sent.message.ttl_ms
        reason = seen.message.properties["DeadLetterReason"]
        if reason != "TTLExpiredException" or ttl_ms is None:
            raise Violation(f"{uid} is a dead letter: {reason}")
        lived_ms = seen.enqueued_at - sent.primary_asked_at
        if lived_ms < ttl_ms and not self.clocks_jump:
            raise Violation(f"{uid} expired after {lived_ms} ms of {ttl_ms}")

    def _judge_order(self, copies: dict[str, list[Seen]]) -> None:
        last: dict[tuple[str, str], tuple[int, str]] = {}
        for uid, sent in self.sent.items():
            message, found = sent.message, copies.get(uid, [])
            if (
                message.session_id is None
                or sent.due_at is not None
                or message.ttl_ms is not None
                or sent.call.state != "accepted"
            ):
                continue
            number = found[0].number
            key = (sent.path, message.session_id)
            before, earlier = last.get(key, (0, ""))
            if number < before:
                raise Violation(
                    f"{uid} of session {message.session_id} was sent after {earlier} "
                    "and is before it"
                )
            last[key] = (number, uid)
