"""Errors that end a round of the syphon, or the whole syphon."""

from twinbus.pairing.errors import PairingError
from twinbus.pairing.failures import ASKS_FOR_PATIENCE, REFUSED, FailureKind


class SecondaryError(PairingError):
    """The secondary is away or refuses; the syphon tries again later."""

    def __init__(self, text: str, kind: FailureKind = FailureKind.SERVICE) -> None:
        super().__init__(text)
        # It answers, but refuses the key or the token.
        self.is_refused = kind in REFUSED
        # The queue does not exist any more; a new one of its name is another queue.
        self.is_gone = kind is FailureKind.NOT_FOUND
        # As what it closes a gate: one that is busy is left alone for longer (A2).
        self.gate_kind = FailureKind.SERVICE
        if self.is_refused:
            self.gate_kind = FailureKind.AUTHORIZATION
        elif kind in ASKS_FOR_PATIENCE:
            self.gate_kind = kind


class PrimaryAway(PairingError):
    """The primary cannot be reached, and the syphon was told not to wait."""
