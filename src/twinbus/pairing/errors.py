"""What can go wrong with a pair and is nobody's SDK's."""


class PairingError(Exception):
    """Root of what a pair raises of its own."""


class CannotCancel(PairingError):
    """A scheduled message that waits in a backlog cannot be cancelled there: the
    namespace is not a twinbus, or serves in strict mode."""


class PairFaulted(PairingError):
    """One side of the pair was closed or failed, and the other did not follow in time;
    it was closed, too (P14)."""
