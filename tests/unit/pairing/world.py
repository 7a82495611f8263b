"""A pair over two namespaces in memory, in virtual time.

A test says how an entity answers: it accepts messages, raises, or hangs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from simulator.clock import SimulatedClock
from simulator.loop import VirtualLoop, run_virtually
from twinbus.pairing.detour import Detour
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.pair import Pair
from twinbus.pairing.settings import PairSettings

HANG = TimeoutError("this entity does not answer")
QUEUES = ("south/0", "south/1", "south/2")


class Failure(Exception):
    """An entity fails, in one of the ways of P7."""

    def __init__(self, kind: FailureKind, text: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class TimedOut(Exception):
    """What the dialect makes of a time-out."""


class Refused(Exception):
    """What the dialect makes of a refusal."""


@dataclass(slots=True, kw_only=True)
class Mail:
    """A message."""

    text: str
    session_id: str | None = None
    message_id: str | None = None
    send_id: bytes | None = None
    detour: Detour | None = None


class MailDialect:
    def stamp(self, message: Mail, send_id: bytes, message_id: str | None) -> None:
        message.send_id = send_id
        message.message_id = message.message_id or message_id

    def unstamp(self, message: Mail) -> None:
        if message.send_id and message.message_id == message.send_id.hex():
            message.message_id = None
        message.send_id = None

    def send_id(self, message: Mail) -> bytes | None:
        return message.send_id

    def message_id(self, message: Mail) -> str | None:
        return message.message_id

    def session_id(self, message: Mail) -> str | None:
        return message.session_id

    def detour(self, message: Mail) -> Detour | None:
        return message.detour

    def divert(
        self,
        message: Mail,
        path: str,
        due_at: int | None = None,
        key: str | None = None,
    ) -> Mail:
        detour = Detour(path=path, session_id=message.session_id, scheduled_at=due_at)
        return replace(message, session_id=None, detour=detour)

    def kind_of(self, error: BaseException) -> FailureKind:
        return error.kind if isinstance(error, Failure) else FailureKind.SERVICE

    def reason_of(self, error: BaseException) -> str:
        return str(error) or type(error).__name__

    def as_raised(self, error: Exception) -> Exception:
        return error

    def timed_out(self, text: str) -> Exception:
        return TimedOut(text)

    def refused(self, text: str) -> Exception:
        return Refused(text)


class MailDoor:
    def __init__(self, side: "Side", path: str) -> None:
        self._side = side
        self._path = path

    async def _answered(self, what: str) -> list[Mail]:
        side, loop = self._side, asyncio.get_running_loop()
        side.calls.append((round(loop.time() * 1000), what, self._path))
        answer = side.answers.get(self._path)
        if side.takes_time:
            await asyncio.sleep(side.takes_time)
        if answer is HANG:
            await loop.create_future()
        if answer is not None:
            raise answer
        return side.held.setdefault(self._path, [])

    async def send(self, messages: Sequence[Mail], timeout_seconds: float) -> None:
        held = await self._answered("send")
        if self._side.refuses_ids and any(mail.send_id for mail in messages):
            raise Failure(FailureKind.TOO_LARGE)
        held.extend(messages)

    async def open(self, timeout_seconds: float) -> None:
        if self._side.is_closed:
            raise Failure(FailureKind.CONNECTION, "refused")

    async def send_some(self, messages: Sequence[Mail], timeout_seconds: float) -> int:
        some = messages[: self._side.batch_count]
        (await self._answered("send")).extend(some)
        return len(some)

    async def schedule(
        self, messages: Sequence[Mail], due_at: int, timeout_seconds: float
    ) -> list[int]:
        held = await self._answered("schedule")
        held.extend(messages)
        return [len(held) - len(messages) + i + 1 for i in range(len(messages))]

    async def cancel(self, numbers: Sequence[int], timeout_seconds: float) -> None:
        held = await self._answered("cancel")
        for number in sorted(numbers, reverse=True):
            del held[number - 1]

    async def cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        held = await self._answered("cancel sent")
        found = {message.send_id for message in held} & set(send_ids)
        held[:] = [message for message in held if message.send_id not in found]
        return [send_id in found for send_id in send_ids]

    async def ping(self, timeout_seconds: float) -> None:
        await self._answered("ping")

    async def peek(
        self, from_number: int, max_count: int, timeout_seconds: float
    ) -> list[tuple[int, Mail]]:
        held = await self._answered("peek")
        return list(enumerate(held))[from_number : from_number + max_count]

    async def close(self) -> None:
        self._side.closed_count += 1


@dataclass
class Side:
    """A namespace in memory."""

    name: str
    # What each entity raises, or HANG.
    answers: dict[str, Exception] = field(default_factory=dict)
    # Nobody is let in.
    is_closed: bool = False
    # Messages have room for everything but ids of the pair's.
    refuses_ids: bool = False
    held: dict[str, list[Mail]] = field(default_factory=dict)
    # When, what and where.
    calls: list[tuple[int, str, str]] = field(default_factory=list)
    batch_count: int = 100
    takes_time: float = 0.0
    closed_count: int = 0

    def door(self, path: str, link: Mapping[str, Any] | None = None) -> MailDoor:
        return MailDoor(self, path)

    def texts(self, path: str) -> list[str]:
        return [message.text for message in self.held.get(path, [])]

    def count(self, what: str) -> int:
        return sum(call[1] == what for call in self.calls)


class World:
    """A pair, its two sides and what it told."""

    def __init__(self, loop: VirtualLoop, settings: PairSettings) -> None:
        self.clock = SimulatedClock(loop)
        self.primary, self.secondary = Side("north"), Side("south")
        self.settings = settings
        self.events: list[PairEvent] = []
        self.pair = self.new_pair()

    def new_pair(self) -> Pair[Mail]:
        """As another process has it."""
        random = Random(1)
        pair: Pair[Mail] = Pair(
            primary=self.primary,
            secondary=self.secondary,
            dialect=MailDialect(),
            backlog_queues=QUEUES,
            settings=self.settings,
            clock=self.clock,
            random=random,
            entropy=random.randbytes,
        )
        pair.report.add(self.events.append)
        return pair

    def now(self) -> int:
        return self.clock.monotonic()

    def backlog(self) -> list[str]:
        return [text for queue in QUEUES for text in self.secondary.texts(queue)]

    def all_queues(self, answer: Exception) -> None:
        self.secondary.answers = dict.fromkeys(QUEUES, answer)

    def told(self, kind: EventKind) -> list[str]:
        return [event.text for event in self.events if event.kind is kind]


def play(scene: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    """Act out a scene, in no time."""
    loop = VirtualLoop()

    async def act() -> None:
        world = World(loop, PairSettings(**settings))
        await scene(world)
        await world.pair.close()

    run_virtually(loop, act())


def mails(text: str, session_id: str | None = None) -> list[Mail]:
    """A message for each letter."""
    return [Mail(text=letter, session_id=session_id) for letter in text]
