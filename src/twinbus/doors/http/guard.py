"""Counts wrong keys of HTTP clients, and notes their administration in the audit log.

It looks at the token of a request before and after the request is answered. The answer
itself comes from those who know which claim is needed. A wrong key counts once: of a
connection that has shown none yet when its headers are read, otherwise when the request
is refused.
"""

from base64 import b64decode
from typing import Final

from twinbus.auth import sas
from twinbus.auth.policy import Policy
from twinbus.doors.audit import audit
from twinbus.doors.http.administration.refusal import refusal_response
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.errors import AuthenticationFailed, ServerBusy

_BASIC: Final = "basic "
_HEADERS: Final = (
    "authorization",
    "servicebussupplementaryauthorization",
    "servicebusdlqsupplementaryauthorization",
)
_UNAUTHORIZED: Final = 401
_LOOKS: Final = ("GET", "HEAD")


def held_up(request: HttpRequest) -> HttpResponse | None:
    """The refusal of a client that was wrong too often."""
    # Nearly always: then nothing is parsed.
    if not request.visitor.has_failed:
        return None
    try:
        for header in _HEADERS:
            key_name = _key_name(request.headers.get(header, ""))
            if key_name:
                request.visitor.check(key_name)
    except ServerBusy as error:
        response = refusal_response(error)
        seconds = -(-request.visitor.held_ms(key_name) // 1000)
        headers = {**response.headers, "retry-after": str(seconds)}
        return HttpResponse(status=response.status, body=response.body, headers=headers)
    return None


def is_guess(request: HttpRequest, policy: Policy) -> bool:
    """Whether the key is wrong. Counts it: the client has shown no other."""
    proof = request.headers.get(_HEADERS[0], "")
    key_name = _key_name(proof)
    if not key_name or _is_proved(proof, policy):
        return False
    request.visitor.failed(key_name, policy)
    return True


def note_outcome(request: HttpRequest, status: int, policy: Policy) -> None:
    """Count a wrong key; a right one ends the count."""
    visitor, is_refused = request.visitor, status == _UNAUTHORIZED
    if not is_refused and not visitor.has_failed:
        return
    for header in _HEADERS:
        proof = request.headers.get(header, "")
        key_name = _key_name(proof)
        was_looked_at = request.is_of_stranger and header == _HEADERS[0]
        if not key_name or was_looked_at:
            continue
        # Not every answer means that the proof was checked: /health needs none.
        if _is_proved(proof, policy):
            visitor.proved(key_name)
        elif is_refused:
            visitor.failed(key_name, policy)


def note_administration(request: HttpRequest, status: int, policy: Policy) -> None:
    """Write it into the audit log: of calls without a valid key, a line a second."""
    proof = request.headers.get(_HEADERS[0], "")
    key_name, result = _key_name(proof), f"HTTP {status}"
    looks = request.method in _LOOKS and "keys" not in request.query
    is_known = status != _UNAUTHORIZED or (key_name and _is_proved(proof, policy))
    if not looks and not is_known:
        count = request.visitor.refused_calls_due()
        if not count:
            return
        result += f"; such calls without a valid key since the last line: {count}"
    call = f"{request.method} /{request.path[:300]}"
    audit(request.visitor.name, key_name, call, result, looks=looks)


def _is_proved(proof: str, policy: Policy) -> bool:
    if not _is_basic(proof):
        return policy.is_signed(proof)
    try:
        policy.grant_by_key(*_named_key(proof))
    except AuthenticationFailed:
        return False
    return True


def _key_name(proof: str) -> str:
    """The rule that the client names; empty if it names none."""
    if not proof:
        return ""
    if _is_basic(proof):
        return _named_key(proof)[0]
    try:
        return sas.parse(proof).key_name
    except AuthenticationFailed:
        return ""


def _is_basic(proof: str) -> bool:
    return proof[: len(_BASIC)].lower() == _BASIC


def _named_key(proof: str) -> tuple[str, str]:
    try:
        text = b64decode(proof[len(_BASIC) :], validate=True).decode()
    except ValueError:
        return "", ""
    key_name, _, key = text.partition(":")
    return key_name, key
