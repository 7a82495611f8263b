"""Tokens that prove a right: made from a key, or given as they are."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from twinbus.auth.sas import make, parse
from twinbus.client.connection_string import ConnectionString
from twinbus.clock import Clock
from twinbus.errors import AuthenticationFailed

_LIFE_MS: Final = 60 * 60_000
"""Of a token that is made from a key."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    # None: unknown, and there is no way to get a new one.
    expires_at: int | None


class TokenSource(Protocol):
    """Gives tokens for a path of the namespace and everything below it."""

    # Empty: the whole namespace.
    scope: str

    def token(self) -> Token: ...


class SharedKey:
    """Makes tokens from a key: of the namespace, or of the entity in `scope`."""

    def __init__(
        self, host: str, key_name: str, key: str, clock: Clock, scope: str = ""
    ) -> None:
        self.scope = scope
        self._host = host
        self._key_name = key_name
        self._key = key
        self._clock = clock

    def token(self) -> Token:
        expires_at = self._clock.now() + _LIFE_MS
        text = make(
            resource=f"sb://{self._host}/{self.scope}",
            key_name=self._key_name,
            key=self._key,
            expires_at=expires_at,
        )
        return Token(text, expires_at)


class FixedToken:
    """A token that somebody else made; its text says what it is for."""

    def __init__(self, text: str) -> None:
        self.scope = _scope_of(text)
        self._text = text

    def token(self) -> Token:
        return Token(self._text, None)


def token_source(
    parsed: ConnectionString, clock: Clock, scope: str = ""
) -> TokenSource:
    """The tokens of a connection string; `scope` is for those made from a key."""
    if parsed.signature:
        return FixedToken(parsed.signature)
    return SharedKey(parsed.host, parsed.key_name, parsed.key, clock, scope)


def _scope_of(token: str) -> str:
    """The whole namespace if the token cannot be read: the peer says what is wrong."""
    try:
        return parse(token).scope
    except AuthenticationFailed:
        return ""
