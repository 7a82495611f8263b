"""The open transactions of one connection.

A transaction belongs to the control link that declared it and ends with that link at
the latest; its id is not valid on other connections. A transaction that is not
discharged in time is rolled back. Its id is remembered for a while, so that the client
gets the reason; after that the id is unknown.
"""

from collections.abc import Callable
from typing import Final, final

from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.errors import QuotaExceeded, TransactionNotFound, TransactionTimedOut
from twinbus.limits import TRANSACTION_HELD_BYTES

_ID_BYTES: Final = 16


@final
class Coordinator:
    """Declares, finds and ends transactions."""

    def __init__(
        self, limits: TransactionLimits, entropy: Callable[[int], bytes]
    ) -> None:
        self._limits: TransactionLimits = limits
        self._entropy: Callable[[int], bytes] = entropy
        # Open transactions by id, oldest first, and the control link of each.
        self._open: dict[bytes, Transaction] = {}
        self._declared_on: dict[bytes, object] = {}
        # Ids of transactions that timed out, oldest first.
        self._timed_out: dict[bytes, None] = {}

    def held_bytes(self) -> int:
        """Memory of the open transactions, without their work."""
        return len(self._open) * TRANSACTION_HELD_BYTES

    def declare(self, control: object, now: int) -> Transaction:
        """Begin a transaction that ends with this control link at the latest.

        Raises QuotaExceeded.
        """
        self.tick(now)
        limit = self._limits.open_count
        if len(self._open) >= limit:
            raise QuotaExceeded(
                f"The connection has {limit} transactions that are not discharged, "
                "the limit. Commit or roll back some of them, or raise "
                "'max_transactions'."
            )
        transaction = Transaction(self._entropy(_ID_BYTES), now, self._limits)
        self._open[transaction.txn_id] = transaction
        self._declared_on[transaction.txn_id] = control
        return transaction

    def find(self, txn_id: bytes, now: int) -> Transaction:
        """The open transaction with that id.

        Raises TransactionNotFound, TransactionTimedOut.
        """
        transaction = self._open.get(txn_id)
        if transaction is not None and now >= transaction.expires_at:
            self._time_out(transaction)
            transaction = None
        if transaction is not None:
            return transaction
        if txn_id in self._timed_out:
            raise TransactionTimedOut(
                "The transaction was rolled back because it was not discharged "
                f"within {self._limits.lifetime_ms // 1000} seconds. Repeat its work "
                "in a new one."
            )
        raise TransactionNotFound()

    def take(self, txn_id: bytes, now: int) -> Transaction:
        """Remove the open transaction with that id; the caller ends it.

        Raises TransactionNotFound, TransactionTimedOut.
        """
        transaction = self.find(txn_id, now)
        self._forget(txn_id)
        return transaction

    def tick(self, now: int) -> None:
        """Roll back transactions that are too old."""
        for transaction in list(self._open.values()):
            if now >= transaction.expires_at:
                self._time_out(transaction)

    def _time_out(self, transaction: Transaction) -> None:
        self._forget(transaction.txn_id)
        transaction.roll_back()
        self._timed_out[transaction.txn_id] = None
        if len(self._timed_out) > self._limits.open_count:
            del self._timed_out[next(iter(self._timed_out))]

    def roll_back_of(self, control: object) -> None:
        """A control link was detached: roll back its open transactions."""
        for txn_id, declared_on in list(self._declared_on.items()):
            if declared_on is control:
                self._roll_back(txn_id)

    def roll_back_all(self) -> None:
        """The connection was closed: roll back everything."""
        for txn_id in list(self._open):
            self._roll_back(txn_id)

    def _roll_back(self, txn_id: bytes) -> None:
        transaction = self._open[txn_id]
        self._forget(txn_id)
        transaction.roll_back()

    def _forget(self, txn_id: bytes) -> None:
        del self._open[txn_id]
        del self._declared_on[txn_id]
