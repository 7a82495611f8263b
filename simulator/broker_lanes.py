"""Lanes through a simulated cluster: what one client sends to one place, one by one.

Nobody receives these messages, so at the end all are where they were stored, in their
order. A lane has a key if its queue is partitioned. In some lanes every message has a
send id, and is sent again by way of any broker until it is accepted.

What must be true, of each lane:

- what was accepted is there, once; with a send id also what was sent again;
- what was refused is not there;
- what was accepted is in the order in which it was sent, by way of whichever brokers.
  There is none while the order is in doubt, nor between what was sent before and after
  that: a new owner of the store serves it though nobody can tell what is kept for it,
  or others have not heard of its owner for so long that they may keep messages for it.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final

from simulator.broker_roaming import RoamingClient
from simulator.broker_store import CommonStore
from simulator.broker_visit import (
    FindBroker,
    Troubles,
    Visit,
    check_error,
    now,
    visited,
)
from simulator.sighting import Violation
from twinbus.amqp.messaging import AmqpMap, Data, Message, encode_message
from twinbus.amqp.types import Symbol
from twinbus.client.errors import LinkClosed, NotAccepted
from twinbus.client.sender import ClientSender
from twinbus.encoding.own_annotations import SEND_ID
from twinbus.errors import ServerBusy

FIRST_NUMBER: Final = 60_000_000
"""Of messages; those of other clients are below."""

_PARTITION_KEY: Final = Symbol("x-opt-partition-key")
_PATIENCES: Final = (5.0, 15.0, 40.0)
_PAUSES: Final = (0.01, 0.2, 0.6)

_LAST_SECONDS: Final = 30.0
"""So long a queue may refuse messages when nothing is in the way any more."""


@dataclass(slots=True, kw_only=True, eq=False)
class LaneMessage:
    """A message of a lane."""

    number: int
    asked_at: float
    accepted_at: float | None = None
    # Nobody knows what became of a send.
    is_perhaps_there: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Lane:
    """What one client sends to one queue with one key."""

    client: str
    path: str
    key: str | None
    # A partitioned queue has an order for each key.
    has_order: bool
    # Each message has a send id.
    is_identified: bool
    messages: list[LaneMessage] = field(default_factory=list)

    def __str__(self) -> str:
        key = "" if self.key is None else f", key {self.key}"
        return f"lane of {self.client} to '{self.path}'{key}"

    def unanswered(self) -> LaneMessage | None:
        """The last message, if it is to be sent again."""
        last = self.messages[-1] if self.messages else None
        is_over = last is None or last.accepted_at is not None
        return None if is_over or not self.is_identified else last

    def payload_of(self, sent: LaneMessage) -> bytes:
        annotations: AmqpMap = {}
        if self.key is not None:
            annotations[_PARTITION_KEY] = self.key
        if self.is_identified:
            annotations[Symbol(SEND_ID)] = f"send-{sent.number}".encode()
        body = Data((f"{sent.number:08}".encode(),))
        return encode_message(
            Message(message_annotations=annotations or None, body=body)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFragment:
    """What is in a fragment at the end."""

    path: str
    store: CommonStore
    # In their order.
    numbers: Sequence[int]


class LaneAudit:
    """Of all lanes of a world."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []
        self._count = 0
        # By the time at which it began: why the order of a store was in doubt, and
        # until when.
        self._doubts: dict[CommonStore, dict[float, tuple[str, float]]] = {}

    def add(self, lane: Lane) -> Lane:
        self._lanes.append(lane)
        return lane

    def new_message(self, lane: Lane) -> LaneMessage:
        sent = LaneMessage(number=FIRST_NUMBER + self._count, asked_at=now())
        self._count += 1
        lane.messages.append(sent)
        return sent

    def order_in_doubt(self, store: CommonStore, why: str) -> None:
        doubts = self._doubts.setdefault(store, {})
        if (why, math.inf) not in doubts.values():
            doubts[now()] = (why, math.inf)

    def order_is_known(self, store: CommonStore, why: str) -> None:
        """It is not in doubt any more for this reason."""
        doubts = self._doubts.setdefault(store, {})
        for begun, doubt in doubts.items():
            if doubt == (why, math.inf):
                doubts[begun] = (why, now())

    # --- the end --------------------------------------------------------------

    def concluded(self, found: Sequence[FoundFragment]) -> None:
        """Raises Violation."""
        counts = Counter(number for one in found for number in one.numbers)
        told = [self._judged(lane, counts, found) for lane in self._lanes]
        if wrong := [one for one in told if one]:
            raise Violation("; ".join(wrong))

    def _judged(
        self, lane: Lane, counts: Counter[int], found: Sequence[FoundFragment]
    ) -> str:
        """What is wrong with it; nothing if all is right."""
        figures = {
            "lost": sum(_is_lost(sent, counts) for sent in lane.messages),
            "doubled": sum(counts[sent.number] > 1 for sent in lane.messages),
            "refused and there": sum(
                _is_made_up(sent, counts) for sent in lane.messages
            ),
            "out of order": sum(self._disorder(lane, one) for one in found),
        }
        wrong = [f"{count} {what}" for what, count in figures.items() if count]
        return f"{lane}: {', '.join(wrong)}" if wrong else ""

    def _disorder(self, lane: Lane, one: FoundFragment) -> int:
        """So many messages come right after a later one."""
        if not lane.has_order or one.path != lane.path:
            return 0
        eras: dict[int, list[int]] = {}
        places = {number: place for place, number in enumerate(one.numbers)}
        for sent in lane.messages:
            era = self._era(one.store, sent)
            if era is not None and sent.number in places:
                eras.setdefault(era, []).append(places[sent.number])
        return sum(
            later < earlier
            for inside in eras.values()
            for earlier, later in pairwise(inside)
        )

    def _era(self, store: CommonStore, sent: LaneMessage) -> int | None:
        """After how many doubts it was sent; None if it was not accepted, or while
        there was one."""
        if sent.accepted_at is None:
            return None
        doubts = self._doubts.get(store, {})
        is_in_one = any(
            begun <= sent.accepted_at and sent.asked_at <= ended
            for begun, (_, ended) in doubts.items()
        )
        return None if is_in_one else sum(begun < sent.asked_at for begun in doubts)

    def check_received(
        self, taken: Iterable[int], found: Sequence[FoundFragment]
    ) -> None:
        """Raises Violation if not all that is there can be received."""
        stored = sorted(number for one in found for number in one.numbers)
        if sorted(taken) != stored:
            raise Violation("messages of lanes are there, and cannot be received")


def _is_lost(sent: LaneMessage, counts: Counter[int]) -> bool:
    return sent.accepted_at is not None and not counts[sent.number]


def _is_made_up(sent: LaneMessage, counts: Counter[int]) -> bool:
    may_be_there = sent.accepted_at is not None or sent.is_perhaps_there
    return not may_be_there and counts[sent.number] > 0


class LaneClient(RoamingClient):
    """Sends through some lanes."""

    step_counts = (3, 25)
    away_seconds = (0.01, 0.3)

    def __init__(
        self,
        name: str,
        random: Random,
        audit: LaneAudit,
        lanes: Sequence[Lane],
        find: FindBroker,
        is_quiet: Callable[[], bool],
        tell: Callable[[str], None],
        fail: Callable[[AssertionError], None],
    ) -> None:
        super().__init__(name, random, find, fail, random.choice(_PATIENCES))
        self._audit = audit
        self._lanes = lanes
        # Nothing may be asked for that must be committed.
        self._is_quiet = is_quiet
        self._tell = tell

    def _pause(self) -> float:
        return self._random.uniform(0, self._random.choice(_PAUSES))

    async def _step(self, visit: Visit) -> None:
        if self._is_quiet():
            return
        lane = self._random.choice(self._lanes)
        try:
            visit.forget_lost()
            await self._send(await visit.sender(lane.path), lane)
        except LinkClosed as error:
            check_error(error, lane.path)

    async def _send(self, sender: ClientSender, lane: Lane) -> None:
        """A message, or several before the first is answered. What is sent again must
        not come after a later one."""
        again = lane.unanswered()
        if again is not None:
            await self._send_one(sender, lane, again)
            return
        count = 1 if lane.is_identified else self._random.choice((1, 1, 4))
        sending = [
            self._send_one(sender, lane, self._audit.new_message(lane))
            for _ in range(count)
        ]
        for error in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _send_one(
        self, sender: ClientSender, lane: Lane, sent: LaneMessage
    ) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await sender.send(lane.payload_of(sent))
        except NotAccepted as error:
            check_error(error, lane.path)
            told = note_refusal(sent, error)
            self._tell(f"{sent.number} to {lane.path} is refused: {told}")
        except Troubles as error:
            sent.is_perhaps_there = True
            self._tell(f"{sent.number} is unknown: {type(error).__name__}")
            raise
        else:
            sent.accepted_at = now()
            self._tell(f"{sent.number} to {lane.path} is accepted")


def note_refusal(sent: LaneMessage, error: NotAccepted) -> str | None:
    """Only if the bus is busy, nothing of it happened. What the client was told."""
    condition = None if error.error is None else error.error.condition
    sent.is_perhaps_there |= condition != ServerBusy.condition
    return condition


async def send_last(
    audit: LaneAudit, lanes: Sequence[Lane], found: tuple[str, int]
) -> None:
    """Nothing is in the way any more: each lane takes a message soon. Raises
    Violation."""
    visit = await visited(found, _LAST_SECONDS)
    for lane in lanes:
        await _send_in_time(audit, lane, visit)
    visit.connection.abort()


async def _send_in_time(audit: LaneAudit, lane: Lane, visit: Visit) -> None:
    ends_at, refusal = now() + _LAST_SECONDS, ""
    while now() < ends_at:
        sent = audit.new_message(lane)
        visit.forget_lost()
        try:
            sender = await visit.sender(lane.path)
            await sender.send(lane.payload_of(sent))
        except NotAccepted as error:
            note_refusal(sent, error)
            refusal = str(error)
        except LinkClosed as error:
            sent.is_perhaps_there = True
            refusal = str(error)
        else:
            sent.accepted_at = now()
            return
        await asyncio.sleep(0.5)
    raise Violation(f"'{lane.path}' takes no messages at {visit.place}: {refusal}")
