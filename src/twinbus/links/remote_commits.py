"""Commits of transactions in stores that other brokers have."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.home import Home
from twinbus.broker.transaction import Transaction


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteCommits:
    """Asks the brokers that have these stores."""

    @abstractmethod
    def reaches(self, home: Home) -> bool:
        """Another broker serves this store now."""

    @abstractmethod
    def commit(
        self, transaction: Transaction, item: int, listener: CommitListener
    ) -> None:
        """Have all of its work done. The listener gets the outcome under `item`; an
        InternalError means that it is not known."""
