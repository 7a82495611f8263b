"""Judges a simulated cluster by what clients were told, and when locks were made.

A client knows what it sent, what it was answered, and what it got. One thing more is
noted: each lock has random bits that its owner draws when it makes the lock. So the
auditor knows when a message was handed out and by whom, however long it was under way,
and whether another broker had the store by then.

A lock may be lost: by a takeover, a failed commit, or time. A message that is delivered
again after that is no error. It is one if the broker that delivers it had been
replaced, or if it delivers it twice by itself.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from simulator.broker_store import CommonStore
from simulator.process_loop import ProcessClock
from simulator.sighting import Violation
from twinbus.broker.message_lock import ENTROPY_BYTES

LOCK_MS: Final = 10_000
"""The lock duration of all queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeLock:
    """A lock, at the moment at which it was made."""

    store: CommonStore
    # In virtual seconds, and by the clock of its owner.
    made_at: float
    now: int
    # Of the store, at that moment.
    epoch: int
    # How often its owner had lost the locks of this store, had its clock set, or had
    # detached receivers of others.
    era: tuple[int, int, int]


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """A message as a client has it."""

    number: int
    path: str
    token: bytes
    lock: MadeLock
    # By the clock of the owner.
    locked_until: int
    # In which session it was received; None: in none.
    hold: "SessionHold | None" = None
    # The client has asked to settle it; whatever was answered, the lock may be gone.
    is_settling: bool = False

    @property
    def epoch(self) -> int:
        """Of the token."""
        return int.from_bytes(self.token[2:5], "big")

    @property
    def sequence(self) -> int:
        """Of the token."""
        return int.from_bytes(self.token[5:11], "big")

    @property
    def index(self) -> int:
        """Of the fragment, of the token."""
        return int.from_bytes(self.token[:2], "big")

    def is_beside(self, other: "Delivery") -> bool:
        """By the same owner, which has lost no lock between them."""
        one, two = self.lock, other.lock
        is_same_store = one.store is two.store and self.epoch == other.epoch
        return is_same_store and one.era == two.era


@dataclass(slots=True, kw_only=True, eq=False)
class SessionHold:
    """A session that a client has, from its grant on."""

    session_id: str
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class SentMessage:
    """A message that a client has sent."""

    number: int
    path: str
    asked_at: float
    is_accepted: bool = False
    # When the client was told so, and on which connection it was sent; None: it was not
    # told, or the order does not matter.
    accepted_at: float | None = None
    connection: object = None
    # Nothing of it may have happened.
    is_refused: bool = False
    completed_at: float | None = None
    is_perhaps_completed: bool = False
    # When it was abandoned, and that was confirmed.
    abandoned_at: list[float] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    # Somebody has got it, or has read it.
    is_seen: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class SentTogether:
    """What a transaction does: all of it, or nothing."""

    sent: list[SentMessage] = field(default_factory=list)
    completed: Delivery | None = None

    def __str__(self) -> str:
        completed = "" if self.completed is None else f", {self.completed.number} gone"
        return f"transaction {[one.number for one in self.sent]}{completed}"


class BrokerAudit:
    """What is known of all messages of a world."""

    def __init__(self, fail: Callable[[Violation], None]) -> None:
        self._fail = fail
        self.messages: dict[int, SentMessage] = {}
        # By the random bits.
        self._made: dict[bytes, MadeLock] = {}
        self._holds: dict[str, list[SessionHold]] = {}
        # By path and fragment: sequence numbers of what was delivered.
        self._numbered: dict[tuple[str, int], dict[int, int]] = {}
        self._losses: dict[CommonStore, int] = {}
        self._jumps: dict[ProcessClock, int] = {}
        self._detachments: dict[ProcessClock, int] = {}
        self._unknown: list[SentTogether] = []
        # So many messages were deleted at most, and reached nobody.
        self._lost_credit = 0

    def _violated(self, what: str) -> None:
        self._fail(Violation(what))

    # --- what owners do -------------------------------------------------------

    def locks_made(
        self, clock: ProcessClock, store: CommonStore, epoch: int, drawn: bytes
    ) -> None:
        """An owner makes locks, with these random bits."""
        if epoch != store.epoch:
            self._violated(
                f"{store.name}: messages are delivered in epoch {epoch} when the store "
                f"is in epoch {store.epoch}"
            )
        made = MadeLock(
            store=store,
            made_at=_time(),
            now=clock.now(),
            epoch=store.epoch,
            era=(
                self._losses.get(store, 0),
                self._jumps.get(clock, 0),
                self._detachments.get(clock, 0),
            ),
        )
        for at in range(0, len(drawn) - ENTROPY_BYTES + 1, ENTROPY_BYTES):
            self._made[drawn[at : at + ENTROPY_BYTES]] = made

    def locks_lost(self, store: CommonStore) -> None:
        """The owner of a store has read everything anew."""
        self._losses[store] = self._losses.get(store, 0) + 1

    def clock_set(self, clock: ProcessClock) -> None:
        self._jumps[clock] = self._jumps.get(clock, 0) + 1

    def receivers_detached(self, clock: ProcessClock) -> None:
        """An owner detached them. What it had reserved for other brokers is ready
        again, though one of them may be handing it out: then its lock is lost."""
        self._detachments[clock] = self._detachments.get(clock, 0) + 1

    # --- what clients are told ------------------------------------------------

    def new_message(self, path: str) -> SentMessage:
        sent = SentMessage(number=len(self.messages) + 1, path=path, asked_at=_time())
        self.messages[sent.number] = sent
        return sent

    def new_hold(self, session_id: str) -> SessionHold:
        hold = SessionHold(session_id=session_id)
        self._holds.setdefault(session_id, []).append(hold)
        return hold

    def delivered(
        self,
        path: str,
        number: int,
        token: bytes,
        delivery_count: int,
        hold: SessionHold | None,
    ) -> Delivery | None:
        """None if it is no message of ours."""
        lock, sent = self._made.get(token[11:]), self.messages.get(number)
        if lock is None or sent is None or sent.path != path:
            self._violated(f"message {number} of '{path}' was made up")
            return None
        delivery = Delivery(
            number=number,
            path=path,
            token=token,
            lock=lock,
            locked_until=lock.now + LOCK_MS,
            hold=hold,
        )
        self._check_delivery(delivery, sent, delivery_count)
        for other in sent.deliveries:
            self._check_alone(delivery, other)
        self._check_order(delivery, sent)
        sent.deliveries.append(delivery)
        sent.is_seen = True
        if hold is not None:
            self._check_hold(delivery, hold)
        return delivery

    def _check_delivery(
        self, delivery: Delivery, sent: SentMessage, delivery_count: int
    ) -> None:
        lock, number = delivery.lock, sent.number
        if sent.is_refused:
            self._violated(f"message {number} was refused and is there")
        if lock.epoch != delivery.epoch:
            self._violated(f"message {number} has a token of another epoch")
        if sent.completed_at is not None and sent.completed_at < lock.made_at:
            self._violated(f"message {number} was completed and came back")
        if delivery_count < sum(at < lock.made_at for at in sent.abandoned_at):
            self._violated(f"message {number} has lost deliveries: {delivery_count}")

    def _check_alone(self, one: Delivery, other: Delivery) -> None:
        """Its lock is the only one. That of a session may have ended with it."""
        first, second = sorted((one, other), key=lambda each: each.lock.made_at)
        may_be_over = first.is_settling or first.hold is not None
        is_live = first.locked_until > second.lock.now and not may_be_over
        if first.is_beside(second) and is_live:
            self._violated(f"message {one.number} has two locks")

    def _check_order(self, delivery: Delivery, sent: SentMessage) -> None:
        """What a client sent after a message was accepted is behind that."""
        numbered = self._numbered.setdefault((sent.path, delivery.index), {})
        numbered[sent.number] = at = delivery.sequence
        for number, sequence in numbered.items():
            other = self.messages[number]
            first, last = (sent, other) if at < sequence else (other, sent)
            is_same = first.connection is last.connection is not None
            accepted_at = last.accepted_at
            if is_same and accepted_at is not None and accepted_at < first.asked_at:
                self._violated(
                    f"message {first.number} has come before message {last.number}, "
                    "which was accepted before it was sent"
                )

    def _check_hold(self, delivery: Delivery, hold: SessionHold) -> None:
        """Messages come in order, and nobody else has the session meanwhile."""
        session = f"session '{hold.session_id}'"
        if hold.deliveries and hold.deliveries[-1].sequence >= delivery.sequence:
            self._violated(f"message {delivery.number} of {session} is out of order")
        hold.deliveries.append(delivery)
        first, last = hold.deliveries[0], hold.deliveries[-1]
        for other in self._holds[hold.session_id]:
            for one in other.deliveries if other is not hold else ():
                is_between = first.lock.made_at < one.lock.made_at < last.lock.made_at
                if is_between and one.is_beside(first) and one.is_beside(last):
                    self._violated(f"{session} has two holders")

    def renewed(self, delivery: Delivery, asked_at: float, until: int) -> None:
        """A lock was renewed, the client is told."""
        self._check_epoch(delivery, asked_at, "renewed")
        delivery.locked_until = until

    def settled(
        self, delivery: Delivery, asked_at: float, *, is_completed: bool
    ) -> None:
        """A settlement was confirmed."""
        self._check_epoch(delivery, asked_at, "settled")
        sent = self.messages[delivery.number]
        if is_completed:
            sent.completed_at = _time()
        else:
            sent.abandoned_at.append(_time())

    def _check_epoch(self, delivery: Delivery, asked_at: float, what: str) -> None:
        store = delivery.lock.store
        ended_at = store.ended_at(delivery.epoch)
        if ended_at is not None and ended_at < asked_at:
            self._violated(
                f"{store.name}: message {delivery.number} was {what} by a lock of epoch"
                f" {delivery.epoch}, after another broker had taken the store"
            )

    # --- without locks --------------------------------------------------------

    def deleted(self, path: str, number: int, asked_at: float) -> None:
        """A client got a message that the bus deleted before."""
        sent = self._seen(path, number, asked_at)
        if sent is not None and sent.completed_at is not None:
            self._violated(f"message {number} was deleted twice")
        elif sent is not None:
            sent.completed_at = _time()

    def browsed(self, path: str, number: int, asked_at: float) -> None:
        """A reader has read a message."""
        self._seen(path, number, asked_at)

    def _seen(self, path: str, number: int, asked_at: float) -> SentMessage | None:
        sent = self.messages.get(number)
        if sent is None or sent.path != path:
            self._violated(f"message {number} of '{path}' was made up")
            return None
        if sent.is_refused:
            self._violated(f"message {number} was refused and is there")
        if sent.completed_at is not None and sent.completed_at < asked_at:
            self._violated(f"message {number} was completed and came back")
        sent.is_seen = True
        return sent

    def credit_lost(self, count: int) -> None:
        """A link has ended over which so many messages may have been under way, that
        were deleted before."""
        self._lost_credit += count

    def completed_in_range(self, numbers: Iterable[int]) -> None:
        """A reader has settled what it has read."""
        for number in numbers:
            self.messages[number].completed_at = _time()

    def perhaps_completed(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.messages[number].is_perhaps_completed = True

    # --- transactions ---------------------------------------------------------

    def done_together(self, together: SentTogether, asked_at: float) -> None:
        """A commit was confirmed."""
        for sent in together.sent:
            sent.is_accepted = True
        if together.completed is not None:
            self.settled(together.completed, asked_at, is_completed=True)

    def undone_together(self, together: SentTogether) -> None:
        """Nothing of it may ever happen."""
        for sent in together.sent:
            if sent.is_seen:
                self._violated(f"message {sent.number} of a rollback is there")
            sent.is_refused = True

    def unknown_together(self, together: SentTogether) -> None:
        """All of it may have happened, or nothing."""
        self._unknown.append(together)
        if together.completed is not None:
            self.perhaps_completed([together.completed.number])

    # --- the end --------------------------------------------------------------

    def concluded(
        self,
        taken: Iterable[int],
        deleting_path: str,
        may_be_gone: Callable[[SentMessage], bool],
    ) -> None:
        """All messages that were there were received. Raises Violation."""
        there = list(taken)
        if len(set(there)) != len(there):
            raise Violation("a message is there twice")
        left, lost = set(there), []
        for sent in self.messages.values():
            is_there = sent.number in left
            is_gone = sent.completed_at is not None or sent.is_perhaps_completed
            if is_there and sent.is_refused:
                raise Violation(f"message {sent.number} was refused and is there")
            if is_there and sent.completed_at is not None:
                raise Violation(f"message {sent.number} was completed and is there")
            if is_there:
                sent.is_seen = True
            elif sent.is_accepted and not is_gone and not may_be_gone(sent):
                lost.append(sent)
        self._check_lost(lost, deleting_path)
        for together in self._unknown:
            self._check_together(together, left, deleting_path, may_be_gone)

    def _check_lost(self, lost: list[SentMessage], deleting_path: str) -> None:
        """Of those that are deleted before they are delivered some may be lost."""
        for sent in lost:
            if sent.path == deleting_path and self._lost_credit > 0:
                self._lost_credit -= 1
            else:
                raise Violation(f"message {sent.number} was accepted and is lost")

    def _check_together(
        self,
        together: SentTogether,
        left: set[int],
        deleting_path: str,
        may_be_gone: Callable[[SentMessage], bool],
    ) -> None:
        if not any(sent.is_seen for sent in together.sent):
            return
        for sent in together.sent:
            may_miss = sent.path == deleting_path or may_be_gone(sent)
            if not sent.is_seen and not may_miss:
                raise Violation(f"{together} happened without {sent.number}")
        completed = together.completed
        if completed is not None and completed.number in left:
            raise Violation(f"{together} happened, and {completed.number} is there")


def _time() -> float:
    return asyncio.get_running_loop().time()
