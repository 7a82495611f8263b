"""Receive: gets messages up to a number, and waits for the first.

Links have their own code (`links/receive_link.py`): they are receivers while they are
attached, and have credit. `broker/dispatch.py` serves both.
"""

import asyncio
from typing import final

from twinbus.auth.claims import Claim
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.entities.entity import Entity
from twinbus.errors import ServiceBusError, SessionLockLost
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.received_message import ReceivedMessage, locked, unlocked


async def receive(
    handle: EntityHandle, count: int, wait_seconds: float, *, peek_lock: bool = True
) -> list[ReceivedMessage]:
    """Receive up to `count` messages; wait for the first if there is none. For
    entities with sessions see `accept_session`.

    Raises EntityDisabled, NotAllowed, and MessagingEntityNotFound if the entity is
    deleted meanwhile.
    """
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.receiving_session(None)
    receiver = RequestReceiver(handle.entity, handle.fragment, handle.actor, peek_lock)
    try:
        return await receiver.receive(count, wait_seconds)
    finally:
        receiver.close()


@final
class RequestReceiver(Receiver):
    """Receives messages for requests. Between requests it has no credit."""

    def __init__(
        self,
        entity: Entity,
        fragment: Fragment,
        actor: int,
        peek_lock: bool,
        session: HeldSession | None = None,
    ) -> None:
        super().__init__(actor, peek_lock)
        if session is not None:
            self.session = session
            session.receiver = self
        self._entity = entity
        self._fragment = fragment
        self._credit = 0
        # True: return at once if there are no messages.
        self._is_draining = False
        self._received: list[ReceivedMessage] = []
        self._has_news = asyncio.Event()
        # Why it gets no more messages.
        self._error: ServiceBusError | None = None
        entity.receive_links().add(self)
        fragment.home.join(fragment, self)

    async def receive(self, count: int, wait_seconds: float) -> list[ReceivedMessage]:
        """Without a wait, take messages that are in memory or in the store. If the
        receiver was detached and has no message left, raises the reason."""
        if self._error is not None:
            raise self._error
        self._is_draining = wait_seconds <= 0
        self._has_news.clear()
        self._credit = count
        self._fragment.home.offer_capacity(self._fragment, self)
        try:
            async with asyncio.timeout(None if self._is_draining else wait_seconds):
                await self._has_news.wait()
        except TimeoutError:
            pass
        self._credit = 0
        while self.promised_count > 0:
            # Their removal is being committed. Wait, or they would be lost.
            self._has_news.clear()
            await self._has_news.wait()
        received, self._received = self._received, []
        if not received and self._error is not None:
            raise self._error
        return received

    @property
    def accepted(self) -> HeldSession:
        """The accepted session."""
        assert self.session is not None
        return self.session

    def close(self) -> None:
        """Leave the fragment, and free the session if there is one."""
        self._entity.receive_links().discard(self)
        self._fragment.home.leave(self._fragment, self)

    # --- called by the broker -------------------------------------------------

    def capacity(self) -> int:
        return self._credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self._received += [locked(self._fragment, lock) for lock in locks]
        self._credit -= len(locks)
        self._fragment.delivered(locks)
        self._has_news.set()

    def deliver_removed(self, messages: list[Message]) -> None:
        self._received += [unlocked(self._fragment, message) for message in messages]
        self._credit -= len(messages)
        self._has_news.set()

    def served(self) -> None:
        # Without credit it waits for promised messages, and their commit failed.
        if self._is_draining or self._credit == 0:
            self._has_news.set()

    def session_lost(self) -> None:
        assert self.session is not None
        path = self._fragment.settings.path
        self.detach(SessionLockLost.named(self.session.session_id, entity_path=path))

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted or disabled, or the session is lost."""
        self._error = error
        self._credit = 0
        self.close()
        self._has_news.set()
