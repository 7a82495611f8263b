"""Adds the work of a request to a transaction.

A request takes time, and its transaction may end meanwhile. So the transaction is
looked up each time it is used.
"""

from typing import final

from twinbus.broker.message_lock import MessageLock
from twinbus.broker.transaction import Transaction, Work
from twinbus.errors import ServiceBusError
from twinbus.links.coordinator import Coordinator


@final
class Enlistment:
    """One transaction of a connection, by its id."""

    def __init__(self, coordinator: Coordinator, txn_id: bytes) -> None:
        self._coordinator: Coordinator = coordinator
        self._txn_id: bytes = txn_id

    def check(self, now: int) -> None:
        """Raises TransactionNotFound, TransactionTimedOut."""
        self.find(now)

    def enlist(self, work: Work, now: int) -> None:
        """Add work. Raises as `check` and `Transaction.enlist` do."""
        self.find(now).enlist(work)

    def enlist_lock(self, lock: MessageLock, work: Work, now: int) -> None:
        """The same for work that ends a lock."""
        self.find(now).enlist_lock(lock, work)

    def work(self, now: int) -> list[Work]:
        """The work of the transaction so far. Raises as `check` does."""
        return self.find(now).work()

    def doom(self, reason: ServiceBusError, now: int) -> None:
        """The request was refused: the transaction can only be rolled back."""
        try:
            transaction = self.find(now)
        except ServiceBusError:
            return
        transaction.doom(reason)

    def find(self, now: int) -> Transaction:
        """The transaction. Raises as `check` does."""
        return self._coordinator.find(self._txn_id, now)
