"""Clients at work: every kind of send and settlement, recorded in the ledger.

Each client has its own connection and works until that ends, with several operations in
progress at a time. A request is in the ledger before it is sent, and its reply at once,
so that a kill may come at any moment.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from random import Random
from uuid import UUID

from crash import messages
from crash.ledger import Ledger, Place
from crash.server_process import ServerProcess
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.outcomes import ACCEPTED, MODIFIED, Modified, encode_rejected
from twinbus.client import ClientConnection, ClientReceiver, ConnectionLost

QUEUE = "work"
# Received from in receive-and-delete mode.
DRAIN = "drain"

CONFIG = f"""
[queues.{QUEUE}]
lock_duration = "PT5M"
max_delivery_count = 1000
[queues.{DRAIN}]
"""

DRAIN_CREDIT = 50

_BATCH_FORMAT = 0x80013700
_HOUR_MS = 3_600_000
_DEFER = encode_composite(Modified(undeliverable_here=True))
_DEAD_LETTER = encode_rejected(AmqpError("com.microsoft:dead-letter", "hopeless"))

# Outcome, where it puts the message, and how often of ten times.
_SETTLEMENTS = (
    ("complete", ACCEPTED, Place.SETTLED, 5),
    ("abandon", MODIFIED, Place.ACTIVE, 2),
    ("defer", _DEFER, Place.DEFERRED, 1),
    ("dead-letter", _DEAD_LETTER, Place.DEAD_LETTERED, 1),
    ("hold", b"", Place.ACTIVE, 1),
)

# So many go out fast; then senders go on one by one, or audits would take long.
_FAST_COUNT = 1_500


class Load:
    """One round of work, from connecting to the end of all connections."""

    def __init__(
        self, server: ServerProcess, ledger: Ledger, drained: Ledger, random: Random
    ) -> None:
        self._server = server
        self._ledger = ledger
        self._drained = drained
        self._random = random
        self._prefix = f"{random.getrandbits(40):010x}"
        self._numbers = itertools.count()
        # Locks that nobody settles: message and token of each.
        self.held: list[tuple[str, UUID]] = []
        self.accepted_count = 0
        self.settled_count = 0
        # Deferred messages that somebody may complete.
        self._deferred: asyncio.Queue[str] = asyncio.Queue()
        for name, story in ledger.stories.items():
            if story.may_be == {Place.DEFERRED}:
                self._deferred.put_nowait(name)
        # Called with the kind of thing that a client was just told.
        self.on_word: Callable[[str], None] = lambda kind: None

    async def run(self) -> None:
        """Work until the bus is gone; raises what is not an end of a connection."""
        clients = (
            *(self._send_singles, self._send_singles, self._send_batches),
            *(self._schedule, self._settle, self._settle),
            *(self._feed_drain, self._drain),
        )
        tasks = [asyncio.create_task(self._client(work)) for work in clients]
        # Waits for what others defer, so it does not notice the end by itself.
        last = asyncio.create_task(self._client(self._take_deferred))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in (*tasks, last):
                task.cancel()
            await asyncio.gather(*tasks, last, return_exceptions=True)
        if not last.cancelled():
            await last

    async def _client(
        self, work: Callable[[ClientConnection], Awaitable[None]]
    ) -> None:
        try:
            connection = await self._server.connect()
        except (OSError, ConnectionLost):
            return  # the bus was gone before we came
        try:
            await work(connection)
        except ConnectionLost:
            return  # nothing else may end a client: not one refusal
        finally:
            connection.abort()

    def _new_names(self, count: int) -> list[str]:
        return [f"{self._prefix}-{next(self._numbers)}" for _ in range(count)]

    def _chunk(self, fast: int) -> int:
        return self._random.randint(1, fast) if self.is_fast() else 1

    def is_fast(self) -> bool:
        return self.accepted_count < _FAST_COUNT

    def _sizes(self) -> int:
        return self._random.choice((0, 20, 256, 4096))

    def _told(self, kind: str, count: int) -> None:
        if kind == "accepted":
            self.accepted_count += count
        else:
            self.settled_count += count
        self.on_word(kind)

    # --- sending --------------------------------------------------------------

    async def _send_singles(self, connection: ClientConnection) -> None:
        """Messages one by one, with many of them unanswered at a time."""
        sender = await connection.sender(QUEUE)
        while True:
            await asyncio.gather(
                *(self._send_one(sender.send, sender.name) for _ in range(3)),
                self._send_some(sender.send_many, sender.name),
            )

    async def _send_one(
        self, send: Callable[[bytes], Awaitable[object]], sender: str
    ) -> None:
        names = self._new_names(1)
        self._ledger.sending(names, f"{sender} {names[0]}")
        await send(messages.named(names[0], self._sizes()))
        self._ledger.accepted(names)
        self._told("accepted", 1)

    async def _send_some(
        self, send_many: Callable[[list[bytes]], Awaitable[object]], sender: str
    ) -> None:
        names = self._new_names(self._chunk(60))
        self._ledger.sending(names, sender)
        await send_many([messages.named(name, self._sizes()) for name in names])
        self._ledger.accepted(names)
        self._told("accepted", len(names))

    async def burst(self, count: int) -> None:
        """Many at once, on a connection of their own."""

        async def send(connection: ClientConnection) -> None:
            sender = await connection.sender(QUEUE)
            names = self._new_names(count)
            self._ledger.sending(names, sender.name)
            await sender.send_many([messages.named(name) for name in names])
            self._ledger.accepted(names)

        await self._client(send)

    async def _send_batches(self, connection: ClientConnection) -> None:
        sender = await connection.sender(QUEUE)
        while True:
            names = self._new_names(self._chunk(30))
            self._ledger.sending(names, sender.name, is_batch=True)
            envelope = messages.batch_of(messages.named(name) for name in names)
            await sender.send_many([envelope], message_format=_BATCH_FORMAT)
            self._ledger.accepted(names)
            self._told("accepted", len(names))

    # --- scheduling -----------------------------------------------------------

    async def _schedule(self, connection: ClientConnection) -> None:
        """Far ahead, by both ways there are; some are taken back."""
        sender = await connection.sender(QUEUE)
        ledger = self._ledger
        while True:
            due_at = int(time.time() * 1000) + _HOUR_MS
            (sent,) = self._new_names(1)
            ledger.sending([sent], "annotated", Place.SCHEDULED)
            await sender.send(messages.named(sent, due_at=due_at))
            ledger.accepted([sent])
            names = self._new_names(2)
            ledger.sending(names, "scheduled", Place.SCHEDULED, is_batch=True)
            encoded = [messages.named(name, due_at=due_at) for name in names]
            numbers = await messages.schedule(connection, QUEUE, encoded)
            ledger.accepted(names)
            ledger.asking(names[0], Place.SETTLED)
            await messages.cancel(connection, QUEUE, numbers[:1])
            ledger.confirmed(names[0], Place.SETTLED)
            self._told("settled", 1)

    # --- receiving ------------------------------------------------------------

    async def _settle(self, connection: ClientConnection) -> None:
        receiver = await connection.receiver(QUEUE, credit=100)
        while True:
            batch = await receiver.receive_batch(20)
            for delivery in batch:
                self._ledger.seen(messages.found(delivery.payload))
            await asyncio.gather(
                *(self._settle_one(receiver, delivery) for delivery in batch)
            )

    async def _settle_one(
        self, receiver: ClientReceiver, delivery: MessageReceived
    ) -> None:
        weights = [weight for *_, weight in _SETTLEMENTS]
        ((kind, outcome, place, _),) = self._random.choices(_SETTLEMENTS, weights)
        name = messages.found(delivery.payload).name
        if kind == "hold":
            token = UUID(bytes_le=bytes(delivery.delivery_tag))
            self.held.append((name, token))
            return
        if kind == "abandon":
            self._ledger.abandoning(name)
        else:
            self._ledger.asking(name, place)
        at = delivery.delivery_id
        await receiver.settle_confirmed(at, at, outcome)
        if kind == "abandon":
            self._ledger.abandoned(name)
        else:
            self._ledger.confirmed(name, place)
        if kind == "defer":
            self._deferred.put_nowait(name)
        self._told("settled", 1)

    async def _take_deferred(self, connection: ClientConnection) -> None:
        """Complete deferred messages by their numbers."""
        ledger = self._ledger
        while True:
            name = await self._deferred.get()
            number = ledger.stories[name].number
            token = await messages.receive_deferred(connection, QUEUE, number)
            if self._random.random() < 0.5:
                self.held.append((name, token))
                continue
            ledger.asking(name, Place.SETTLED)
            await messages.complete_by_token(connection, QUEUE, token)
            ledger.confirmed(name, Place.SETTLED)
            self._told("settled", 1)

    # --- receive and delete ---------------------------------------------------

    async def _feed_drain(self, connection: ClientConnection) -> None:
        sender = await connection.sender(DRAIN)
        while True:
            names = self._new_names(self._chunk(20))
            self._drained.sending(names, sender.name)
            await sender.send_many([messages.named(name) for name in names])
            self._drained.accepted(names)

    async def _drain(self, connection: ClientConnection) -> None:
        receiver = await connection.receiver(DRAIN, settled=True, credit=DRAIN_CREDIT)
        while True:
            for delivery in await receiver.receive_batch(DRAIN_CREDIT):
                item = messages.found(delivery.payload)
                self._drained.seen(item)
                self._drained.confirmed(item.name, Place.SETTLED)
