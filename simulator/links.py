"""Clients of a simulated bus that have a link: senders and receivers.

They replace the AMQP links and use the owner of the store in the same way. They tell
the auditor what a client at the other end of the connection would know.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from simulator.draft import Draft, sighting_of
from simulator.sighting import Sighting
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME, Modified, Rejected, Released
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.encoding.incoming import read_message
from twinbus.entities.entity import Entity
from twinbus.errors import InternalError, ServiceBusError
from twinbus.links.duplicate_detection import finds_duplicates
from twinbus.links.outcomes import settle
from twinbus.links.sending import Sending, accept, check, check_room

if TYPE_CHECKING:
    from simulator.life import Life


@final
class SimulatedSender(CommitListener):
    """A client that sends to one queue."""

    def __init__(self, life: "Life", queue: Entity, number: int) -> None:
        super().__init__()
        self._life = life
        self.path = queue.path
        self.number = number
        self.fragment: Fragment = queue.fragment()
        self.actor = life.owner.introduce(f"sender {number}")
        # Messages of each request, and the requests without a reply.
        self._requests: list[list[Draft]] = []
        self._waiting: set[int] = set()
        self.is_attached = True
        queue.send_links().add(self)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def send(self, drafts: list[Draft]) -> None:
        """Send one transfer: a message, or a batch that is accepted as a whole."""
        if not drafts:
            return
        life = self._life
        now = life.tell(f"sender {self.number} sends {_uids(drafts)} to {self.path}")
        encoded = [draft.encoded() for draft in drafts]
        for draft in drafts:
            life.auditor.send_requested(draft.uid, self.path, draft.sent())
        request = len(self._requests)
        self._requests.append(drafts)
        self._waiting.add(request)
        try:
            check_room(self.fragment, sum(len(raw) for raw in encoded), now)
            self._enqueue([read_message(raw) for raw in encoded], request, now)
        except ServiceBusError as error:
            self.failed([request], error)

    def _enqueue(self, messages: list[Message], request: int, now: int) -> None:
        owner, fragment = self._life.owner, self.fragment
        for message in messages:
            check(fragment, message)
        if finds_duplicates(fragment):
            owner.admit(Sending(fragment, messages, self.actor, request, self))
            return
        for message in messages:
            accept(fragment, message, self.actor, now)
        self.note(owner, request)
        owner.wake()

    def committed(self, items: list[int]) -> None:
        for request in self._answered(items):
            drafts = self._requests[request]
            self._life.tell(f"sender {self.number}: accepted {_uids(drafts)}")
            for draft in drafts:
                self._life.auditor.send_accepted(draft.uid)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for request in self._answered(items):
            drafts = self._requests[request]
            name = type(error).__name__
            self._life.tell(f"sender {self.number}: {name} for {_uids(drafts)}")
            for draft in drafts:
                if isinstance(error, InternalError):
                    self._life.auditor.send_unknown(draft.uid)
                else:
                    self._life.auditor.send_refused(draft.uid)

    def _answered(self, items: list[int]) -> list[int]:
        known = [request for request in items if request in self._waiting]
        self._waiting.difference_update(known)
        return known

    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def detach(self, error: ServiceBusError) -> None:
        """The queue is gone. Replies still arrive, and the auditor checks them."""
        self.is_attached = False

    def lost(self) -> None:
        """The bus crashed: open requests never get a reply."""
        self.is_attached = False
        for request in sorted(self._waiting):
            for draft in self._requests[request]:
                self._life.auditor.send_unknown(draft.uid)
        self._waiting.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message that a client holds under a lock."""

    uid: str
    token: bytes
    path: str
    dead_letter: bool
    # None for a deferred message, which has no link.
    lock: MessageLock | None = None
    receiver: "SimulatedReceiver | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettlement:
    """How a client wants to settle a message."""

    # complete, abandon, release, defer or dead-letter.
    kind: str
    reason: str | None = None
    modified: dict[object, object] | None = None

    def state(self) -> object:
        """The settlement as an AMQP delivery state."""
        if self.kind == "complete":
            return ACCEPTED_OUTCOME
        if self.kind == "release":
            return Released()
        if self.kind == "dead-letter":
            info: dict[object, object] = {"DeadLetterReason": self.reason}
            info.update(self.modified or {})
            condition = "com.microsoft:dead-letter"
            return Rejected(error=AmqpError(condition=condition, info=info))
        return Modified(
            delivery_failed=True,
            undeliverable_here=self.kind == "defer",
            message_annotations=self.modified,
        )


@final
class SimulatedReceiver(Receiver):
    """A client that receives from a queue or its dead-letter queue."""

    def __init__(
        self,
        life: "Life",
        queue: Entity,
        dead_letter: bool,
        peek_lock: bool,
        number: int,
        session: HeldSession | None = None,
    ) -> None:
        super().__init__(life.owner.introduce(f"receiver {number}"), peek_lock)
        if session is not None:
            self.session = session
            session.receiver = self
        self._life = life
        self.path = queue.path
        self.dead_letter = dead_letter
        self.number = number
        self.fragment: Fragment = queue.fragment(DEAD_LETTER if dead_letter else MAIN)
        self.confirmations = SimulatedConfirmations(life)
        self.credit = 0
        self.is_draining = False
        self.is_attached = True
        queue.receive_links().add(self)
        life.owner.join(self.fragment, self)
        if not peek_lock:
            life.auditor.taker_joined(self.path, dead_letter)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    # --- called by the bus ----------------------------------------------------

    def capacity(self) -> int:
        return self.credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        for lock in locks:
            lock.holder = self
            self.credit -= 1
            seen = self._sighting(lock.message)
            self._life.tell(
                f"receiver {self.number} gets {seen.uid} of {self._fragment_text()} "
                f"as {seen.sequence_number}, count {seen.delivery_count}"
            )
            self._life.auditor.delivered(seen, lock.token, lock.ends_at())
            self._life.hold(
                Held(
                    uid=seen.uid,
                    token=lock.token,
                    path=self.path,
                    dead_letter=self.dead_letter,
                    lock=lock,
                    receiver=self,
                )
            )
        self.fragment.delivered(locks)

    def deliver_removed(self, messages: list[Message]) -> None:
        # A client that has left does not get them, but they are removed.
        for message in messages:
            self.credit -= 1
            seen = self._sighting(message)
            self._life.tell(f"receiver {self.number} gets {seen.uid} for good")
            self._life.auditor.delivered_for_good(seen)

    def served(self) -> None:
        if self.is_draining:
            self.is_draining = False
            self.credit = 0

    def session_lost(self) -> None:
        assert self.session is not None
        session_id = self.session.session_id
        self._life.tell(f"receiver {self.number} loses session {session_id}")
        self._life.auditor.sessions.lost(self.path, session_id, self.number)
        self.leave()

    def detach(self, error: ServiceBusError) -> None:
        self.leave()

    def _sighting(self, message: Message) -> Sighting:
        number = self.fragment.sequence_number(message)
        return sighting_of(message, number, self.path, self.dead_letter)

    def session_id(self) -> str:
        """Id of the accepted session."""
        assert self.session is not None
        return self.session.session_id

    def _fragment_text(self) -> str:
        return f"{self.path}/dead" if self.dead_letter else self.path

    # --- called by the client -------------------------------------------------

    def give_credit(self, credit: int, drain: bool) -> None:
        self.credit += credit
        self.is_draining = drain
        self._life.tell(
            f"receiver {self.number} gives credit {credit} to {self._fragment_text()}"
            + (" and drains" if drain else "")
            + ("" if self.peek_lock else " to receive and delete")
        )
        self._life.owner.offer_capacity(self.fragment, self)

    def settle(self, held: Held, settlement: ClientSettlement) -> None:
        """Send a disposition, as a client does on the link of the delivery."""
        life, owner, lock = self._life, self._life.owner, held.lock
        assert lock is not None
        now = life.tell(f"receiver {self.number}: {settlement.kind} {held.uid}")
        life.auditor.settle_requested(
            held.token, held.uid, settlement.kind, settlement.reason
        )
        request = self.confirmations.expect(held, settlement, now)
        state = settlement.state()
        try:
            settle(self.fragment, lock, state, self.actor, now, owner.changes)
        except ServiceBusError as error:
            self.confirmations.failed([request], error)
            return
        self.confirmations.note(owner, request)
        owner.wake()

    def leave(self) -> None:
        """Close the link. Locks and open settlements stay."""
        if self.is_attached:
            self.is_attached = False
            session = self.session
            if session is not None:
                sessions = self._life.auditor.sessions
                sessions.closed(self.path, session.session_id, self.number)
            self._life.owner.leave(self.fragment, self)

    def lost(self) -> None:
        """The bus crashed: messages and confirmations under way are lost."""
        self.is_attached = False
        if not self.peek_lock:
            count = self.promised_count
            self._life.auditor.taker_left(self.path, self.dead_letter, count)
        self.confirmations.lost()


@final
class SimulatedConfirmations(CommitListener):
    """Settlements of one link that wait for confirmation."""

    def __init__(self, life: "Life") -> None:
        super().__init__()
        self._life = life
        self._requests: list[tuple[Held, str, int]] = []
        self._waiting: set[int] = set()

    def expect(self, held: Held, settlement: ClientSettlement, now: int) -> int:
        self._requests.append((held, settlement.kind, now))
        self._waiting.add(len(self._requests) - 1)
        return len(self._requests) - 1

    def committed(self, items: list[int]) -> None:
        for request in self._answered(items):
            held, kind, asked_at = self._requests[request]
            self._life.tell(f"{kind} of {held.uid} is confirmed")
            self._life.auditor.settled(held.token, held.uid, kind, asked_at=asked_at)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for request in self._answered(items):
            held, kind, _ = self._requests[request]
            self._life.tell(f"{kind} of {held.uid}: {type(error).__name__}")
            self._life.settle_failed(held, kind, error)

    def _answered(self, items: list[int]) -> list[int]:
        known = [request for request in items if request in self._waiting]
        self._waiting.difference_update(known)
        return known

    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def lost(self) -> None:
        for request in sorted(self._waiting):
            held = self._requests[request][0]
            self._life.auditor.settle_unknown(held.token, held.uid)
        self._waiting.clear()


def _uids(drafts: list[Draft]) -> str:
    return " ".join(draft.uid for draft in drafts)
