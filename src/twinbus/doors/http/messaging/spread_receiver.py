"""Receives from an entity, some of whose fragments other brokers have.

All of them are asked for a message. Those of this broker hold nothing for a request.
Another broker reserves a message, and it may come when the request has got one from
elsewhere. It is held then, and handed out by the next receive of the same connection.
If there is none within a second it goes back, as it does when the connection ends.
"""

import asyncio
from typing import Final

from twinbus.amqp.events import MessageReceived
from twinbus.broker.message_lock import token_fragment, token_sequence
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.entities.entity import Entity
from twinbus.errors import ServiceBusError
from twinbus.operations.received_message import ReceivedMessage
from twinbus.operations.receiving import RequestReceiver
from twinbus.peers.peers import Peers
from twinbus.peers.reserved_messages import ReservedMessages

_HELD_SECONDS: Final = 1.0
"""How long a message is held for the next request, as for a link without credit."""

_LOOK_SECONDS: Final = 5.0
"""How long other brokers may take to say that they have nothing."""


class SpreadReceiver:
    """Receives for the requests of one connection."""

    def __init__(
        self,
        peers: Peers,
        entity: Entity,
        local: RequestReceiver | None,
        peek_lock: bool,
    ) -> None:
        """`local` receives from the fragments that are here, if there are any."""
        self._peers = peers
        self.entity = entity
        self._local = local
        self._peek_lock = peek_lock
        self.remotes: list[ReservedMessages] = []
        self._news = asyncio.Event()
        self._ends_at = 0.0
        # Gives back what is held.
        self._giving_back: asyncio.TimerHandle | None = None
        self._error: ServiceBusError | None = None
        entity.receive_links().add(self)

    def on_news(self) -> None:
        """Another broker has said something."""
        self._news.set()
        if self._local is not None and self._has_some():
            self._local.hurry()

    @property
    def is_over(self) -> bool:
        """It lacks a part of the fragments, or is detached."""
        is_lost = any(remote.is_lost for remote in self.remotes)
        return is_lost or self._error is not None

    # --- receiving ------------------------------------------------------------

    async def receive_one(self, wait_seconds: float) -> ReceivedMessage | None:
        """None if there was none in time. Raises the reason if it was detached."""
        loop = asyncio.get_running_loop()
        self._ends_at = loop.time() + wait_seconds
        self._stop_timer()
        try:
            while True:
                found = await self._held() or await self._waited()
                if found is not None:
                    return found
                if self._error is not None:
                    raise self._error
                if not self._has_some() and loop.time() >= self._ends_at:
                    return None
        finally:
            self._rest()

    async def _held(self) -> ReceivedMessage | None:
        """What another broker has reserved."""
        for remote in self.remotes:
            while remote.has_some():
                if self._peek_lock:
                    return _received(remote.take(), is_locked=True)
                message, done = remote.complete()
                self._peers.flush()
                if await done:
                    return _received(message, is_locked=False)
        return None

    async def _waited(self) -> ReceivedMessage | None:
        """A message of this broker; None if the time is over or another has one."""
        left = self._ends_at - asyncio.get_running_loop().time()
        is_last = left <= 0
        self._news.clear()
        for remote in self.remotes:
            remote.ask(drains=is_last)
        self._peers.flush()
        if self._local is not None:
            received = await self._local.receive(1, max(left, 0))
            if received:
                return received[0]
        elif not is_last:
            await self._news_within(left)
        if is_last:
            await self._told_by_all()
        return None

    async def _told_by_all(self) -> None:
        """Wait until one has a message, or all have said that they have none."""
        ends_at = asyncio.get_running_loop().time() + _LOOK_SECONDS
        while not self._has_some() and not all(one.is_drained for one in self.remotes):
            left = ends_at - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._news.clear()
            await self._news_within(left)

    async def _news_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def _has_some(self) -> bool:
        return any(remote.has_some() for remote in self.remotes)

    def hurry(self) -> None:
        """End the wait of the request, if there is one."""
        self._ends_at = 0.0
        self._news.set()
        if self._local is not None:
            self._local.hurry()

    # --- between requests -----------------------------------------------------

    def _rest(self) -> None:
        """Nothing more is asked for; what comes all the same is held for a while."""
        for remote in self.remotes:
            remote.rest()
        self._peers.flush()
        loop = asyncio.get_running_loop()
        self._giving_back = loop.call_later(_HELD_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._giving_back = None
        for remote in self.remotes:
            remote.give_back()
        self._peers.flush()

    def _stop_timer(self) -> None:
        if self._giving_back is not None:
            self._giving_back.cancel()
            self._giving_back = None

    # --- ending ---------------------------------------------------------------

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted or disabled, or a store has moved."""
        self._error = error
        self.close()
        self.hurry()

    def close(self) -> None:
        self._stop_timer()
        self.entity.receive_links().discard(self)
        if self._local is not None:
            self._local.close()
        for remote in self.remotes:
            remote.close()
        self._peers.flush()


def _received(message: MessageReceived, *, is_locked: bool) -> ReceivedMessage:
    token = message.delivery_tag
    number = token_fragment(token) << SEQUENCE_BITS | token_sequence(token)
    return ReceivedMessage(message.payload, number, token if is_locked else b"")
