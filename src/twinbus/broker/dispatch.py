"""Shares ready messages fairly among the receivers of a fragment.

Receivers with capacity wait in a ring. Each in turn gets its share of the ready
messages, and goes to the end of the ring if it can take more. A receiver without
capacity leaves the ring until it offers capacity again. One receiver gets the whole
window at once, each of twenty gets a twentieth: one rule for throughput and fairness. A
held session has its own dispatch, with the one receiver that holds it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import ENTROPY_BYTES
from twinbus.broker.receiver import Receiver
from twinbus.broker.window import Window

_SHARE_LIMIT: Final = 1_000
"""Most messages handed over in one step; they are encoded together."""


@final
class Dispatch:
    """The receivers of one fragment or session, and their turns."""

    def __init__(
        self,
        fragment: Fragment,
        session: HeldSession | None,
        entropy: Callable[[int], bytes],
    ) -> None:
        self.fragment: Fragment = fragment
        self.session: HeldSession | None = session
        self._entropy: Callable[[int], bytes] = entropy
        self._receivers: set[Receiver] = set()
        self._ring: deque[Receiver] = deque()
        self._in_ring: set[Receiver] = set()
        # Receivers that gave credit since they were last told `served`. Calling all
        # receivers after each delivery would cost as much as delivering.
        self._untold: set[Receiver] = set()
        # Receive-and-delete: messages that the open change set removes, by receiver.
        self._promised: list[tuple[Receiver, list[Message]]] = []

    def window(self) -> Window:
        """The window that messages are taken from; after a restore it is a new one."""
        return self.fragment.window if self.session is None else self.session.window

    def join(self, receiver: Receiver) -> None:
        """A receiver attached."""
        self._receivers.add(receiver)
        self.window().open_wide()

    def leave(self, receiver: Receiver) -> None:
        """A receiver detached."""
        self._receivers.discard(receiver)
        self._untold.discard(receiver)
        if receiver in self._in_ring:
            self._in_ring.discard(receiver)
            self._ring.remove(receiver)
        if not self._receivers:
            self.window().shrink()

    def has_receivers(self) -> bool:
        return bool(self._receivers)

    def offer_capacity(self, receiver: Receiver) -> None:
        """The receiver can take messages, or waits for the call of `served`."""
        if receiver in self._receivers:
            self._untold.add(receiver)
        if receiver not in self._in_ring and receiver in self._receivers:
            self._in_ring.add(receiver)
            self._ring.append(receiver)

    def ask_everybody(self) -> None:
        """Promises were withdrawn, so receivers may have capacity again."""
        for receiver in self._receivers:
            self.offer_capacity(receiver)

    def wants_refill(self) -> bool:
        """A receiver waits, and the disk has messages that the window lacks."""
        if self.fragment.lease is not None:
            return False
        return bool(self._ring) and self.window().wants_refill()

    def deliver(self, now: int, changes: ChangeSet) -> None:
        """Hand ready messages to receivers that have capacity."""
        ring = self._ring
        if not ring or self._must_wait() or self._is_over(now):
            return
        if self.fragment.lease is not None:
            return
        window = self.window()
        share = min(max(1, window.ready_count() // len(ring)), _SHARE_LIMIT)
        while ring and window.has_ready():
            receiver = ring.popleft()
            capacity = receiver.capacity() - receiver.promised_count
            if capacity <= 0:
                self._in_ring.discard(receiver)
                continue
            count = min(capacity, share)
            ring.append(receiver)
            if receiver.peek_lock:
                self._lock_for(receiver, count, now, changes)
            elif receiver.forwards:
                messages = self.fragment.take(count, now, changes)
                receiver.forward(messages, now, changes)
            else:
                self._promise(receiver, count, now, changes)

    def _lock_for(
        self, receiver: Receiver, count: int, now: int, changes: ChangeSet
    ) -> None:
        entropy = self._entropy(count * ENTROPY_BYTES)
        locks = self.fragment.lock(
            count, receiver.actor, now, entropy, changes, self.session
        )
        if locks:
            receiver.deliver_locked(locks)

    def _promise(
        self, receiver: Receiver, count: int, now: int, changes: ChangeSet
    ) -> None:
        """Remove messages for a receiver that gets them after the commit."""
        fragment = self.fragment
        messages = fragment.take(count, now, changes, self.session)
        for message in messages:
            changes.log.record(
                operation_log.RECEIVE_AND_DELETE, receiver.actor, message, now
            )
            fragment.forget(message, changes)
        if messages:
            receiver.promised_count += len(messages)
            self._promised.append((receiver, messages))

    def _must_wait(self) -> bool:
        """Messages that are first in order become ready by a commit."""
        return self.session is not None and self.session.returning_count > 0

    def _is_over(self, now: int) -> bool:
        """The session's lock has run out, but its end was not processed yet. A message
        delivered now could not be settled, and its delivery would count."""
        return self.session is not None and self.session.locked_until <= now

    def served(self) -> None:
        """No ready message is left: tell the receivers that wait for this."""
        if self._must_wait():
            return
        for receiver in list(self._untold):
            if receiver.promised_count == 0:
                self._untold.discard(receiver)
                receiver.served()

    def lose_session(self) -> None:
        """The session's lock has ended: tell its receiver."""
        for receiver in list(self._receivers):
            receiver.session_lost()

    def has_promises(self) -> bool:
        return bool(self._promised)

    def take_promises(self) -> list[tuple[Receiver, list[Message]]]:
        """Promised messages that are delivered after the commit being sealed."""
        promised = self._promised
        self._promised = []
        return promised

    def forget_promises(self) -> None:
        """The open change set will not be committed."""
        for receiver, messages in self._promised:
            receiver.promised_count -= len(messages)
        self._promised = []
