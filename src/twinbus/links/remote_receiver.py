"""Deliveries that came from another broker: it holds their locks, and settles them."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.transaction import Transaction


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteReceiver:
    """What a client's AMQP session keeps for such deliveries until they are settled."""

    @abstractmethod
    def settle(self, delivery_id: int, state: object, settled: bool) -> None:
        """Pass the client's outcome on."""

    @abstractmethod
    def settled_some(self) -> None:
        """All outcomes of a disposition were passed on."""

    @abstractmethod
    def is_in(self, transaction: Transaction, delivery_id: int) -> bool:
        """The transaction settles this delivery already."""

    @abstractmethod
    def settle_in(
        self, transaction: Transaction, delivery_id: int, outcome: object
    ) -> bytes:
        """Add a settlement to a transaction; return the state to answer with. Raises
        MessageLockLost, NotAllowed, QuotaExceeded, ServerBusy, and as
        `settlement_of`."""

    @abstractmethod
    def committed(self, delivery_id: int, kind: int) -> None:
        """A transaction has settled the delivery, in this way."""

    @abstractmethod
    def let_go(self, delivery_id: int) -> None:
        """Its transaction was rolled back."""
