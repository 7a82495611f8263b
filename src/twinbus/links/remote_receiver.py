"""Deliveries that came from another broker: it holds their locks, and settles them."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteReceiver:
    """What a client's AMQP session keeps for such deliveries until they are settled."""

    @abstractmethod
    def settle(self, delivery_id: int, state: object, settled: bool) -> None:
        """Pass the client's outcome on."""

    @abstractmethod
    def settled_some(self) -> None:
        """All outcomes of a disposition were passed on."""
