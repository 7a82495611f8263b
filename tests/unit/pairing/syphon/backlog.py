"""A backlog queue and a primary made of lists, with a clock that tests move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinbus.pairing.detour import Detour
from twinbus.pairing.syphon.ports import (
    BacklogMessage,
    BacklogPage,
    Fault,
    Glimpse,
    Restored,
    RestoreRefusal,
)
from twinbus.testing.clock import ManualClock

PAGE = 3


def diverted(number: int, path: str) -> BacklogMessage:
    return BacklogMessage(
        sequence_number=number, enqueued_at=0, size_bytes=1, detour=Detour(path=path)
    )


@dataclass
class ListSource:
    """A queue; waiting for messages that do not come lets time pass."""

    clock: ManualClock
    path: str = "site-a/x-servicebus-transfer/0"
    active: list[BacklogMessage] = field(default_factory=list)
    locked: dict[int, BacklogMessage] = field(default_factory=dict)
    deferred: dict[int, BacklogMessage] = field(default_factory=dict)
    dead: list[tuple[int, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    peeks: int = 0

    async def receive(
        self, max_count: int, max_wait_seconds: float
    ) -> list[BacklogMessage]:
        self.waits.append(max_wait_seconds)
        if not self.active:
            self.clock.advance(round(max_wait_seconds * 1000))
        batch, self.active = self.active[:max_count], self.active[max_count:]
        self.locked.update({one.sequence_number: one for one in batch})
        return batch

    def _unlock(self, messages: Sequence[BacklogMessage]) -> list[int]:
        numbers = [message.sequence_number for message in messages]
        for number in numbers:
            del self.locked[number]
        return numbers

    async def complete(self, messages: Sequence[BacklogMessage]) -> None:
        self._unlock(messages)

    async def abandon(self, messages: Sequence[BacklogMessage]) -> None:
        self._unlock(messages)
        for message in messages:
            if message.is_deferred:
                self.deferred[message.sequence_number] = message
            else:
                self.active.append(message)
        self.active.sort(key=lambda one: one.sequence_number)

    async def defer(self, messages: Sequence[BacklogMessage]) -> None:
        self._unlock(messages)
        for message in messages:
            message.is_deferred = True
            self.deferred[message.sequence_number] = message

    async def dead_letter(
        self, messages: Sequence[BacklogMessage], fault: Fault
    ) -> None:
        self.dead += [(number, fault.reason) for number in self._unlock(messages)]

    async def peek_deferred(self, first_number: int) -> BacklogPage:
        self.peeks += 1
        everything = {
            **{one.sequence_number: one for one in self.active},
            **self.locked,
            **self.deferred,
        }
        seen = sorted(n for n in everything if n >= first_number)[:PAGE]
        if not seen:
            return BacklogPage((), 0, None)
        glimpses = tuple(
            Glimpse(number, path_of(everything[number]))
            for number in seen
            if everything[number].is_deferred
        )
        active = [number for number in seen if not everything[number].is_deferred]
        first_active = active[0] if active else None
        return BacklogPage(glimpses, len(seen), seen[-1] + 1, first_active)

    async def take_deferred(self, numbers: Sequence[int]) -> list[BacklogMessage]:
        taken = [self.deferred.pop(n) for n in numbers if n in self.deferred]
        self.locked.update({one.sequence_number: one for one in taken})
        return taken

    async def close(self) -> None:
        """Nothing is ever ahead of anybody here."""

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.locked or self.deferred)


@dataclass
class ListOutlet:
    """A primary; `refuse` is asked about each message, at its time."""

    clock: ManualClock
    refuse: Callable[[str, int], RestoreRefusal | None] = lambda path, now: None
    is_up: Callable[[int], bool] = lambda now: True
    accepted: dict[str, list[int]] = field(default_factory=dict)
    attempts: int = 0
    fault: str = ""

    async def restore(
        self, path: str, messages: Sequence[BacklogMessage], timeout_seconds: float
    ) -> Restored:
        for count, message in enumerate(messages):
            self.attempts += 1
            refusal = self.refuse(path, self.clock.monotonic())
            if refusal is not None:
                return Restored(count, refusal)
            self.accepted.setdefault(path, []).append(message.sequence_number)
        return Restored(len(messages))

    async def is_reachable(self, timeout_seconds: float) -> bool:
        return self.is_up(self.clock.monotonic())

    async def credentials_fault(self, timeout_seconds: float) -> str:
        return self.fault

    async def close(self) -> None:
        """There is nothing to close."""


def path_of(message: BacklogMessage) -> str:
    assert message.detour is not None
    return message.detour.path
