"""Who asks for an operation: what it may do, and its name in the operation log."""

from typing import Protocol

from twinbus.auth.claims import Claim
from twinbus.broker.home import Home
from twinbus.operations.session_pages import SessionPages


class Caller(Protocol):
    """A client at a door, which has checked its token."""

    # Where its lists of sessions have got to.
    session_pages: SessionPages

    def require(self, claim: Claim, path: str) -> None:
        """Raises UnauthorizedAccess unless the caller has the claim on the path now."""
        ...

    def holds(self, claim: Claim, path: str) -> bool:
        """Whether it has the claim on the path now; the empty path is the namespace."""
        ...

    def actor_in(self, home: Home) -> int:
        """Its number in the operation log of a store."""
        ...
