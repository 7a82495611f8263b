"""The auditor: judges a bus by the requests of its clients and the replies.

It gets requests, replies, deliveries, the clock, and at the end the content of all
queues. From these it computes where each message may be, and raises `Violation` if
something happens that no correct bus would do:

- an accepted message is never lost, a refused one never appears, one of unknown
  outcome appears at most once, a completed one never returns;
- a message has at most one live lock, which is valid until its end;
- the delivery count never falls, rises only by abandoning and by locks running out,
  and at the limit the message is dead-lettered with the right reason;
- sequence numbers are unique, never change, rise in the order of acceptance and of
  first delivery; the enqueued time never goes back along them;
- nothing is delivered after its expiry or before its schedule, nothing disappears
  before its expiry; deferred messages can be received by their numbers;
- counters are right; peeking shows what exists.

A crash or a failed commit ends all locks. That is part of the contract.
"""

from collections.abc import Iterable
from dataclasses import replace

from simulator.audited_message import (
    ACTIVE,
    DEAD,
    DEAD_DEFERRED,
    DEAD_PLACES,
    DEFERRED,
    GONE,
    MAIN_PLACES,
    NEVER,
    SCHEDULED,
    AuditedMessage,
    AuditedQueue,
    Lock,
    Rules,
    Sent,
)
from simulator.history import History
from simulator.judgement import PLACES, Judgement, text_of
from simulator.session_audit import SessionAudit
from simulator.shared_fate import Member, SharedFate
from simulator.sighting import Counts, Sighting, Violation
from simulator.topic_audit import AuditedRule, TopicAudit


class Auditor:
    """Knows only requests and replies."""

    def __init__(self) -> None:
        self._history = History()
        self._judgement = Judgement(self._history)
        # The current life of each path that may exist.
        self._queues: dict[str, AuditedQueue] = {}
        # Queues whose creation was not confirmed.
        self._unsure: dict[str, AuditedQueue] = {}
        # Messages with a lock that is not over, by token.
        self._locked: dict[bytes, AuditedMessage] = {}
        self.sessions = SessionAudit(
            self._history, self._judgement, self._queues, self._locked
        )
        self.topics = TopicAudit(self._history, self._judgement, self._queues)

    @property
    def event(self) -> int:
        """The number of the current event."""
        return self._history.event

    # --- time -----------------------------------------------------------------

    def tell_time(self, now: int) -> None:
        """The clock at the time of an event."""
        self._history.tell(now)
        self.sessions.tell_time(now)
        for token, message in list(self._locked.items()):
            lock = message.lock
            if lock is not None and lock.token == token and lock.locked_until <= now:
                self._end(message, lock)

    def _end(self, message: AuditedMessage, lock: Lock) -> None:
        """The lock's time has passed: the delivery counts, if the bus has noticed."""
        del self._locked[lock.token]
        lock.is_over = True
        if not lock.is_settling:
            message.count_high += lock.counted

    # --- faults ---------------------------------------------------------------

    def locks_lost(self) -> None:
        """The bus crashed, or a commit failed: all locks are lost."""
        for message in self._judgement.messages.values():
            message.lock = None
        self._locked.clear()
        self.sessions.all_lost()
        for queue in self._queues.values():
            queue.delivered_through = [0, 0]

    def taker_joined(self, path: str, dead_letter: bool) -> None:
        """From now on a client removes messages and reports it later: by
        receive-and-delete, or by batch delete."""
        self._queues[path].taker_count[dead_letter] += 1

    def taker_left(self, path: str, dead_letter: bool, count: int) -> None:
        """This has ended; it may have removed `count` messages without a report."""
        queue = self._queues.get(path)
        if queue is not None and queue.taker_count[dead_letter] > 0:
            queue.taker_count[dead_letter] -= 1
            self._excuse(path, dead_letter, count)

    def _excuse(self, path: str, dead_letter: bool, count: int) -> None:
        """`count` messages of the sub-queue may be gone; it is unknown which."""
        queue = self._queues.get(path)
        if queue is None or count == 0:
            return
        queue.excused_count[dead_letter] += count
        place = DEAD if dead_letter else ACTIVE
        for message in self._judgement.messages.values():
            if message.queue is queue and place in self._judgement.may_be_at(message):
                if not message.places & {GONE, NEVER}:
                    message.is_excused = True
                message.places.add(GONE)
                message.touched_event = self.event

    # --- queues ---------------------------------------------------------------

    def queue_requested(self, path: str, rules: Rules) -> None:
        self._unsure[path] = AuditedQueue(path=path, rules=[rules])

    def subscription_requested(
        self, path: str, rules: Rules, topic_rules: list[AuditedRule]
    ) -> None:
        self.queue_requested(path, rules)
        self._unsure[path].topic_rules = topic_rules

    def queue_created(self, path: str) -> None:
        queue = self._queues[path] = self._unsure.pop(path)
        queue.created_event = self.event
        for rule in queue.topic_rules:
            rule.is_from = self.event

    def queue_refused(self, path: str) -> None:
        self._unsure.pop(path)

    def update_requested(self, path: str, rules: Rules) -> None:
        self._queues[path].rules.append(rules)

    def updated_rules(self, path: str, rules: Rules) -> Rules:
        """These rules, without those that cannot change."""
        first = self._queues[path].rules[0]
        return replace(
            rules,
            requires_session=first.requires_session,
            duplicate_window_ms=first.duplicate_window_ms,
            is_small=first.is_small,
        )

    def deletion_requested(self, path: str) -> None:
        queue = self._queues[path]
        queue.is_ending = True
        for message in self._judgement.of(queue):
            message.places.add(GONE)
            message.is_excused = False
            message.touched_event = self.event

    def queue_deleted(self, path: str) -> None:
        queue = self._queues.pop(path)
        for message in self._judgement.of(queue):
            message.places = {GONE}
            message.touched_event = self.event

    def queues_listed(self, paths: Iterable[str]) -> None:
        """After a start: the queues that exist."""
        listed = set(paths)
        for path in listed - set(self._queues):
            if path not in self._unsure:
                raise Violation(f"queue {path} exists and nobody made it")
            self.queue_created(path)
        for path, queue in list(self._queues.items()):
            if path in listed:
                queue.is_ending = False
            elif queue.is_ending:
                self.queue_deleted(path)
            else:
                raise Violation(f"queue {path} was created and is not there")
        self._unsure.clear()

    def has_queue(self, path: str) -> bool:
        queue = self._queues.get(path)
        return queue is not None and not queue.is_ending

    def is_ending(self, path: str) -> bool:
        return path in self._queues and self._queues[path].is_ending

    def may_create(self, path: str) -> bool:
        return path not in self._queues and path not in self._unsure

    def paths(self) -> list[str]:
        return sorted(self._queues)

    # --- sending --------------------------------------------------------------

    def send_requested(self, uid: str, path: str, sent: Sent) -> None:
        if path not in self._queues and self.topics.has_topic(path):
            self.topics.send_requested(uid, path, sent)
            return
        is_later = sent.scheduled_at > self._history.now
        message = AuditedMessage(
            uid=uid,
            queue=self._queues[path],
            size_bytes=sent.size_bytes,
            ttl_ms=sent.ttl_ms,
            scheduled_at=sent.scheduled_at if is_later else 0,
            wished_at=0 if is_later else sent.scheduled_at,
            session_id=sent.session_id,
            message_id=sent.message_id,
            sent_at=self._history.now,
            sent_event=self.event,
        )
        self._judgement.messages[uid] = message
        place = SCHEDULED if is_later else ACTIVE
        message.begin("send", frozenset((place,)))

    def send_accepted(self, uid: str, sequence_number: int | None = None) -> None:
        if self.topics.knows_send(uid):
            copies = self.topics.answered(uid, is_accepted=True)
            for identity in copies.certain:
                self.send_accepted(identity)
            for identity in copies.possible:
                self.send_unknown(identity)
            return
        message = self._touched(uid)
        message.accepted_event = self.event
        self._perhaps_scheduled(message)
        duplicates = self._judgement.duplicates
        duplicates.answered(message)
        if message.queue.is_ending or message.queue is not self._queues.get(
            message.queue.path
        ):
            message.may_have_happened("send")
            message.places.add(GONE)
            return
        if message.places <= {NEVER, GONE}:
            message.may_have_happened("send")
            if sequence_number or not duplicates.may_be_dropped(message):
                message.places.discard(NEVER)
        else:
            message.did_not_happen("send")
        if sequence_number == 0:
            duplicates.dropped(message)
        elif sequence_number is not None:
            duplicates.check_seen(message)
            group = "scheduled" if message.scheduled_at else "main"
            self._judgement.check_number(message, group, sequence_number)

    def send_refused(self, uid: str) -> None:
        if self.topics.knows_send(uid):
            self.topics.send_refused(uid)
            return
        message = self._touched(uid)
        if not message.places <= {NEVER, GONE}:
            raise Violation(f"{uid} was seen before its send was refused")
        message.did_not_happen("send")
        message.was_refused = True

    def send_unknown(self, uid: str) -> None:
        if self.topics.knows_send(uid):
            self.commit_unknown([uid], [])
            return
        message = self._touched(uid)
        self._perhaps_scheduled(message)
        message.may_have_happened("send")
        self._judgement.duplicates.answered(message)

    def _perhaps_scheduled(self, message: AuditedMessage) -> None:
        """The clock may have been set back before the bus processed the message."""
        message.sent_at = min(message.sent_at, self._history.now)
        if message.wished_at > self._history.now and "send" in message.under_way:
            message.scheduled_at = message.wished_at
            message.begin("send", frozenset((ACTIVE, SCHEDULED)))

    def cancel_requested(self, uid: str) -> None:
        self._touched(uid).begin("cancel", frozenset((GONE,)))

    def cancelled(self, uid: str) -> None:
        message = self._touched(uid)
        if SCHEDULED not in self._judgement.may_be_at(message):
            raise Violation(f"{uid} was cancelled while {text_of(message.places)}")
        message.happened("cancel")

    def cancel_refused(self, uid: str, *, not_found: bool) -> None:
        message = self._touched(uid)
        message.did_not_happen("cancel")
        if not_found and self._judgement.may_be_at(message) == {SCHEDULED}:
            raise Violation(f"{uid} is scheduled and could not be cancelled")

    def cancel_unknown(self, uid: str) -> None:
        self._touched(uid).may_have_happened("cancel")

    def _touched(self, uid: str) -> AuditedMessage:
        message = self._judgement.messages[uid]
        message.touched_event = self.event
        return message

    # --- seeing ---------------------------------------------------------------

    def delivered(self, seen: Sighting, token: bytes, locked_until: int) -> None:
        """A client got a message under a lock."""
        message = self._judgement.known(seen)
        lock = message.lock
        if lock is not None and not lock.is_over and not lock.is_settling:
            raise Violation(
                f"{seen.uid} was delivered while its lock lasts until "
                f"{lock.locked_until}, now is {self._history.now}"
            )
        if lock is not None and not lock.is_settling:
            low = lock.delivery_count + lock.counted
            message.count_low = max(message.count_low, low)
        self._judgement.check(message, seen)
        message.forget_settlements()
        self._judgement.check_expiry(message, seen)
        if message.queue.requires_session and not seen.dead_letter:
            self.sessions.check_delivery(message, seen, locked_until)
        else:
            self._judgement.check_order_of_delivery(message, seen)
            self._check_duration(message, locked_until)
        if seen.delivery_count >= message.queue.highest_limit() and not (
            seen.dead_letter
        ):
            raise Violation(f"{seen.uid} was delivered beyond the delivery limit")
        message.lock = Lock(
            token=token,
            locked_until=locked_until,
            place=PLACES[seen.dead_letter, seen.state],
            delivery_count=seen.delivery_count,
        )
        message.was_delivered = True
        message.count_low = message.count_high = seen.delivery_count
        self._locked[token] = message

    def _check_duration(self, message: AuditedMessage, locked_until: int) -> None:
        durations = {rules.lock_duration_ms for rules in message.queue.rules}
        if locked_until - self._history.now not in durations:
            raise Violation(
                f"the lock of {message.uid} lasts {locked_until - self._history.now}"
            )

    def delivered_for_good(self, seen: Sighting) -> None:
        """A client got a message that was removed."""
        message = self._judgement.known(seen)
        lock = message.lock
        if lock is not None and not lock.is_over and not lock.is_settling:
            raise Violation(f"{seen.uid} was given away while somebody has its lock")
        self._judgement.check(message, seen)
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
        """The result of a peek that was requested at event `since`."""
        for one in seen:
            message = self._judgement.known(one)
            if message.touched_event < since:
                self._judgement.check(message, one)
        queue = self._queues.get(path)
        if not is_all or queue is None or queue.is_ending:
            return
        if queue.taker_count[dead_letter] > 0:
            return
        shown = {one.uid for one in seen}
        places = DEAD_PLACES if dead_letter else MAIN_PLACES
        for message in self._judgement.of(queue):
            may_be_at = self._judgement.may_be_at(message)
            if session_id and message.session_id != session_id:
                if message.uid in shown:
                    raise Violation(f"{message.uid} is not of session {session_id}")
                continue
            if (
                message.uid not in shown
                and message.touched_event < since
                and may_be_at <= places
            ):
                raise Violation(f"{message.uid} is {text_of(may_be_at)}, peek hid it")

    # --- settling -------------------------------------------------------------

    def settle_requested(
        self, token: bytes, uid: str, kind: str, reason: str | None
    ) -> None:
        message = self._touched(uid)
        lock = message.lock
        message.settling[token] = lock if lock and lock.token == token else None
        if lock is not None and lock.token == token:
            lock.is_settling = True
        if kind == "abandon":
            message.count_high += _counted(message.settling[token])
        if kind == "dead-letter":
            message.reasons.add(reason)
        places = self._places_after(message, kind)
        message.begin(f"settle {token.hex()}", frozenset(places))

    def _places_after(self, message: AuditedMessage, kind: str) -> set[str]:
        # Without a lock it has no effect, wherever the message is.
        here = message.lock.place if message.lock is not None else ACTIVE
        if kind == "complete":
            return {GONE}
        if kind == "dead-letter":
            return {DEAD_DEFERRED if here == DEAD_DEFERRED else DEAD}
        if kind == "defer":
            return {DEAD_DEFERRED if here in DEAD_PLACES else DEFERRED}
        if kind == "abandon" and here in (ACTIVE, DEFERRED):
            if message.count_high >= message.queue.lowest_limit():
                return {here, DEAD}
        return {here}

    def settled(self, token: bytes, uid: str, kind: str, *, asked_at: int) -> None:
        """The settlement was confirmed."""
        message = self._touched(uid)
        if token not in message.settling:
            return
        lock = message.settling.pop(token)
        message.happened(f"settle {token.hex()}")
        if kind == "abandon":
            message.count_low += _counted(lock)
        if lock is None:
            raise Violation(f"{uid} was settled with a lock that is not its own")
        if asked_at >= lock.locked_until:
            raise Violation(f"{uid} was settled after the end of its lock")
        self._forget_lock(message, token)
        if message.queue.is_ending:
            message.places.add(GONE)

    def settle_refused(
        self, token: bytes, uid: str, kind: str, *, lock_lost: bool
    ) -> None:
        """The settlement did not happen."""
        message = self._touched(uid)
        if token not in message.settling:
            return
        settling = message.settling.pop(token)
        message.did_not_happen(f"settle {token.hex()}")
        if kind == "abandon":
            message.count_high -= _counted(settling)
        lock = message.lock
        if lock is None or lock.token != token:
            return
        lock.is_settling = False
        if lock.is_over:
            message.count_high += lock.counted
        if lock_lost and not lock.is_over and not message.queue.is_ending:
            raise Violation(
                f"the lock of {uid} lasts until {lock.locked_until} and was refused "
                f"at {self._history.now}"
            )

    def settle_unknown(self, token: bytes, uid: str) -> None:
        message = self._touched(uid)
        if token in message.settling:
            del message.settling[token]
            message.may_have_happened(f"settle {token.hex()}")
            self._forget_lock(message, token)

    def _forget_lock(self, message: AuditedMessage, token: bytes) -> None:
        self._locked.pop(token, None)
        if message.lock is not None and message.lock.token == token:
            message.lock = None

    def renewed(self, token: bytes, uid: str, locked_until: int) -> None:
        message = self._touched(uid)
        lock = message.lock
        if lock is None:
            return
        if lock.token != token or self._history.now >= lock.locked_until:
            raise Violation(f"a lock of {uid} that is over was renewed")
        # The clock may have been set back before the bus ended the lock.
        lock.is_over = False
        lock.locked_until = locked_until
        self._locked[token] = message

    def renew_refused(self, token: bytes, uid: str) -> None:
        message = self._judgement.messages[uid]
        lock = message.lock
        if lock is None or lock.token != token or message.queue.is_ending:
            return
        if not lock.is_over and not lock.is_settling:
            raise Violation(f"the live lock of {uid} could not be renewed")

    # --- transactions ---------------------------------------------------------

    def knows_queue(self, path: str) -> bool:
        return path in self._queues or self.topics.has_topic(path)

    def knows_message(self, uid: str) -> bool:
        return uid in self._judgement.messages or self.topics.knows_send(uid)

    def commit_refused(self, tokens: list[tuple[bytes, str]]) -> None:
        """A transaction was rolled back because one of these locks was lost."""
        for token, uid in tokens:
            message = self._judgement.messages[uid]
            lock = message.lock
            is_lost = lock is None or lock.token != token or lock.is_over
            if is_lost or message.queue.is_ending:
                return
        raise Violation(f"the locks of {[uid for _, uid in tokens]} are all held")

    def commit_unknown(
        self, uids: list[str], settlements: list[tuple[bytes, str, str]]
    ) -> None:
        """A commit was requested, and its outcome is unknown."""
        fate = SharedFate()
        for uid in self._with_copies(uids):
            if self.knows_message(uid):
                message = self._touched(uid)
                before = frozenset(message.places)
                self.send_unknown(uid)
                self._share(fate, message, before, True)
        for token, uid, kind in settlements:
            message = self._touched(uid)
            before = frozenset(message.places)
            self.settle_unknown(token, uid)
            if_seen = False if kind == "complete" else None
            self._share(fate, message, before, if_seen)

    def _with_copies(self, uids: list[str]) -> list[str]:
        """The copies of messages for topics that must exist if any copy does."""
        found: list[str] = []
        for uid in uids:
            if not self.topics.knows_send(uid):
                found.append(uid)
                continue
            for identity in self.topics.answered(uid, is_accepted=False).possible:
                if self._judgement.messages[identity].is_certain_copy:
                    found.append(identity)
                else:
                    self.send_unknown(identity)
        return found

    def _share(
        self,
        fate: SharedFate,
        message: AuditedMessage,
        before: frozenset[str],
        if_seen: bool | None,
    ) -> None:
        after = frozenset(message.places) - before
        # A member that cannot have moved, or was a duplicate, proves nothing.
        if after and not message.under_way and not message.maskers:
            member = Member(
                message=message, before=before, after=after, if_seen=if_seen
            )
            fate.add(member)

    # --- deferred -------------------------------------------------------------

    def take_deferred_requested(self, uid: str) -> None:
        """A client requests a deferred message in receive-and-delete mode."""
        self._touched(uid).begin("take", frozenset((GONE,)))

    def take_deferred_ended(self, uid: str, *, is_unknown: bool) -> None:
        message = self._touched(uid)
        if is_unknown:
            message.may_have_happened("take")
        else:
            message.did_not_happen("take")

    def deferred_not_found(
        self, uids: Iterable[str], session_id: str | None, *, since: int
    ) -> None:
        """A request for several deferred messages failed, because one did not exist or
        was in another session."""
        messages = [self._judgement.messages[uid] for uid in uids]
        if not any(
            self._may_be_absent(message, since)
            or (session_id is not None and message.session_id != session_id)
            for message in messages
        ):
            raise Violation(f"deferred {', '.join(uids)} could not be had by number")

    def _may_be_absent(self, message: AuditedMessage, since: int) -> bool:
        if message.touched_event >= since or message.queue.is_ending:
            return True
        lock = message.lock
        is_locked = lock is not None and not lock.is_settling
        return is_locked or not self._judgement.may_be_at(message) <= {
            DEFERRED,
            DEAD_DEFERRED,
        }

    # --- what a client would remember ------------------------------------------

    def known_numbers(
        self, group: str, *, deferred: bool = False
    ) -> list[tuple[str, str, int]]:
        """Path, uid and number of messages that may be requested."""
        place = SCHEDULED
        if deferred:
            place = DEAD_DEFERRED if group == "dead" else DEFERRED
        return [
            (message.queue.path, message.uid, message.sequence_numbers[group])
            for message in self._judgement.messages.values()
            if group in message.sequence_numbers
            and place in message.places
            and not message.under_way
            and self.has_queue(message.queue.path)
            and self._queues[message.queue.path] is message.queue
        ]

    def session_of(self, uid: str) -> str | None:
        """The session of a message, if sessions are required."""
        message = self._judgement.messages[uid]
        return message.session_id if message.queue.requires_session else None

    def is_settling(self, token: bytes, uid: str) -> bool:
        return token in self._judgement.messages[uid].settling

    # --- the end --------------------------------------------------------------

    def drained(self, path: str, dead_letter: bool) -> None:
        """A receiver took all it could: no message that must be there may be left."""
        place = DEAD if dead_letter else ACTIVE
        for message in self._judgement.of(self._queues[path]):
            if self._judgement.may_be_at(message) == {place} and message.lock is None:
                raise Violation(f"{message.uid} is {place} and cannot be received")

    def concluded(self, path: str, seen: list[Sighting], counts: Counts) -> None:
        """The content of a queue and its dead letters, after all requests."""
        uids = [one.uid for one in seen]
        if len(set(uids)) < len(uids):
            raise Violation(f"{path} holds a message twice: {sorted(uids)}")
        for one in seen:
            self._judgement.check(self._judgement.known(one), one)
        self._judgement.check_missing(self._queues[path], set(uids))
        self._check_counts(path, seen, counts)

    def _check_counts(self, path: str, seen: list[Sighting], counts: Counts) -> None:
        uids = [one.uid for one in seen]
        size_bytes = sum(self._judgement.messages[uid].size_bytes for uid in uids)
        if counts.size_bytes - size_bytes in self.sessions.state_sizes(path):
            size_bytes = counts.size_bytes
        held = Counts(
            active=_count(seen, False, "active"),
            deferred=_count(seen, False, "deferred"),
            scheduled=_count(seen, False, "scheduled"),
            dead_letter=_count(seen, True, "active") + _count(seen, True, "deferred"),
            size_bytes=size_bytes,
        )
        if held != counts:
            raise Violation(f"{path} says it holds {counts}, it holds {held}")

    def all_concluded(self) -> None:
        """Called after every queue was concluded."""

    def is_small(self, path: str) -> bool:
        return self._queues[path].rules[0].is_small

    def may_send(self, path: str) -> bool:
        """True if it accepts messages, as far as a client knows."""
        return self.has_queue(path)

    def may_receive(self, path: str, dead_letter: bool) -> bool:
        """True unless the sub-queue's messages are forwarded."""
        return True


def _counted(lock: Lock | None) -> int:
    return 1 if lock is None else lock.counted


def _count(seen: list[Sighting], dead_letter: bool, state: str) -> int:
    return sum(one.dead_letter == dead_letter and one.state == state for one in seen)
