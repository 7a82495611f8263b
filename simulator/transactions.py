"""Transactions of a simulated client.

The auditor learns of the work only when the commit is requested. If something of it
shows before that, or after a rollback, that is a message that was not sent, or a lock
that was not honoured. From the request on, all of the work is in progress, with one
outcome.
"""

from typing import TYPE_CHECKING, final

from simulator.draft import Draft
from simulator.links import ClientSettlement, Held, SimulatedSender
from simulator.sighting import Violation
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.encoding.incoming import read_message
from twinbus.errors import (
    InternalError,
    MessageLockLost,
    ServiceBusError,
    SessionLockLost,
)
from twinbus.links.outcomes import settlement_of
from twinbus.links.sending import check, check_room
from twinbus.links.transaction_commit import Commit, TransactionListener
from twinbus.links.transactional_work import TransactionalSend, TransactionalSettlement

if TYPE_CHECKING:
    from simulator.life import Life


@final
class SimulatedTransaction(TransactionListener):
    """One transaction, from its declaration to its end."""

    def __init__(self, life: "Life", number: int) -> None:
        super().__init__()
        self._life = life
        self.number = number
        now = life.tell(f"transaction {number} begins")
        txn_id = number.to_bytes(16, "big")
        self._transaction = Transaction(txn_id, now, TransactionLimits())
        self._drafts: list[tuple[str, Draft]] = []
        self._settlements: list[tuple[Held, ClientSettlement]] = []
        self.is_open = True
        self.is_committing = False
        self._applied_at = 0

    # --- work -----------------------------------------------------------------

    def send(self, sender: SimulatedSender, drafts: list[Draft]) -> None:
        """Send messages in one transfer, as part of this transaction."""
        if not drafts:
            return
        life = self._life
        uids = " ".join(draft.uid for draft in drafts)
        now = life.tell(f"transaction {self.number} sends {uids} to {sender.path}")
        encoded = [draft.encoded() for draft in drafts]
        messages = [read_message(raw) for raw in encoded]
        fragment = sender.fragment
        try:
            check_room(fragment, sum(len(raw) for raw in encoded), now)
            for message in messages:
                check(fragment, message)
            self._transaction.enlist(
                TransactionalSend(fragment, messages, sender.actor)
            )
        except ServiceBusError as error:
            life.tell(f"transaction {self.number}: {type(error).__name__}")
            self._transaction.doom(error)
            return
        self._drafts += [(sender.path, draft) for draft in drafts]

    def settle(self, held: Held, settlement: ClientSettlement) -> None:
        """Settle a message as part of this transaction."""
        life, lock, receiver = self._life, held.lock, held.receiver
        assert lock is not None and receiver is not None
        life.tell(f"transaction {self.number}: {settlement.kind} {held.uid}")
        work = TransactionalSettlement(
            receiver.fragment,
            lock,
            settlement_of(settlement.state(), held.path),
            receiver.actor,
        )
        try:
            self._transaction.enlist_lock(lock, work)
        except ServiceBusError as error:
            life.tell(f"transaction {self.number}: {type(error).__name__}")
            self._transaction.doom(error)
            return
        life.held.pop(held.token, None)
        self._settlements.append((held, settlement))

    def has_work(self) -> bool:
        return bool(self._drafts or self._settlements)

    # --- the end --------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self.is_open and now >= self._transaction.expires_at:
            self.roll_back("is too old")

    def roll_back(self, why: str = "is rolled back") -> None:
        if self.is_open:
            self.is_open = False
            self._life.tell(f"transaction {self.number} {why}")
            self._transaction.roll_back()
            self._give_back()

    def _give_back(self) -> None:
        """The client holds the locks as before."""
        for held, _ in self._settlements:
            self._life.hold(held)

    def commit(self) -> None:
        if self._transaction.failure is not None or self._transaction.is_empty():
            self.roll_back("has nothing to commit")
            return
        life, auditor = self._life, self._life.auditor
        self.is_open, self.is_committing = False, True
        life.tell(f"transaction {self.number} asks for its commit")
        for path, draft in self._drafts:
            if not auditor.knows_queue(path):
                continue  # The bus will refuse it.
            auditor.send_requested(draft.uid, path, draft.sent())
        for held, settlement in self._settlements:
            auditor.settle_requested(
                held.token, held.uid, settlement.kind, settlement.reason
            )
        life.owner.admit(Commit(self._transaction, 0, self))

    def applied(self, transaction: Transaction, answer_to: int) -> None:
        self._applied_at = self._life.tell(None)
        self.note(transaction.home, answer_to)

    def committed(self, items: list[int]) -> None:
        if not self.is_committing:
            return  # The client was gone before.
        self.is_committing = False
        self._transaction.committed()
        life, auditor = self._life, self._life.auditor
        life.tell(f"transaction {self.number} is committed")
        for _, draft in self._drafts:
            if not auditor.knows_message(draft.uid):
                raise Violation(f"{draft.uid} was committed into a queue that is gone")
            auditor.send_accepted(draft.uid)
        for held, settlement in self._settlements:
            auditor.settled(
                held.token, held.uid, settlement.kind, asked_at=self._applied_at
            )

    def refused(self, answer_to: int, error: ServiceBusError) -> None:
        if self.is_committing:
            tokens = [(held.token, held.uid) for held, _ in self._settlements]
            if isinstance(error, MessageLockLost | SessionLockLost):
                self._life.auditor.commit_refused(tokens)
            self._not_committed(error)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if self.is_committing:
            self._transaction.roll_back()
            if isinstance(error, InternalError):
                self.lost()
            else:
                self._not_committed(error)

    def _not_committed(self, error: ServiceBusError) -> None:
        self.is_committing = False
        life, auditor = self._life, self._life.auditor
        life.tell(f"transaction {self.number}: {type(error).__name__}, rolled back")
        for _, draft in self._drafts:
            if auditor.knows_message(draft.uid):
                auditor.send_refused(draft.uid)
        for held, settlement in self._settlements:
            auditor.settle_refused(
                held.token, held.uid, settlement.kind, lock_lost=False
            )
        self._give_back()

    def lost(self) -> None:
        """The outcome is unknown; but it is the same for all of its work."""
        self.is_open = False
        if self.is_committing:
            self.is_committing = False
            self._life.auditor.commit_unknown(
                [draft.uid for _, draft in self._drafts],
                [(held.token, held.uid, s.kind) for held, s in self._settlements],
            )
