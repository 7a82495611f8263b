"""Who gets the next message: fair shares among the receivers of a fragment.

Receivers with capacity wait in a ring. Each in turn gets its share of what is
ready, and goes to the end of the ring while it can take more; one without capacity
leaves the ring and comes back when it says so. With one receiver that is a whole
window at once, with twenty it is a twentieth each, so neither throughput nor
fairness needs a mode of its own. A held session has a dispatch of its own, with the
one receiver that holds it.
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
"""Messages handed over in one step: what is encoded in one go."""


@final
class Dispatch:
    """The receivers of one fragment or session, and whose turn it is."""

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
        # Those who gave credit and have not been told since that all is served;
        # asking everybody after each delivery would cost as much as delivering.
        self._untold: set[Receiver] = set()
        # Receive-and-delete: promised in the open change set.
        self._promised: list[tuple[Receiver, list[Message]]] = []

    def window(self) -> Window:
        """Where messages are taken from; a restored fragment has a new one."""
        return self.fragment.window if self.session is None else self.session.window

    def join(self, receiver: Receiver) -> None:
        """A receiver attached."""
        self._receivers.add(receiver)
        self.window().open_wide()

    def leave(self, receiver: Receiver) -> None:
        """A receiver is gone."""
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
        """The receiver can take messages (again), or wants to be told when served."""
        if receiver in self._receivers:
            self._untold.add(receiver)
        if receiver not in self._in_ring and receiver in self._receivers:
            self._in_ring.add(receiver)
            self._ring.append(receiver)

    def ask_everybody(self) -> None:
        """Promises were broken, so those who had no capacity may have some again."""
        for receiver in self._receivers:
            self.offer_capacity(receiver)

    def wants_refill(self) -> bool:
        """Somebody waits, and the disk has what the window lacks."""
        if self.fragment.lease is not None:
            return False
        return bool(self._ring) and self.window().wants_refill()

    def deliver(self, now: int, changes: ChangeSet) -> None:
        """Hand out what is ready to whoever can take it."""
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
        """What comes first in the session is still on its way back."""
        return self.session is not None and self.session.returning_count > 0

    def _is_over(self, now: int) -> bool:
        """The session's lock has run out and nobody has looked since: what is handed
        out now could not be settled, and would count as delivered."""
        return self.session is not None and self.session.locked_until <= now

    def served(self) -> None:
        """Nothing more is to be had: tell those who asked to be told."""
        if self._must_wait():
            return
        for receiver in list(self._untold):
            if receiver.promised_count == 0:
                self._untold.discard(receiver)
                receiver.served()

    def lose_session(self) -> None:
        """The session is held no more: tell whoever held it."""
        for receiver in list(self._receivers):
            receiver.session_lost()

    def has_promises(self) -> bool:
        return bool(self._promised)

    def take_promises(self) -> list[tuple[Receiver, list[Message]]]:
        """What becomes deliverable with the change set that is being sealed."""
        promised = self._promised
        self._promised = []
        return promised

    def forget_promises(self) -> None:
        """The open change set will not be committed."""
        for receiver, messages in self._promised:
            receiver.promised_count -= len(messages)
        self._promised = []
