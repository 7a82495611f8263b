"""Errors of a pair that no SDK has."""


class PairingError(Exception):
    """Base of a pair's own errors."""


class CannotCancel(PairingError):
    """A scheduled message that waits in a backlog cannot be cancelled there: the
    namespace is not a twinbus, or serves in strict mode."""


class PairFaulted(PairingError):
    """One side of the pair was closed or failed, and the other did not follow in time;
    it was closed, too (P14)."""
