"""An AMQP connection as the caller of operations."""

from collections.abc import Callable

from twinbus.auth.claims import Claim
from twinbus.auth.grants import Grants
from twinbus.broker.home import Home
from twinbus.clock import Clock
from twinbus.operations.session_pages import SessionPages


class ConnectionCaller:
    """Has the claims of the connection's tokens that are valid now."""

    def __init__(
        self,
        grants: Grants,
        clock: Clock,
        introduce: Callable[[Home], int],
        peer_name: str,
    ) -> None:
        """`peer_name`: its address, for the audit log."""
        self.peer_name = peer_name
        self._grants = grants
        self._clock = clock
        self._introduce = introduce
        self._actors: dict[Home, int] = {}
        self.session_pages = SessionPages()

    def require(self, claim: Claim, path: str) -> None:
        self._grants.require(claim, path, self._clock.now())

    def key_name_for(self, claim: Claim, path: str) -> str:
        """The rule that gives the claim; empty if none does."""
        return self._grants.key_name_for(claim, path, self._clock.now())

    def holds(self, claim: Claim, path: str) -> bool:
        return self._grants.allows(claim, path, self._clock.now())

    @property
    def has_shown_key(self) -> bool:
        return bool(self._grants)

    def holds_some(self, path: str) -> bool:
        """True if it has any claim on the path."""
        return self._grants.allows_some(path, self._clock.now())

    def actor_in(self, home: Home) -> int:
        if home not in self._actors:
            self._actors[home] = self._introduce(home)
        return self._actors[home]
