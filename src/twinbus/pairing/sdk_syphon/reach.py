"""Whether a namespace answers at all, asked without the SDK.

The SDK opens links to entities and nothing less; so an AMQP connection is opened here,
which needs no right and says nothing of entities. Over WebSockets, or through a proxy,
it is only seen whether somebody listens.
"""

import asyncio
import contextlib
import logging
import ssl
from typing import Any, Final

from azure.servicebus import TransportType

from twinbus.client.connection import connect
from twinbus.client.errors import ClientError
from twinbus.pairing.primary_name import without_port
from twinbus.pairing.sdk.internals import connection_settings

_log = logging.getLogger(__name__)

_TLS_PORT: Final = 5671
_PLAIN_PORT: Final = 5672
_WEB_PORT: Final = 443
_CLOSE_SECONDS: Final = 2.0


class Reach:
    """Asks the namespace of a client of the SDK."""

    def __init__(self, client: Any) -> None:
        self._settings = connection_settings(client)
        # It may have a port, of a bus that is not at the usual one.
        self._name = str(client.fully_qualified_namespace)

    async def __call__(self, timeout_seconds: float) -> bool:
        try:
            if self._is_web:
                await self._look(timeout_seconds)
            else:
                await self._open(timeout_seconds)
        except (OSError, TimeoutError, ClientError) as error:
            _log.info("%s cannot be reached: %s", self._name, error)
            return False
        return True

    @property
    def _is_web(self) -> bool:
        is_web = self._settings["transport_type"] is TransportType.AmqpOverWebsocket
        return is_web or bool(self._settings["http_proxy"])

    async def _open(self, timeout_seconds: float) -> None:
        is_tls = self._settings["use_tls"]
        connection = await connect(
            without_port(self._name),
            self._port(_TLS_PORT if is_tls else _PLAIN_PORT),
            ssl=self._context() if is_tls else None,
            timeout_seconds=timeout_seconds,
        )
        await connection.close(timeout_seconds=_CLOSE_SECONDS)

    async def _look(self, timeout_seconds: float) -> None:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await asyncio.open_connection(
                without_port(self._name), self._port(_WEB_PORT)
            )
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _port(self, usual: int) -> int:
        port = self._name.rpartition(":")[2]
        return int(port) if port.isdecimal() else usual

    def _context(self) -> ssl.SSLContext:
        given = self._settings["ssl_context"]
        if isinstance(given, ssl.SSLContext):
            return given
        return ssl.create_default_context(cafile=self._settings["connection_verify"])
