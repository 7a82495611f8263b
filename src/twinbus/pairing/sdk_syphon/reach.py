"""Checks without the SDK whether a namespace answers at all.

The SDK always opens a link to an entity. Here only an AMQP connection is opened, which
needs no right and no entity. Over WebSockets or through a proxy, only a TCP connection
is opened.
"""

import asyncio
import contextlib
import logging
from typing import Any, Final

from twinbus.client.connection import connect
from twinbus.client.errors import ClientError
from twinbus.pairing.sdk_syphon.addresses import Endpoint

_log = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 2.0


class Reach:
    """Asks the namespace of a client of the SDK."""

    def __init__(self, client: Any) -> None:
        self._endpoint = Endpoint(client)

    async def __call__(self, timeout_seconds: float) -> bool:
        endpoint = self._endpoint
        try:
            if endpoint.is_plain_amqp:
                await self._open(timeout_seconds)
            else:
                await self._look(timeout_seconds)
        except (OSError, TimeoutError, ClientError) as error:
            _log.info("%s cannot be reached: %s", endpoint.host, error)
            return False
        return True

    async def _open(self, timeout_seconds: float) -> None:
        connection = await connect(
            self._endpoint.host,
            self._endpoint.port,
            ssl=self._endpoint.tls(),
            timeout_seconds=timeout_seconds,
        )
        await connection.close(timeout_seconds=_CLOSE_SECONDS)

    async def _look(self, timeout_seconds: float) -> None:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await asyncio.open_connection(
                self._endpoint.host, self._endpoint.port
            )
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
