"""Where one message may be, as far as a client can know.

The auditor never looks into the bus. For each message it keeps the set of places where
it could be: a request in progress adds places, its reply leaves one, a crash before the
reply leaves both. When the message is seen, only that place is left. A correct bus
never shows a message in a place outside the set.

It shares no code with the bus, so that both do not have the same bugs.
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
    # Place and delivery count of the message when the lock was given.
    place: str
    delivery_count: int
    # Its time has passed; another receiver may have the message.
    is_over: bool = False
    # A settlement was requested, and not refused.
    is_settling: bool = False
    # Since then a reader requested the lease of the queue, and may have got it.
    may_be_revoked: bool = False

    @property
    def counted(self) -> int:
        """What a failed delivery adds to the count: 1, or 0 for a dead letter."""
        return 0 if self.place in DEAD_PLACES else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as its sender describes it."""

    size_bytes: int
    ttl_ms: int = 0
    scheduled_at: int = 0
    # Empty: none.
    session_id: str = ""
    message_id: str = ""
    # The color that rules of subscriptions match, and how many bytes an action adds,
    # without the name of its rule.
    color: str = ""
    tagged_bytes: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedMessage:
    """One message, identified by the uid that its sender gave it."""

    uid: str
    # The queue it was sent to, in its life at that time.
    queue: "AuditedQueue"
    size_bytes: int
    ttl_ms: int
    scheduled_at: int
    # The scheduled time, if it had passed when the message was sent.
    wished_at: int = 0
    session_id: str = ""
    message_id: str = ""
    # Clock and event number when it was sent.
    sent_at: int
    sent_event: int
    # Event number when it was accepted; 0 before.
    accepted_event: int = 0
    # Number of the last event that concerned it.
    touched_event: int = 0
    # Known places, and the places that requests in progress may lead to.
    places: set[str] = field(default_factory=lambda: {NEVER})
    under_way: dict[str, frozenset[str]] = field(default_factory=dict)
    # It may be one of the removed messages that no reply named: see
    # AuditedQueue.excused_count.
    is_excused: bool = False
    # Bounds of the delivery count.
    count_low: int = 0
    count_high: int = 0
    lock: Lock | None = None
    # Settlements in progress, by token, with their lock; None if there was none.
    settling: dict[bytes, Lock | None] = field(default_factory=dict)
    # It was delivered under a lock at least once.
    was_delivered: bool = False
    # Reasons that a client gave for dead-lettering it.
    reasons: set[str | None] = field(default_factory=set)
    # Its sequence numbers: as scheduled, in the queue, as dead letter.
    sequence_numbers: dict[str, int] = field(default_factory=dict)
    enqueued_at: int | None = None
    # Of a message sent to a topic: this copy must exist if any copy does.
    is_certain_copy: bool = False
    # Its send was refused.
    was_refused: bool = False
    # It was seen at least once.
    was_seen: bool = False
    # With duplicate detection: the latest time at which its id was recorded, messages
    # that may have made it a duplicate, and messages that cannot exist together with
    # it.
    highest_answer: int = 0
    maskers: list["AuditedMessage"] = field(default_factory=list)
    rivals: list["AuditedMessage"] = field(default_factory=list)
    # The transaction of unknown outcome that it is part of, if any.
    fate: "SharedFate | None" = None

    def begin(self, request: str, places: frozenset[str]) -> None:
        """A request in progress may move the message to these places."""
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
        """It was delivered again: settlements of older locks are over, even if a reply
        on another link is still to come."""
        for token in self.settling:
            self.under_way.pop(f"settle {token.hex()}", None)
        self.settling.clear()

    def known_places(self) -> set[str]:
        """Where it may be, without considering time."""
        return self.places.union(*self.under_way.values())

    def may_be_at(self, highest_now: int, places: set[str] | None = None) -> set[str]:
        """Where it may be, if the clock has shown this time since it was sent.

        It starts from its known places, or from those given.
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
        """It was in the queue longer than any version of the rules allowed."""
        lives = self._lives()
        if self.enqueued_at is None or len(lives) < len(self.queue.rules):
            return False
        return now >= self.enqueued_at + max(lives)

    def _lives(self) -> list[int]:
        """Its time to live under each version of the queue's rules."""
        lives = []
        for rules in self.queue.rules:
            own = [ttl for ttl in (self.ttl_ms, rules.default_ttl_ms) if ttl]
            if own:
                lives.append(min(own))
        return lives


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The properties of a queue that the auditor needs."""

    lock_duration_ms: int
    max_delivery_count: int
    default_ttl_ms: int
    dead_letter_on_expiration: bool
    requires_session: bool = False
    # 0: no duplicate detection.
    duplicate_window_ms: int = 0
    # Paths; empty: no forwarding.
    forward_to: str = ""
    forward_dead_letters_to: str = ""
    status: str = "Active"
    # Its size limit is small.
    is_small: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class AuditedQueue:
    """One life of a queue, from its creation to its deletion."""

    path: str
    # All versions of its properties; the last is valid, older ones may have been
    # applied.
    rules: list[Rules]
    # Its deletion was requested, and not refused.
    is_ending: bool = False
    # Removed messages that no reply names, by sub-queue (main, dead letters): by batch
    # delete, or by receive-and-delete of a receiver that is gone.
    excused_count: list[int] = field(default_factory=lambda: [0, 0])
    # How many clients remove messages without naming them now, by sub-queue.
    taker_count: list[int] = field(default_factory=lambda: [0, 0])
    # Sequence number to message, and enqueued times, by sub-queue.
    numbers: tuple[dict[int, str], dict[int, str]] = field(
        default_factory=lambda: ({}, {})
    )
    enqueued: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(
        default_factory=lambda: ([], [])
    )
    # Highest number delivered for the first time since the last fault.
    delivered_through: list[int] = field(default_factory=lambda: [0, 0])
    # Event at which its creation was known; 0 before.
    created_event: int = 0
    # Of a subscription: all rules that it has had.
    topic_rules: list["AuditedRule"] = field(default_factory=list)
    # Held sessions, and session states.
    held: dict[str, "AuditedSession"] = field(default_factory=dict)
    states: dict[str, "AuditedState"] = field(default_factory=dict)

    @property
    def requires_session(self) -> bool:
        """Cannot change after creation."""
        return self.rules[0].requires_session

    @property
    def duplicate_window_ms(self) -> int:
        """Cannot change after creation."""
        return self.rules[0].duplicate_window_ms

    def after_expiry(self) -> set[str]:
        return {DEAD if r.dead_letter_on_expiration else GONE for r in self.rules}

    def lowest_limit(self) -> int:
        return min(rules.max_delivery_count for rules in self.rules)

    def highest_limit(self) -> int:
        return max(rules.max_delivery_count for rules in self.rules)
