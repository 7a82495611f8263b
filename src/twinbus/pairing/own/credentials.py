"""Tokens for `$cbs`: made from a key, or made by somebody else."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from twinbus.auth.sas import make, parse
from twinbus.clock import Clock
from twinbus.errors import AuthenticationFailed

SAS: Final = "servicebus.windows.net:sastoken"

_LIFE_MS: Final = 60 * 60_000
"""Of a token that is made from a key."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    kind: str
    # None: it is not known, and cannot be had anew.
    expires_at: int | None


class TokenSource(Protocol):
    """Gives tokens for a path of the namespace and all below it."""

    # Empty: for the whole namespace.
    scope: str

    async def token(self) -> Token: ...


class SharedKey:
    """Makes tokens from a key of the namespace, or of the entity that is named."""

    def __init__(
        self, host: str, key_name: str, key: str, clock: Clock, scope: str = ""
    ) -> None:
        self.scope = scope
        self._host = host
        self._key_name = key_name
        self._key = key
        self._clock = clock

    async def token(self) -> Token:
        expires_at = self._clock.now() + _LIFE_MS
        text = make(
            resource=f"sb://{self._host}/{self.scope}",
            key_name=self._key_name,
            key=self._key,
            expires_at=expires_at,
        )
        return Token(text, SAS, expires_at)


class FixedToken:
    """A token that somebody else made, for whatever it says."""

    def __init__(self, text: str) -> None:
        self.scope = _scope_of(text)
        self._text = text

    async def token(self) -> Token:
        return Token(self._text, SAS, None)


def _scope_of(token: str) -> str:
    """One that cannot be read is put for the namespace, which says what is wrong."""
    try:
        return parse(token).scope
    except AuthenticationFailed:
        return ""
