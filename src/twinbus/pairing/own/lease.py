"""The lease over `twinbus.client`: the lock of a session, renewed while needed."""

import asyncio
from typing import Final

from twinbus.amqp.types import Described, Symbol, UInt
from twinbus.client.errors import ClientError, LinkClosed
from twinbus.client.management import ask
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.client.receiver import ClientReceiver
from twinbus.errors import OperationTimeout, SessionCannotBeLocked
from twinbus.pairing.own.failures import secondary_errors
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.settings import LEASE_SESSION

_FILTER: Final = Symbol("com.microsoft:session-filter")

_TIMEOUT: Final = Symbol("com.microsoft:timeout")

_ATTACH_MS: Final = 30_000
"""How long one attach waits for the session."""

_RETRY_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 2.0
_NOT_YET: Final = (SessionCannotBeLocked.condition, OperationTimeout.condition)


class OwnLease:
    """`Lease` at a queue of a twinbus namespace."""

    def __init__(self, connection: NamespaceConnection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._receiver: ClientReceiver | None = None

    async def acquire(self) -> None:
        async with secondary_errors():
            while True:
                try:
                    self._receiver = await self._attach()
                    return
                except LinkClosed as refused:
                    told = refused.error
                    if told is None or told.condition not in _NOT_YET:
                        raise
                await asyncio.sleep(_RETRY_SECONDS)

    async def _attach(self) -> ClientReceiver:
        connection = await self._connection.get(self._path)
        return await connection.receiver(
            self._path,
            credit=0,
            source_filter={_FILTER: Described(_FILTER, LEASE_SESSION)},
            properties={_TIMEOUT: UInt(_ATTACH_MS)},
            timeout_seconds=_ATTACH_MS / 1000 * 2,
        )

    async def renew(self) -> None:
        receiver = self._receiver
        if receiver is None or not receiver.usable:
            raise SecondaryError(f"The lease at {self._path} was lost.")
        async with secondary_errors():
            connection = await self._connection.get(self._path)
            body: dict[object, object] = {"session-id": LEASE_SESSION}
            await ask(connection, self._path, "renew-session-lock", body)

    async def release(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and receiver.usable:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await receiver.close()
            except (ClientError, TimeoutError):
                # The lock ends by itself.
                return
