"""The commit of a transaction: checked as a whole, then applied as a whole.

It is an admission, because some work needs a look-up in the store first. Nothing else
runs between the check and the last change; all changes are in one change set.
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.transaction import Transaction
from twinbus.errors import ServiceBusError


@mypyc_attr(allow_interpreted_subclasses=True)
class TransactionListener(CommitListener):
    """Gets the outcomes of commits that it asked for."""

    @abstractmethod
    def applied(self, transaction: Transaction, answer_to: int) -> None:
        """Everything is in the open change set; the listener waits for its commit."""

    @abstractmethod
    def refused(self, answer_to: int, error: ServiceBusError) -> None:
        """The transaction could not be committed; nothing was applied."""


@final
class Commit(Admission):
    """A transaction that waits to be applied to the next change set."""

    def __init__(
        self,
        transaction: Transaction,
        answer_to: int,
        listener: TransactionListener,
    ) -> None:
        super().__init__()
        self._transaction: Transaction = transaction
        self._answer_to: int = answer_to
        self._listener: TransactionListener = listener
        self.pending_bytes = transaction.held_bytes
        transaction.ask(self)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        transaction = self._transaction
        try:
            transaction.check(now)
        except ServiceBusError as error:
            transaction.roll_back()
            self._listener.refused(self._answer_to, error)
            return
        transaction.apply(duplicates, now)
        self._listener.applied(transaction, self._answer_to)
