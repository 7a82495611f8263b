"""One side of a pair over the SDK: doors by an asynchronous client of its own.

Links that were dropped are closed here, in the background and within a time limit: the
SDK waits for its peer, which may be the very reason why the link was dropped. For the
same reason nobody waits for a call that was cancelled. The SDK cleans up after a
cancellation, and may even ignore it. Closing the link waits a while for that, then cuts
it off.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from azure.servicebus.aio import ServiceBusClient

from twinbus.pairing.sdk.door import SdkDoor
from twinbus.sdk_internals import links

T = TypeVar("T")


class SdkNamespace:
    """`Namespace` for azure-servicebus. Its client is its own, and closed with it."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.client = client
        self.name = client.fully_qualified_namespace
        # The largest batch by path, as the last open link said.
        self._batch_bytes: dict[str, int] = {}
        # Senders and receivers that are open, or may be.
        self._links: set[Any] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def door(self, path: str, link: Mapping[str, Any] | None = None) -> SdkDoor:
        """`link`: more arguments for the SDK's `get_queue_sender`."""
        return SdkDoor(self, path, link)

    # --- for doors --------------------------------------------------------------------

    def keep(self, link: T) -> T:
        """Remember the link, so that it is closed with the namespace at the latest."""
        self._links.add(link)
        links.remember_connection(link)
        return link

    def call(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a call over a link, in a task that nobody has to wait for."""
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._call_ended)
        return task

    def _call_ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            # Maybe nobody waits for it: then asyncio must not complain.
            task.exception()

    def discard(self, link: Any, left: asyncio.Task[Any] | None = None) -> None:
        """In the background, close a link and end the call that was left on it."""
        self._links.discard(link)
        task = asyncio.get_running_loop().create_task(_close(link, left))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def note_batch_bytes(self, path: str, batch_bytes: int | None) -> None:
        if batch_bytes is not None:
            self._batch_bytes[path.lower()] = batch_bytes

    # --- for the pair -----------------------------------------------------------------

    def batch_bytes(self, path: str) -> int | None:
        """How large a batch for the entity may be, if a link has told it."""
        return self._batch_bytes.get(path.lower())

    async def close(self) -> None:
        """End calls and close links; a few seconds at most."""
        for call in self._calls:
            call.cancel()
        await _ended(self._calls)
        for link in list(self._links):
            self.discard(link)
        await _ended(self._closing)
        await self.client.close()


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait a few seconds for tasks that end soon."""
    if tasks:
        await asyncio.wait(set(tasks), timeout=2 * links.CLOSE_SECONDS)


async def _close(link: Any, left: asyncio.Task[Any] | None) -> None:
    if left is not None:
        left.cancel()
        await asyncio.wait([left], timeout=links.CLOSE_SECONDS)
    await links.close_link(link)
