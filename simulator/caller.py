"""A simulated client as the caller of operations."""

from twinbus.auth.claims import Claim
from twinbus.broker.home import Home
from twinbus.operations.session_pages import SessionPages


class TrustedCaller:
    """May do everything; sending to the whole namespace, and so restoring messages,
    only if that is said."""

    def __init__(self, name: str, *, may_restore: bool = False) -> None:
        self._name = name
        self._may_restore = may_restore
        self._actors: dict[Home, int] = {}
        self.session_pages = SessionPages()

    def require(self, claim: Claim, path: str) -> None:
        """Nothing is refused."""

    def holds(self, claim: Claim, path: str) -> bool:
        return self._may_restore or path != ""

    def actor_in(self, home: Home) -> int:
        if home not in self._actors:
            self._actors[home] = home.introduce(self._name)
        return self._actors[home]
