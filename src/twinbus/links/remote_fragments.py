"""Fragments of an entity that other brokers have, as a sender sees them."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.commit_listener import CommitListener


@mypyc_attr(allow_interpreted_subclasses=True)
class RemoteFragments:
    """The ways of one link to the fragments of one entity at other brokers."""

    @abstractmethod
    def serves(self, index: int) -> bool:
        """Another broker serves this fragment."""

    @abstractmethod
    def diverts(self, index: int) -> bool:
        """Nobody serves this fragment, and another broker keeps messages for it."""

    @abstractmethod
    def send(
        self,
        index: int,
        payload: bytes,
        message_format: int,
        delivery_id: int,
        link: CommitListener | None,
    ) -> None:
        """Pass a delivery on as it came. The link is told the outcome, None: nobody.
        Raises ServerBusy."""

    @abstractmethod
    def close(self) -> None:
        """The client's link is gone."""
