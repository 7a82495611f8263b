"""Receive: gets messages up to a number, and waits for the first.

Links have their own code (`links/receive_link.py`): they are receivers while they are
attached, and have credit. `broker/dispatch.py` serves both.

A request has one credit for all fragments of its entity, and takes messages from any of
them. While the store of a fragment is away, the others are asked.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log
from twinbus.broker.held_session import HeldSession
from twinbus.broker.home import commit_soon
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.broker.settlement import release
from twinbus.entities.entity import Entity
from twinbus.errors import (
    FragmentUnavailable,
    MessageLockLost,
    ServiceBusError,
    SessionLockLost,
)
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.received_message import ReceivedMessage, locked, unlocked

_LOOK_SECONDS: Final = 15
"""How long a request that does not wait gives the stores to say that they have nothing.
One that goes away meanwhile says nothing."""

_RANDOM_BYTES: Final = 8


async def receive(
    handle: EntityHandle, count: int, wait_seconds: float, *, peek_lock: bool = True
) -> list[ReceivedMessage]:
    """Receive up to `count` messages; wait for the first if there is none. For
    entities with sessions see `accept_session`.

    Raises EntityDisabled, NotAllowed, FragmentUnavailable if no fragment is available,
    and MessagingEntityNotFound if the entity is deleted meanwhile.
    """
    check_may_receive(handle)
    receiver = open_receiver(handle, peek_lock)
    try:
        return await receiver.receive(count, wait_seconds)
    finally:
        receiver.close()


def check_may_receive(handle: EntityHandle) -> None:
    """Raises UnauthorizedAccess, EntityDisabled, NotAllowed, ArgumentError."""
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.check_names_session(None)


def open_receiver(handle: EntityHandle, peek_lock: bool) -> "RequestReceiver":
    """For several requests of one caller: before each of them, it must be checked
    whether it may receive."""
    return RequestReceiver(handle.entity, handle.known_parts(), peek_lock)


@final
class RequestReceiver:
    """Receives messages for requests. Between requests it has no credit. If a request
    is cancelled, what was locked for it is ready again, and was not delivered."""

    def __init__(
        self,
        entity: Entity,
        parts: Sequence[FragmentHandle],
        peek_lock: bool,
        session: HeldSession | None = None,
    ) -> None:
        self.entity = entity
        self._session = session
        self.credit = 0
        # Fragments that have said that they have no more; None unless the request
        # wants to return at once if there are no messages.
        self._drained: set[FragmentReceiver] | None = None
        self._received: list[ReceivedMessage] = []
        # The locks of those that were received, until the request has them.
        self._locks: list[tuple[FragmentReceiver, MessageLock]] = []
        self._has_news = asyncio.Event()
        # Why it gets no more messages.
        self._error: ServiceBusError | None = None
        self._receivers = [
            FragmentReceiver(self, part, peek_lock, session) for part in parts
        ]
        entity.receive_links().add(self)
        for receiver in self._receivers:
            receiver.join()

    async def receive(self, count: int, wait_seconds: float) -> list[ReceivedMessage]:
        """Without a wait, take messages that are in memory or in the store. If the
        receiver was detached and has no message left, raises the reason."""
        if self._error is not None:
            raise self._error
        self._drained = set() if wait_seconds <= 0 else None
        self._has_news.clear()
        self.credit = count
        try:
            self._offer()
            await self._news(wait_seconds if wait_seconds > 0 else _LOOK_SECONDS)
        except asyncio.CancelledError:
            self._give_back()
            raise
        finally:
            self.credit = 0
        received, self._received = self._received, []
        self._locks.clear()
        if not received and self._error is not None:
            raise self._error
        if not received and self._receivers:
            self._receivers[0].log_empty()
        return received

    async def receive_one(self, wait_seconds: float) -> ReceivedMessage | None:
        """None if there was none in time. Raises as `receive`."""
        received = await self.receive(1, wait_seconds)
        return received[0] if received else None

    async def _news(self, wait_seconds: float) -> None:
        """Wait for messages, the end of the receiver, or the end of the time."""
        try:
            async with asyncio.timeout(wait_seconds):
                await self._has_news.wait()
        except TimeoutError:
            pass
        self.credit = 0
        while self.promised_count() > 0:
            # Their removal is being committed. Wait, or they would be lost.
            self._has_news.clear()
            await self._has_news.wait()

    def _give_back(self) -> None:
        """The caller is gone. What was removed for it already is lost, as on links."""
        locks, self._locks, self._received = self._locks, [], []
        for receiver, lock in locks:
            receiver.release(lock)

    def hurry(self) -> None:
        """End the wait of the request, if there is one."""
        self._has_news.set()

    @property
    def is_over(self) -> bool:
        """It was detached: no request gets a message from it any more."""
        return self._error is not None

    def _offer(self) -> None:
        """Ask the fragments for messages, each time from another one on, so that the
        first ones do not keep the others waiting. Raises FragmentUnavailable."""
        asked = self._receivers
        if len(asked) > 1:
            asked = [one for one in asked if one.is_available()]
            if not asked:
                raise FragmentUnavailable.none_left(self.entity.path)
            start = asked[0].random_number() % len(asked)
            asked = asked[start:] + asked[:start]
        for receiver in asked:
            if self.credit > 0:
                receiver.offer()

    def promised_count(self) -> int:
        """Messages whose removal is not committed yet."""
        return sum(one.promised_count for one in self._receivers)

    @property
    def accepted(self) -> HeldSession:
        """The accepted session."""
        assert self._session is not None
        return self._session

    def close(self) -> None:
        """Leave the fragments, and free the session if there is one."""
        self.entity.receive_links().discard(self)
        for receiver in self._receivers:
            receiver.leave()

    # --- called by the receivers of the fragments ------------------------------

    def take(self, messages: list[ReceivedMessage]) -> None:
        self._received += messages
        self.credit -= len(messages)
        self._has_news.set()

    def lock(self, receiver: "FragmentReceiver", locks: list[MessageLock]) -> None:
        """The messages that come next are locked."""
        self._locks += [(receiver, lock) for lock in locks]

    def served(self, receiver: "FragmentReceiver") -> None:
        """The fragment has no more messages."""
        if self._drained is not None:
            self._drained.add(receiver)
            if all(
                one in self._drained for one in self._receivers if one.is_available()
            ):
                self._has_news.set()
        # Without credit it waits for promised messages, and their commit failed.
        if self.credit == 0:
            self._has_news.set()

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted or disabled, or the session is lost."""
        self._error = error
        self.credit = 0
        self.close()
        self._has_news.set()


@final
class FragmentReceiver(Receiver):
    """Receives the messages of one fragment for a request."""

    def __init__(
        self,
        request: RequestReceiver,
        part: FragmentHandle,
        peek_lock: bool,
        session: HeldSession | None,
    ) -> None:
        super().__init__(part.actor, peek_lock)
        if session is not None:
            self.session = session
            session.receiver = self
        self._request = request
        self._part = part
        self._fragment = part.fragment

    def join(self) -> None:
        self._fragment.home.join(self._fragment, self)

    def leave(self) -> None:
        self._fragment.home.leave(self._fragment, self)

    def is_available(self) -> bool:
        return self._fragment.home.is_serving

    def log_empty(self) -> None:
        """A receive came back without a message."""
        log = self._fragment.home.changes.log
        base = self._fragment.base
        log.event(operation_log.RECEIVE_EMPTY, self.actor, base, self._part.now())

    def random_number(self) -> int:
        return int.from_bytes(self._fragment.home.entropy(_RANDOM_BYTES), "big")

    def offer(self) -> None:
        self._fragment.home.offer_capacity(self._fragment, self)

    def release(self, lock: MessageLock) -> None:
        """The message was not used, unless its lock has ended meanwhile."""
        home = self._fragment.home
        with suppress(MessageLockLost, SessionLockLost):
            release(self._fragment, lock, self.actor, self._part.now(), home.changes)
            commit_soon(home)

    # --- called by the broker -------------------------------------------------

    def capacity(self) -> int:
        # The broker subtracts what this fragment has promised, but not the others'.
        request = self._request
        return request.credit - request.promised_count() + self.promised_count

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self._request.lock(self, locks)
        self._request.take([locked(self._fragment, lock) for lock in locks])
        self._fragment.delivered(locks)

    def deliver_removed(self, messages: list[Message]) -> None:
        self._request.take([unlocked(self._fragment, message) for message in messages])

    def served(self) -> None:
        self._request.served(self)

    def session_lost(self) -> None:
        assert self.session is not None
        path = self._fragment.settings.path
        error = SessionLockLost.named(self.session.session_id, entity_path=path)
        self._request.detach(error)
