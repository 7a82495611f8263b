"""Waits for the commit of an admission.

`StoreOwner.durable` waits for the open change set. An admission may not be in it yet:
another commit may come first, or fail and leave the admission to the next one.
"""

import asyncio

from twinbus.broker.commit_listener import CommitListener
from twinbus.errors import ServiceBusError


class AwaitedCommit(CommitListener):
    """Gets the outcome of one admission."""

    def __init__(self) -> None:
        super().__init__()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def done(self) -> None:
        """Wait for the commit. Raises ServiceBusError if nothing of it happened, or if
        that is unknown."""
        await self._done

    def committed(self, items: list[int]) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if not self._done.done():
            self._done.set_exception(error)
