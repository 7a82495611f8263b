"""Tokens for `$cbs`, from whatever an application has: a key, a token, a credential."""

import inspect
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from twinbus.auth.sas import make
from twinbus.clock import Clock

SAS: Final = "servicebus.windows.net:sastoken"
JWT: Final = "jwt"

_SCOPE: Final = "https://servicebus.azure.net/.default"

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


class CredentialTokens:
    """Asks a credential with `get_token`, synchronous or not, such as azure-identity's.

    `kind` is the type that `$cbs` is told.
    """

    def __init__(self, credential: Any, kind: str = JWT) -> None:
        self._credential = credential
        self._kind = kind

    async def token(self) -> Token:
        found = self._credential.get_token(_SCOPE)
        if inspect.isawaitable(found):
            found = await found
        text = found.token
        text = text.decode() if isinstance(text, bytes) else str(text)
        return Token(text, self._kind, int(found.expires_on) * 1000)
