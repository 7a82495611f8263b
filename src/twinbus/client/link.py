"""What senders and receivers share: attaching, waiting for a change, ending.

The connection tells a link of events. Any event wakes everybody who waits at the link;
each of them then checks whether its own condition is true. So there is one way to wait,
and no future per message.
"""

import asyncio
from typing import Protocol

from twinbus.amqp.errors import NOT_FOUND, AmqpError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.link import Link
from twinbus.client.errors import ClientError, LinkClosed


class Wire(Protocol):
    """What a link needs of its connection."""

    def flush(self) -> None:
        """Write what the engine has to send."""

    async def writable(self) -> None:
        """Wait while the transport has more to write than it should."""


class ClientLink:
    """Base of ClientSender and ClientReceiver; lives from its attach to its detach."""

    def __init__(self, wire: Wire, link: Link) -> None:
        self._wire = wire
        self._link = link
        self._attached = False
        # Why the link cannot be used any more; None while it can.
        self._failure: ClientError | None = None
        self._detached = False
        self._waiters: list[asyncio.Future[None]] = []
        link.context = self

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def usable(self) -> bool:
        return self._failure is None

    @property
    def is_entity_gone(self) -> bool:
        """It was detached because its entity was deleted."""
        error = None if self._failure is None else self._failure.error
        return error is not None and error.condition == NOT_FOUND

    async def attached(self) -> None:
        """Wait for the peer's answer. Raises LinkClosed if it refused."""
        while not self._attached:
            self.check()
            await self.changed()

    async def close(self) -> None:
        """Detach, and wait until the peer has detached, too."""
        if not self._detached and self._failure is None:
            self._failure = LinkClosed(f"link {self.name} was closed by us")
            self._link.detach()
            self._wire.flush()
            while not self._detached:
                await self.changed()
        self._link.session.end()
        self._wire.flush()

    def check(self) -> None:
        """Raise the link's failure, if it has one."""
        if self._failure is not None:
            raise self._failure

    async def changed(self) -> None:
        """Wait until something about the link has changed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def on_attached(self) -> None:
        self._attached = True
        self.wake()

    def on_message(self, message: MessageReceived) -> None:
        """A message has come. Only receivers get messages, and override this."""

    def on_detached(self, error: AmqpError | None) -> None:
        self.on_lost(LinkClosed(f"the peer detached link {self.name}", error))

    def on_lost(self, failure: ClientError) -> None:
        """The link, its session or its connection is gone: tell everybody who waits."""
        self._detached = True
        if self._failure is None:
            self._failure = failure
        self.wake()
