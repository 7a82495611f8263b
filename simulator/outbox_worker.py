"""A client that receives from one queue and completes what it gets, in a world of
several stores."""

from collections.abc import Callable
from typing import Final, Protocol

from simulator.clock import SimulatedClock
from simulator.outbox_world import Sent
from simulator.sighting import Violation
from twinbus.broker import settlement
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.errors import STORE_IS_FULL, InternalError, ServiceBusError

_HEEDED_SECONDS: Final = 1.0
"""So soon after it was told a bus has stopped senders of a full store, and what they
sent before fails no commit."""


class WorkedWorld(Protocol):
    """What a worker knows of its world."""

    clock: SimulatedClock

    def sent_of(self, message: Message) -> Sent: ...

    def fail(self, violation: AssertionError) -> None: ...


class Worker(Receiver):
    """Receives from one fragment."""

    def __init__(
        self,
        world: WorkedWorld,
        fragment: Fragment,
        full_seconds: Callable[[], float],
    ) -> None:
        super().__init__(1, True)
        self._world = world
        self._fragment = fragment
        # For how long it has been known that its store has no room.
        self._full_seconds = full_seconds
        self._credit = 0
        self._held: list[MessageLock] = []
        fragment.home.join(fragment, self)

    def receive(self, count: int) -> None:
        self._credit += count
        self._fragment.home.offer_capacity(self._fragment, self)

    def complete(self) -> None:
        """The oldest message that it holds."""
        if not self._held:
            return
        lock, now = self._held.pop(0), self._world.clock.now()
        fragment = self._fragment
        if fragment.holds(lock, now):
            home = fragment.home
            settlement.complete(fragment, lock, 1, now, home.changes)
            sent = self._world.sent_of(lock.message)
            Completion(self._world, sent, self._full_seconds).note(home, 0)
            home.wake()

    # --- from the fragment ----------------------------------------------------

    def capacity(self) -> int:
        return self._credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self._credit -= len(locks)
        self._held += locks
        for lock in locks:
            sent = self._world.sent_of(lock.message)
            if sent.is_completed:
                self._world.fail(Violation(f"{sent.number} was completed and is back"))

    def deliver_removed(self, messages: list[Message]) -> None:
        raise AssertionError("it receives under locks")

    def served(self) -> None:
        pass

    def session_lost(self) -> None:
        raise AssertionError("it has no session")


class Completion(CommitListener):
    """Waits for the commit of one settlement."""

    def __init__(
        self, world: WorkedWorld, sent: Sent, full_seconds: Callable[[], float]
    ) -> None:
        super().__init__()
        self._world = world
        self._sent = sent
        self._full_seconds = full_seconds
        # If the process ends before it is answered, nobody knows.
        self._was_unknown = sent.is_perhaps_completed
        sent.is_perhaps_completed = True

    def committed(self, items: list[int]) -> None:
        self._sent.is_completed = True

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if not isinstance(error, InternalError):
            self._sent.is_perhaps_completed = self._was_unknown
        seconds = self._full_seconds()
        if STORE_IS_FULL in str(error) and seconds > _HEEDED_SECONDS:
            self._world.fail(
                Violation(
                    f"known as full for {seconds:.1f} s, a store refuses a settlement"
                )
            )
