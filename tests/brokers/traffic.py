"""Clients that stay with one broker each, and a book of what they saw.

What must be true of it, whatever happens to brokers meanwhile:

- what was acknowledged is delivered;
- what was completed, and confirmed, is never delivered again;
- nothing is completed twice.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from crash import messages

from twinbus.amqp.messaging import decode_message
from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.errors import ServiceBusError

from .machines import Machines
from .processes import until

_TROUBLE = (ClientError, ServiceBusError, OSError, TimeoutError)
_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
_LONGEST_QUEUE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message that came to a client."""

    name: str
    # To which the client is connected; the message may be another's.
    broker: str
    # When it came, and when the owner sent it: the network may have held it.
    at: float
    sent_at: float
    # In which its store was taken by the broker that delivered it.
    epoch: int


@dataclass(slots=True, kw_only=True)
class Book:
    """Of one queue. Times are those that a database on this machine has, too."""

    # When, by name.
    acknowledged: dict[str, float] = field(default_factory=dict)
    completed: dict[str, float] = field(default_factory=dict)
    completed_twice: list[str] = field(default_factory=list)
    # Somebody has tried to; if the answer was lost, nobody knows whether it was done.
    tried: set[str] = field(default_factory=set)
    deliveries: list[Delivery] = field(default_factory=list)
    # By which broker each message was acknowledged.
    acknowledged_by: dict[str, str] = field(default_factory=dict)
    # The epoch of the delivery that was completed.
    completed_in: dict[str, int] = field(default_factory=dict)

    def waiting_count(self) -> int:
        """Those of which nobody has tried to complete any delivery yet."""
        return len(self.acknowledged.keys() - self.completed.keys() - self.tried)

    def acknowledge(self, name: str, broker: str) -> None:
        self.acknowledged[name] = time.time()
        self.acknowledged_by[name] = broker

    def complete(self, name: str, epoch: int) -> None:
        if name in self.completed:
            self.completed_twice.append(name)
        self.completed[name] = time.time()
        self.completed_in[name] = epoch

    def check(self) -> None:
        """What must be true at any time."""
        assert self.completed_twice == []
        for one in self.deliveries:
            completed_at = self.completed.get(one.name, one.sent_at)
            assert one.sent_at <= completed_at, f"{one} was sent after its completion"

    def delivered_by(self, broker: str, since: float) -> list[Delivery]:
        return [
            one for one in self.deliveries if one.broker == broker and one.at > since
        ]

    def acknowledged_since(self, broker: str, since: float) -> list[str]:
        return [
            name
            for name, at in self.acknowledged.items()
            if at > since and self.acknowledged_by[name] == broker
        ]


class Traffic:
    """To and from one queue, by a sender and a receiver at each broker."""

    def __init__(
        self, machines: Machines, queue: str, lock_seconds: float = 60.0
    ) -> None:
        """`lock_seconds`: those of the queue."""
        self._machines = machines
        self._queue = queue
        self._lock_seconds = lock_seconds
        self.book = Book()
        self._tasks: list[asyncio.Task[None]] = []
        self._senders: list[asyncio.Task[None]] = []

    def start(self, *brokers: str) -> None:
        for broker in brokers:
            self._senders.append(asyncio.create_task(self._send_for_ever(broker)))
            self._tasks.append(asyncio.create_task(self._receive_for_ever(broker)))

    async def stop(self) -> None:
        tasks = [*self._senders, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Send no more, and wait until all that was acknowledged was delivered, and its
        receiver has tried to complete it."""
        for task in self._senders:
            task.cancel()

        async def is_all_completed() -> bool:
            return self.book.waiting_count() == 0

        await until(is_all_completed)
        await self.stop()
        self.book.check()

    async def goes_on(self, broker: str) -> None:
        """Wait until the broker has acknowledged and delivered some more."""
        since = time.time()

        async def is_going_on() -> bool:
            book = self.book
            return (
                len(book.acknowledged_since(broker, since)) >= 5
                and len(book.delivered_by(broker, since)) >= 1
            )

        await until(is_going_on)

    async def _send_for_ever(self, broker: str) -> None:
        number = 0
        while True:
            try:
                async with await self._machines.connect(broker) as connection:
                    sender = await connection.sender(self._queue, timeout_seconds=3.0)
                    while True:
                        number += 1
                        name = f"{self._queue} {broker} {number}"
                        async with asyncio.timeout(_ANSWER_SECONDS):
                            await sender.send(messages.named(name))
                        self.book.acknowledge(name, broker)
                        await self._keep_pace()
            except _TROUBLE:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _keep_pace(self) -> None:
        """Receivers take one at a time, and must be done soon after senders are."""
        await asyncio.sleep(0.02)

        async def is_short() -> bool:
            return self.book.waiting_count() <= _LONGEST_QUEUE

        await until(is_short)

    async def _receive_for_ever(self, broker: str) -> None:
        while True:
            try:
                async with await self._machines.connect(broker) as connection:
                    await self._receive(connection, broker)
            except _TROUBLE:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _receive(self, connection: ClientConnection, broker: str) -> None:
        # One at a time, so that the time at which it came is known.
        receiver = await connection.receiver(self._queue, credit=0, timeout_seconds=3.0)
        while True:
            receiver.issue_credit(1)
            while not (found := await receiver.receive_batch(1, timeout_seconds=5.0)):
                receiver.check()
            name = messages.found(found[0].payload).name
            epoch = _epoch_of(found[0].delivery_tag)
            self.book.deliveries.append(
                Delivery(
                    name=name,
                    broker=broker,
                    at=time.time(),
                    sent_at=_locked_until(found[0].payload) - self._lock_seconds,
                    epoch=epoch,
                )
            )
            self.book.tried.add(name)
            delivery = found[0].delivery_id
            async with asyncio.timeout(_ANSWER_SECONDS):
                await receiver.settle_confirmed(delivery, delivery)
            self.book.complete(name, epoch)


def _epoch_of(delivery_tag: bytes) -> int:
    """A lock token holds it, see `broker/message_lock.py`."""
    return int.from_bytes(delivery_tag[2:5], "big")


def _locked_until(payload: bytes) -> float:
    annotations: dict[Any, Any] = decode_message(payload).message_annotations or {}
    return float(annotations["x-opt-locked-until"]) / 1000
