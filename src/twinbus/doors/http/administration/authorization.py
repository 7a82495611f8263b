"""Tokens of HTTP requests: every call needs the Manage claim on its path.

Metrics need only Listen on the namespace, and accept the key itself: programs that
collect metrics can store a password, but cannot renew a token.

A client that makes an entity forward to another must be allowed to send there. The SDKs
send a second token for this in a separate header; without it, the first token must
allow it.
"""

from base64 import b64decode
from typing import Final
from urllib.parse import quote

from twinbus.auth import sas
from twinbus.auth.claims import Claim, Grant, require
from twinbus.auth.policy import Policy
from twinbus.doors.http.request import HttpRequest
from twinbus.errors import AuthenticationFailed, UnauthorizedAccess

_HEADER: Final = "authorization"
_BASIC: Final = "basic "

FORWARDING_HEADERS: Final = {
    "forward_to": "servicebussupplementaryauthorization",
    "forward_dead_lettered_messages_to": "servicebusdlqsupplementaryauthorization",
}


def path_grant(request: HttpRequest, policy: Policy, path: str, now: int) -> Grant:
    """The grant of the request's token for a path. Raises AuthenticationFailed, and
    UnauthorizedAccess for a token of another path."""
    return _grant(request.headers.get(_HEADER, ""), policy, path, now)


def require_claim(
    request: HttpRequest, claim: Claim, policy: Policy, path: str, now: int
) -> None:
    """Raises AuthenticationFailed, UnauthorizedAccess."""
    grant = _grant(request.headers.get(_HEADER, ""), policy, path, now)
    require((grant,), claim, path, now)


def holds_claim(
    request: HttpRequest, claim: Claim, policy: Policy, path: str, now: int
) -> bool:
    """Whether `require_claim` would not raise."""
    try:
        require_claim(request, claim, policy, path, now)
    except (AuthenticationFailed, UnauthorizedAccess):
        return False
    return True


def widest_grant(request: HttpRequest, policy: Policy, now: int) -> Grant:
    """The grant of the token for its own scope. Raises AuthenticationFailed."""
    token = request.headers.get(_HEADER, "")
    _check_form(token, "")
    try:
        return policy.widest_grant(token, now)
    except AuthenticationFailed as error:
        raise _worded(error, token, "", now) from None


def shows_key(request: HttpRequest, policy: Policy, now: int) -> bool:
    """Whether the client has a key of any rule, even if it gives no right here."""
    proof = request.headers.get(_HEADER, "")
    try:
        if proof.lower().startswith(_BASIC):
            _grant_by_key(proof[len(_BASIC) :], policy)
        else:
            widest_grant(request, policy, now)
    except AuthenticationFailed:
        return False
    return True


def require_send(
    request: HttpRequest, header: str, policy: Policy, target: str, now: int
) -> None:
    """Raises AuthenticationFailed, UnauthorizedAccess."""
    token = request.headers.get(header) or request.headers.get(_HEADER, "")
    require((_grant(token, policy, target, now),), Claim.SEND, target, now)


def require_listen(request: HttpRequest, policy: Policy, now: int) -> None:
    """Requires Listen on the namespace. Raises AuthenticationFailed,
    UnauthorizedAccess."""
    proof = request.headers.get(_HEADER, "")
    if proof.lower().startswith(_BASIC):
        grant = _grant_by_key(proof[len(_BASIC) :], policy)
    else:
        grant = _grant(proof, policy, "", now)
    require((grant,), Claim.LISTEN, "", now)


def _grant_by_key(encoded: str, policy: Policy) -> Grant:
    """The grant for the name and value of a key, in the form of RFC 7617."""
    try:
        key_name, _, key = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        raise AuthenticationFailed("The basic authorization is malformed.") from None
    return policy.grant_by_key(key_name, key)


def _grant(token: str, policy: Policy, path: str, now: int) -> Grant:
    """The grant of the token for a path."""
    _check_form(token, path)
    try:
        # Audiences are percent-encoded, and this one was decoded.
        return policy.grant_by_token(token, quote(path), now)
    except AuthenticationFailed as error:
        raise _worded(error, token, path, now) from None


def _check_form(token: str, path: str) -> None:
    """Raises AuthenticationFailed; the word before the colon is the service's."""
    if not token:
        raise AuthenticationFailed(
            "MissingToken: The request has no Authorization header. Send a shared "
            "access signature in it.",
            entity_path=path,
        )
    if not sas.is_sas(token):
        raise AuthenticationFailed(
            "MalformedToken: The token is not a shared access signature, the only "
            "kind that this server accepts.",
            entity_path=path,
        )


def _worded(
    error: AuthenticationFailed, token: str, path: str, now: int
) -> AuthenticationFailed:
    """The error with the word that the service's text begins with. Raises
    AuthenticationFailed for a token that cannot be parsed."""
    has_expired = sas.parse(token).expires_at <= now
    kind = "ExpiredToken" if has_expired else "InvalidSignature"
    return AuthenticationFailed(f"{kind}: {error.text}", entity_path=path)
