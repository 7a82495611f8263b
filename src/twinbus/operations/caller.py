"""The caller of an operation: its claims, and its number in the operation log."""

from typing import Protocol

from twinbus.auth.claims import Claim
from twinbus.broker.home import Home
from twinbus.operations.session_pages import SessionPages


class Caller(Protocol):
    """A client whose token the door has checked."""

    # Positions in its lists of sessions.
    session_pages: SessionPages

    def require(self, claim: Claim, path: str) -> None:
        """Raises UnauthorizedAccess unless the caller has the claim on the path now."""
        ...

    def holds(self, claim: Claim, path: str) -> bool:
        """True if it has the claim on the path now. An empty path is the namespace."""
        ...

    def actor_in(self, home: Home) -> int:
        """Its number in the operation log of a store."""
        ...
