"""What the token of one request allows, for the many entities that it names."""

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.doors.http.administration.authorization import (
    holds_claim,
    require_claim,
    widest_grant,
)
from twinbus.doors.http.request import HttpRequest


class Rights:
    """Checks the signature once, and every entity by what that gave."""

    def __init__(self, request: HttpRequest, policy: Policy, now: int) -> None:
        """Raises AuthenticationFailed for a token that is good for nothing at all."""
        self._request = request
        self._policy = policy
        self._now = now
        self._grant = widest_grant(request, policy, now)

    def require(self, claim: Claim, path: str) -> None:
        """Raises AuthenticationFailed, UnauthorizedAccess."""
        path = path.strip("/")
        if not self._grant.allows(claim, path, self._now):
            # The long way: another rule may have the same key, and if none has, it
            # finds the words.
            require_claim(self._request, claim, self._policy, path, self._now)

    def hold(self, claim: Claim, path: str) -> bool:
        return self._grant.allows(claim, path, self._now) or holds_claim(
            self._request, claim, self._policy, path, self._now
        )
