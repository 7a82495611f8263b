"""Tokens for `$cbs`: made from a key, or made by somebody else."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from twinbus.auth.sas import make
from twinbus.clock import Clock

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
    """Gives tokens for the whole namespace."""

    async def token(self) -> Token: ...


class SharedKey:
    """Makes tokens from a key of the namespace."""

    def __init__(self, host: str, key_name: str, key: str, clock: Clock) -> None:
        self._host = host
        self._key_name = key_name
        self._key = key
        self._clock = clock

    async def token(self) -> Token:
        expires_at = self._clock.now() + _LIFE_MS
        text = make(
            resource=f"sb://{self._host}/",
            key_name=self._key_name,
            key=self._key,
            expires_at=expires_at,
        )
        return Token(text, SAS, expires_at)


class FixedToken:
    """A token that somebody else made."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> Token:
        return Token(self._text, SAS, None)
