"""Fragments at another broker, as one of the sources of a merged link."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class RemotePart:
    """Delivers on the same link as the fragments that are here."""

    def __init__(self) -> None:
        # It had nothing left since the client asked for a drain, or is away.
        self.is_drained: bool = False
        # Messages for the link that are being removed at the owner.
        self.promised_count: int = 0

    @abstractmethod
    def offer_capacity(self) -> None:
        """The client can take more messages than before, or asks for a drain."""

    @abstractmethod
    def tick(self) -> None:
        """About a second has passed."""

    @abstractmethod
    def close(self) -> None:
        """The link was closed."""
