"""What ends a round of the syphon, or the syphon."""

from twinbus.pairing.errors import PairingError


class SecondaryError(PairingError):
    """The secondary is away or refuses; whoever gets it tries again later.

    `is_refused`: it is there, and the key or the token is not good enough. `is_gone`:
    the queue is not there; one that is made again by its name is another.
    """

    def __init__(
        self, text: str, *, is_refused: bool = False, is_gone: bool = False
    ) -> None:
        super().__init__(text)
        self.is_refused = is_refused
        self.is_gone = is_gone


class PrimaryAway(PairingError):
    """The primary cannot be reached, and nobody is to wait for it."""
