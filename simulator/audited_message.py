"""What may have become of one message, as far as a client can tell.

The auditor never looks into the bus. Of each message it keeps the set of places
where it could be: a request that is under way adds places, its reply leaves one, a
crash before the reply leaves both. Seeing the message leaves the place where it was
seen. A bus that is right never shows a message in a place outside the set.

Shares no code with the bus, on purpose: the same mistake must not be made twice.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.session_audit import AuditedSession, AuditedState
    from simulator.shared_fate import SharedFate
    from simulator.topic_audit import AuditedRule

NEVER = "never accepted"
ACTIVE = "active"
DEFERRED = "deferred"
SCHEDULED = "scheduled"
DEAD = "dead-lettered"
DEAD_DEFERRED = "dead-lettered and deferred"
GONE = "gone"

MAIN_PLACES = frozenset((ACTIVE, DEFERRED, SCHEDULED))
DEAD_PLACES = frozenset((DEAD, DEAD_DEFERRED))


@dataclass(slots=True, kw_only=True)
class Lock:
    """A peek-lock that a client was given."""

    token: bytes
    locked_until: int
    # Where the message was, and its delivery count, when the lock was given.
    place: str
    delivery_count: int
    # Its time has passed; the message may have been handed to somebody else.
    is_over: bool = False
    # A settlement was asked for, and not refused.
    is_settling: bool = False
    # A reader asked for the lease of its queue since, and may have got it.
    may_be_revoked: bool = False

    @property
    def counted(self) -> int:
        """What a delivery without a result adds to the count: to that of a dead letter
        nothing."""
        return 0 if self.place in DEAD_PLACES else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a sender says of a message."""

    size_bytes: int
    ttl_ms: int = 0
    scheduled_at: int = 0
    # Empty: none.
    session_id: str = ""
    message_id: str = ""
    # What rules of subscriptions look at, and how much an action adds to the size,
    # besides the name of its rule.
    color: str = ""
    tagged_bytes: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedMessage:
    """One message, by the identity its sender gave it."""

    uid: str
    # Path and life of the queue it was sent to.
    queue: "AuditedQueue"
    size_bytes: int
    ttl_ms: int
    scheduled_at: int
    # When it was to become active, if that had passed when it was sent.
    wished_at: int = 0
    session_id: str = ""
    message_id: str = ""
    # Clock and number of the event when it was sent.
    sent_at: int
    sent_event: int
    # Number of the event when it was acknowledged; 0 before.
    accepted_event: int = 0
    # Number of the last event that concerned it.
    touched_event: int = 0
    # Where it is, as far as it is known, and what requests under way may change.
    places: set[str] = field(default_factory=lambda: {NEVER})
    under_way: dict[str, frozenset[str]] = field(default_factory=dict)
    # It may be one of those that nobody can name: see AuditedQueue.excused_count.
    is_excused: bool = False
    # Bounds of the delivery count.
    count_low: int = 0
    count_high: int = 0
    lock: Lock | None = None
    # Settlements under way, with the lock they were asked for; None if it had none.
    settling: dict[bytes, Lock | None] = field(default_factory=dict)
    # Somebody has had it under a lock.
    was_delivered: bool = False
    # Reasons that a client gave for dead-lettering it.
    reasons: set[str | None] = field(default_factory=set)
    # Numbers under which it was seen: as scheduled, in the queue, as dead letter.
    sequence_numbers: dict[str, int] = field(default_factory=dict)
    enqueued_at: int | None = None
    # Of a message that was sent to a topic: its subscription must have got it if any
    # subscription did.
    is_certain_copy: bool = False
    # Its send was refused.
    was_refused: bool = False
    # It was seen anywhere.
    was_seen: bool = False
    # Where duplicates are detected: the latest time at which its id was noted, those
    # that may have made it one, and those of which it can't be that both are there.
    highest_answer: int = 0
    maskers: list["AuditedMessage"] = field(default_factory=list)
    rivals: list["AuditedMessage"] = field(default_factory=list)
    # What it shares with other messages, while that is not known.
    fate: "SharedFate | None" = None

    def begin(self, request: str, places: frozenset[str]) -> None:
        """A request is under way that may put the message there."""
        self.under_way[request] = places

    def happened(self, request: str) -> None:
        self.places = set(self.under_way.pop(request))
        self.is_excused = False

    def did_not_happen(self, request: str) -> None:
        self.under_way.pop(request, None)

    def may_have_happened(self, request: str) -> None:
        places = self.under_way.pop(request, frozenset())
        self.places |= places
        if GONE in places:
            self.is_excused = False

    def forget_settlements(self) -> None:
        """It was delivered anew: what was asked of older locks is history, even
        if the reply, on its way through another link, is still to come."""
        for token in self.settling:
            self.under_way.pop(f"settle {token.hex()}", None)
        self.settling.clear()

    def known_places(self) -> set[str]:
        """Where it may be, time aside."""
        return self.places.union(*self.under_way.values())

    def may_be_at(self, highest_now: int, places: set[str] | None = None) -> set[str]:
        """Where it may be, if the clock has shown that time since it was sent.

        It began where it is known to be, or in these places.
        """
        places = self.known_places() if places is None else set(places)
        if SCHEDULED in places and highest_now >= self.scheduled_at:
            places.add(ACTIVE)
        if ACTIVE in places and self.may_have_expired(highest_now):
            places |= self.queue.after_expiry()
        if places & {ACTIVE, DEFERRED} and self.count_high >= self.queue.lowest_limit():
            places.add(DEAD)
        return places

    def may_have_expired(self, highest_now: int) -> bool:
        shortest = min(self._lives(), default=None)
        if shortest is None:
            return False
        since = self.enqueued_at
        if since is None:
            since = max(self.sent_at, self.scheduled_at)
        return highest_now >= since + shortest

    def must_have_expired(self, now: int) -> bool:
        """It was in the queue longer than any rule allowed."""
        lives = self._lives()
        if self.enqueued_at is None or len(lives) < len(self.queue.rules):
            return False
        return now >= self.enqueued_at + max(lives)

    def _lives(self) -> list[int]:
        """Its time to live under each of the rules that the queue has had."""
        lives = []
        for rules in self.queue.rules:
            own = [ttl for ttl in (self.ttl_ms, rules.default_ttl_ms) if ttl]
            if own:
                lives.append(min(own))
        return lives


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The properties of a queue that the auditor judges by."""

    lock_duration_ms: int
    max_delivery_count: int
    default_ttl_ms: int
    dead_letter_on_expiration: bool
    requires_session: bool = False
    # 0: duplicates are not detected.
    duplicate_window_ms: int = 0
    # Paths; empty: no forwarding.
    forward_to: str = ""
    forward_dead_letters_to: str = ""
    status: str = "Active"
    # It has little room.
    is_small: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedQueue:
    """One life of a queue."""

    path: str
    # All that it has had; the last are valid, the others may have been applied.
    rules: list[Rules]
    # Its deletion was asked for, and not refused.
    is_ending: bool = False
    # Removals that no reply names: batch delete, and receive-and-delete whose
    # receiver is gone. By sub-queue: main, dead letters.
    excused_count: list[int] = field(default_factory=lambda: [0, 0])
    # How many there are at present who remove without naming.
    taker_count: list[int] = field(default_factory=lambda: [0, 0])
    # Sequence number -> message, and enqueued time, by sub-queue.
    numbers: tuple[dict[int, str], dict[int, str]] = field(
        default_factory=lambda: ({}, {})
    )
    enqueued: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(
        default_factory=lambda: ([], [])
    )
    # Highest number delivered for the first time since the last fault.
    delivered_through: list[int] = field(default_factory=lambda: [0, 0])
    # Event at which it was known to be there; 0 before.
    created_event: int = 0
    # Of a subscription: all that it has had.
    topic_rules: list["AuditedRule"] = field(default_factory=list)
    # Sessions that somebody holds, and what is kept with sessions.
    held: dict[str, "AuditedSession"] = field(default_factory=dict)
    states: dict[str, "AuditedState"] = field(default_factory=dict)

    @property
    def requires_session(self) -> bool:
        """From its creation on."""
        return self.rules[0].requires_session

    @property
    def duplicate_window_ms(self) -> int:
        """From its creation on."""
        return self.rules[0].duplicate_window_ms

    def after_expiry(self) -> set[str]:
        return {DEAD if r.dead_letter_on_expiration else GONE for r in self.rules}

    def lowest_limit(self) -> int:
        return min(rules.max_delivery_count for rules in self.rules)

    def highest_limit(self) -> int:
        return max(rules.max_delivery_count for rules in self.rules)
