"""One side of a pair over the SDK: doors by an asynchronous client of its own.

Links that were given up are closed here, in the background and within a time: the SDK
waits for its peer, which may be the very reason why the link was given up.
"""

import asyncio
from typing import Any, Final

from azure.servicebus.aio import ServiceBusClient

from twinbus.pairing.sdk import internals
from twinbus.pairing.sdk.door import SdkDoor

CLOSE_SECONDS: Final = 2.0
"""For a peer to answer the end of a link; afterwards its socket is closed."""


class SdkNamespace:
    """`Namespace` for azure-servicebus. Its client is its own, and closed with it."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.client = client
        self.name = client.fully_qualified_namespace
        # The largest batch by path, as the last open link said.
        self._batch_bytes: dict[str, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def door(self, path: str) -> SdkDoor:
        return SdkDoor(self, path)

    def note_batch_bytes(self, path: str, batch_bytes: int | None) -> None:
        if batch_bytes is not None:
            self._batch_bytes[path.lower()] = batch_bytes

    def batch_bytes(self, path: str) -> int | None:
        """How large a batch for the entity may be, if a link has said."""
        return self._batch_bytes.get(path.lower())

    def discard(self, link: Any) -> None:
        """Close a sender or receiver in the background."""
        task = asyncio.get_running_loop().create_task(
            internals.close_link(link, CLOSE_SECONDS)
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Wait until all that was given up is closed: a few seconds at most."""
        while self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
        await self.client.close()
