"""An HTTP request as the caller of operations, on one entity or on many."""

from dataclasses import replace
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.auth.resource import covers
from twinbus.broker.home import Home
from twinbus.broker.log_book import actor_text
from twinbus.doors.http.administration.authorization import (
    holds_claim,
    require_claim,
    widest_grant,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.operations.session_pages import SessionPages

_ACTORS: Final = 1_000
"""Callers whose number in the operation log is kept."""


class Actors:
    """Numbers of HTTP callers in the operation log of each store, by their names."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Home, str], int] = {}

    def number(self, home: Home, name: str) -> int:
        key = (home, name)
        if key not in self._numbers:
            if len(self._numbers) >= _ACTORS:
                self._forget()
            self._numbers[key] = home.introduce(name)
        return self._numbers[key]

    def _forget(self) -> None:
        for (home, _), number in self._numbers.items():
            home.dismiss(number)
        self._numbers.clear()


class HttpCaller:
    """Checks the signature once, and each entity against its grant."""

    def __init__(
        self, request: HttpRequest, policy: Policy, now: int, actors: Actors
    ) -> None:
        """Raises AuthenticationFailed for a token without any right."""
        self._request = request
        self._policy = policy
        self._now = now
        self._actors = actors
        self._grant = widest_grant(request, policy, now)
        # Its name in the operation log.
        self.name = "bulk"
        self.session_pages = SessionPages()

    @property
    def key_name(self) -> str:
        """The key that has signed the token."""
        return self._grant.key_name

    @property
    def expires_at(self) -> int | None:
        return self._grant.expires_at

    def stand_for(self, entity: str, path: str) -> None:
        """Clients may sign the path of the request instead of the entity that it is
        about, which is above it."""
        scope = self._grant.path
        if covers(entity, scope) and covers(scope, path):
            self._grant = replace(self._grant, path=entity.lower())

    def require(self, claim: Claim, path: str) -> None:
        """Raises AuthenticationFailed, UnauthorizedAccess."""
        path = path.strip("/")
        if not self._grant.allows(claim, path, self._now):
            # The slow way: another rule may have the same key. Raises if none has.
            require_claim(self._request, claim, self._policy, path, self._now)

    def holds(self, claim: Claim, path: str) -> bool:
        return self._grant.allows(claim, path, self._now) or holds_claim(
            self._request, claim, self._policy, path, self._now
        )

    def actor_in(self, home: Home) -> int:
        return self._actors.number(home, actor_text("", self.name, self.key_name))
