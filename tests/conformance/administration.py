"""The SDK's administration client, sync and async, behind one blocking interface.

Both speak HTTPS only; the certificate is from the bus's own authority.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from azure.servicebus.aio.management import (
    ServiceBusAdministrationClient as AsyncAdministrationClient,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus.testing import Bus


class SyncAdministration:
    """The sync client, as it is; lists are read to their end."""

    def __init__(self, bus: Bus, connection_string: str | None = None) -> None:
        self._client = self._kind().from_connection_string(
            connection_string or bus.connection_string,
            connection_verify=str(bus.ca_file),
            retry_total=0,
        )

    def _kind(self) -> Any:
        return ServiceBusAdministrationClient

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        if name.startswith("list_"):
            return lambda *args, **kwargs: list(method(*args, **kwargs))
        return method  # type: ignore[no-any-return]

    def close(self) -> None:
        self._client.close()


class AsyncAdministration(SyncAdministration):
    """The async client, on a loop of its own."""

    def __init__(self, bus: Bus, connection_string: str | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        super().__init__(bus, connection_string)

    def _kind(self) -> Any:
        return AsyncAdministrationClient

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if name.startswith("list_"):
                return [item async for item in method(*args, **kwargs)]
            return await method(*args, **kwargs)

        return lambda *args, **kwargs: self._run(call(*args, **kwargs))

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
