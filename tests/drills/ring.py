"""Transactions: tokens that go round in one queue, each step in a transaction.

A step completes the token's message and sends the next one. So each token is there
once, whenever somebody looks, and at the step that was last confirmed; or one further,
if nobody knows whether that step was committed.
"""

import asyncio
import time
from collections import Counter

from brokers.processes import Brokers
from crash import messages

from twinbus.amqp.events import MessageReceived
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME
from twinbus.client import ClientConnection, ClientReceiver, ClientSender
from twinbus.client.errors import ClientError, LinkClosed, NotAccepted
from twinbus.client.transactions import Controller
from twinbus.errors import ServiceBusError

from .entities import RING

_TOKEN_COUNT = 6
_PACE_SECONDS = 0.03
_PAUSE_SECONDS = 0.1
_CALL_SECONDS = 10.0
_TROUBLE = (ClientError, ServiceBusError, OSError, TimeoutError, KeyError)


class Ring:
    """One client of ours."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        # The step that was last confirmed, by token; and the one that was last tried.
        self.confirmed: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.broken: list[str] = []
        self.asked_since = 0.0
        self.answered_at = 0.0
        self.step_count = 0
        self.trouble_count = 0

    async def begin(self) -> None:
        """Put all tokens into the queue. Nothing fails yet, but a broker may not know
        for a second where the queue is."""
        async with asyncio.timeout(_CALL_SECONDS):
            while len(self.confirmed) < _TOKEN_COUNT:
                try:
                    async with await self._brokers.connect_to_any() as connection:
                        await self._put_tokens(await connection.sender(RING))
                except (LinkClosed, NotAccepted):
                    # Then nothing of it happened.
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def _put_tokens(self, sender: ClientSender) -> None:
        for number in range(len(self.confirmed), _TOKEN_COUNT):
            await sender.send(messages.named(f"t{number}:0"))
            self.confirmed[f"t{number}"] = self.tried[f"t{number}"] = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    connection = await self._brokers.connect_to_any()
                try:
                    await self._go_round(connection)
                finally:
                    connection.abort()
            except _TROUBLE:
                # Also: this broker does not own the queue, and another one does.
                self.trouble_count += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _go_round(self, connection: ClientConnection) -> None:
        async with asyncio.timeout(_CALL_SECONDS):
            receiver = await connection.receiver(RING, credit=1)
            sender = await connection.sender(RING)
            controller = await connection.controller()
        while True:
            got = await receiver.receive_batch(1, timeout_seconds=_CALL_SECONDS)
            for delivery in got:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self._step(controller, receiver, sender, delivery)
            if not got:
                return
            await asyncio.sleep(_PACE_SECONDS)

    async def _step(
        self,
        controller: Controller,
        receiver: ClientReceiver,
        sender: ClientSender,
        delivery: MessageReceived,
    ) -> None:
        begun_at = time.monotonic()
        token, step = _read(messages.found(delivery.payload).name)
        if step not in (self.confirmed[token], self.tried[token]):
            self.broken.append(f"{token} came with step {step}: {self._known(token)}")
        self.confirmed[token] = max(step, self.confirmed[token])
        self.tried[token] = step + 1
        transaction = await controller.declare()
        at = delivery.delivery_id
        state = transaction.state(ACCEPTED_OUTCOME)
        await receiver.settle_confirmed(at, at, state)
        following = messages.named(f"{token}:{step + 1}")
        await sender.send(following, state=transaction.state())
        await transaction.commit()
        self.confirmed[token] = step + 1
        self.step_count += 1
        if begun_at > self.asked_since and self.answered_at < self.asked_since:
            self.answered_at = time.monotonic()

    def _known(self, token: str) -> str:
        return f"{self.confirmed[token]} confirmed, {self.tried[token]} tried"

    def audit(self, names: list[str]) -> list[str]:
        """What is wrong with what is in the queue, nobody being at work."""
        found = Counter(token for token, _ in map(_read, names))
        wrong = list(self.broken)
        for token in self.confirmed:
            if found[token] != 1:
                wrong.append(f"{token} is there {found[token]} times")
        for token, step in map(_read, names):
            if step not in (self.confirmed[token], self.tried[token]):
                wrong.append(f"{token} is at step {step}: {self._known(token)}")
        return wrong


def _read(name: str) -> tuple[str, int]:
    token, _, step = name.partition(":")
    return token, int(step)
