"""A client of another broker, as the caller of operations.

That broker has checked its claims. Its name, and the end of its token, come with the
request.
"""

from typing import Final
from urllib.parse import quote, unquote

from twinbus.auth.claims import Claim
from twinbus.broker.home import Home
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.request import HttpRequest
from twinbus.errors import AuthenticationFailed
from twinbus.operations.session_pages import SessionPages

_CLIENT: Final = "x-twinbus-client"
_EXPIRES: Final = "x-twinbus-expires"
_MAY_RESTORE: Final = "x-twinbus-may-restore"


def forwarded_headers(caller: HttpCaller) -> dict[str, str]:
    """What another broker is told of a client."""
    headers = {
        _CLIENT: quote(f"{caller.name} for {caller.key_name}"),
        _MAY_RESTORE: "yes" if caller.holds(Claim.SEND, "") else "no",
    }
    if caller.expires_at is not None:
        headers[_EXPIRES] = str(caller.expires_at)
    return headers


class ForwardedCaller:
    """Made from the headers of another broker's request."""

    def __init__(self, request: HttpRequest, now: int, actors: Actors) -> None:
        """Raises AuthenticationFailed if the client's token has expired on the way."""
        expires_at = request.headers.get(_EXPIRES)
        if expires_at is not None and int(expires_at) <= now:
            raise AuthenticationFailed(
                "The token of the client expired on the way to the entity."
            )
        self._name = unquote(request.headers.get(_CLIENT, "bulk"))
        self._may_restore = request.headers.get(_MAY_RESTORE) == "yes"
        self._actors = actors
        self.session_pages = SessionPages()

    def require(self, claim: Claim, path: str) -> None:
        """The other broker has checked it."""

    def holds(self, claim: Claim, path: str) -> bool:
        """Asked for the whole namespace only, to restore messages."""
        return self._may_restore

    def actor_in(self, home: Home) -> int:
        return self._actors.number(home, self._name)
