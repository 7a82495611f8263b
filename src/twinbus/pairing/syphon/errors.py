"""Errors that end a round of the syphon, or the whole syphon."""

from twinbus.pairing.errors import PairingError
from twinbus.pairing.failures import REFUSED, FailureKind


class SecondaryError(PairingError):
    """The secondary is away or refuses; the syphon tries again later."""

    def __init__(self, text: str, kind: FailureKind = FailureKind.SERVICE) -> None:
        super().__init__(text)
        # It answers, but refuses the key or the token.
        self.is_refused = kind in REFUSED
        # The queue does not exist any more; a new one of its name is another queue.
        self.is_gone = kind is FailureKind.NOT_FOUND


class PrimaryAway(PairingError):
    """The primary cannot be reached, and the syphon was told not to wait."""
