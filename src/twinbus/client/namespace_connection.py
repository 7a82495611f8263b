"""One shared connection to a namespace, with tokens that are kept valid.

It is opened at the first use, and again after it was lost. A token is put for the whole
namespace, and renewed long before it expires. A token that is good for a part of the
namespace only is put for each path that is asked for, as the SDKs do.
"""

import asyncio
import logging
from typing import Final

from twinbus.client.address import NamespaceAddress
from twinbus.client.connection import ClientConnection, connect
from twinbus.client.credentials import Token
from twinbus.client.errors import ClientError
from twinbus.clock import Clock

_log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0

_RENEWAL: Final = 0.75
"""The part of its life after which a token is renewed."""

_RETRY_SECONDS: Final = 10.0


class NamespaceConnection:
    """One AMQP connection, shared by all links to a namespace."""

    def __init__(
        self, address: NamespaceAddress, clock: Clock, user_agent: str = ""
    ) -> None:
        self.address = address
        # Who we say we are.
        self._user_agent = user_agent
        self._clock = clock
        self._connection: ClientConnection | None = None
        self._renewing: asyncio.Task[None] | None = None
        # The paths that a token was put for, on this connection.
        self._audiences: set[str] = set()
        # Two first users open one connection.
        self._mutex = asyncio.Lock()

    async def get(self, path: str = "") -> ClientConnection:
        """The open connection, with a token for this path.

        Without a path the token is for its whole scope. Raises OSError, TimeoutError,
        ClientError.
        """
        audience = self._audience(path)
        async with self._mutex:
            if self._connection is None or not self._connection.is_open:
                await self._drop()
                self._connection = await self._open(audience)
            elif audience not in self._audiences:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._put_token(self._connection, audience)
            return self._connection

    def _audience(self, path: str) -> str:
        scope = self.address.tokens.scope
        return f"sb://{self.address.host}/{path or scope if scope else ''}"

    async def _open(self, audience: str) -> ClientConnection:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await connected(
                self.address, _CONNECT_SECONDS, self._user_agent
            )
            try:
                token = await self._put_token(connection, audience)
            except BaseException:
                connection.abort()
                raise
        self._renewing = asyncio.create_task(
            self._renew(connection, token), name=f"tokens for {self.address.text}"
        )
        return connection

    async def _put_token(self, connection: ClientConnection, audience: str) -> Token:
        token = self.address.tokens.token()
        await connection.put_token(audience, token.text)
        self._audiences.add(audience)
        return token

    async def _renew(self, connection: ClientConnection, token: Token) -> None:
        """Renew the tokens while the connection is open; after a failure, try again."""
        while token.expires_at is not None and connection.is_open:
            life_ms = max(token.expires_at - self._clock.now(), 0)
            await asyncio.sleep(max(life_ms / 1000 * _RENEWAL, _RETRY_SECONDS))
            try:
                for audience in sorted(self._audiences):
                    token = await self._put_token(connection, audience)
            except (ClientError, OSError, TimeoutError) as error:
                _log.warning(
                    "a token for %s was not renewed: %s", self.address.text, error
                )

    async def _drop(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        self._renewing = None
        self._audiences.clear()
        if self._connection is not None:
            await self._connection.close(timeout_seconds=_CLOSE_SECONDS)
        self._connection = None

    def forget(self) -> None:
        """Drop a connection that does not answer. The next use opens another."""
        connection, self._connection = self._connection, None
        self._audiences.clear()
        if self._renewing is not None:
            self._renewing.cancel()
        if connection is not None:
            connection.abort()

    async def close(self) -> None:
        """Never raises, never hangs."""
        await self._drop()


async def connected(
    address: NamespaceAddress, timeout_seconds: float, user_agent: str = ""
) -> ClientConnection:
    """A new connection, before any token is put."""
    return await connect(
        address.host,
        address.port,
        ssl=address.tls,
        user_agent=user_agent,
        timeout_seconds=timeout_seconds,
    )
