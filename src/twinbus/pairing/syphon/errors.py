"""Errors that end a round of the syphon, or the whole syphon."""

from twinbus.pairing.errors import PairingError


class SecondaryError(PairingError):
    """The secondary is away or refuses; the syphon tries again later.

    `is_refused`: it answers, but refuses the key or the token. `is_gone`: the queue
    does not exist any more; a new queue of the same name is another queue.
    """

    def __init__(
        self, text: str, *, is_refused: bool = False, is_gone: bool = False
    ) -> None:
        super().__init__(text)
        self.is_refused = is_refused
        self.is_gone = is_gone


class PrimaryAway(PairingError):
    """The primary cannot be reached, and the syphon was told not to wait."""
