"""Receives messages in batches and settles them in ranges.

Credit is topped up as messages are taken, so at most `credit` of them are here or on
their way. A message is the engine's MessageReceived: its payload is not decoded.
Each receiver has an AMQP session of its own, so a range of delivery ids is a range of
its messages.
"""

import asyncio
from collections import deque

from twinbus.amqp.delivery_ids import find_ids
from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED, Rejected
from twinbus.amqp.performatives import error_of
from twinbus.amqp.transactions import TransactionalState
from twinbus.client.errors import ClientError, NotAccepted
from twinbus.client.link import ClientLink, Wire


class SettlementConfirmation:
    """The deliveries of one call whose settlement the peer has not confirmed yet."""

    def __init__(self, count: int) -> None:
        self.left_count = count
        self.failure: ClientError | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirm(self, state: object) -> None:
        self.left_count -= 1
        error = error_of(state.error) if isinstance(state, Rejected) else None
        if error is not None and self.failure is None:
            self.failure = NotAccepted("a settlement was refused", state, error)
        if self.left_count == 0 and not self.done.done():
            if self.failure is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(self.failure)


class ClientReceiver(ClientLink):
    def __init__(self, wire: Wire, link: Link, credit: int) -> None:
        super().__init__(wire, link)
        # At most so many messages have arrived or are on their way; with 0 the user
        # calls issue_credit.
        self._credit = credit
        self._messages: deque[MessageReceived] = deque()
        self._unconfirmed: dict[int, SettlementConfirmation] = {}
        link.session.context = self

    @property
    def source(self) -> object:
        """The source as the peer confirmed it, with the filter it granted."""
        return self._link.source

    @property
    def properties(self) -> dict[object, object]:
        """The link properties of the peer's attach."""
        return self._link.properties

    @property
    def waiting_count(self) -> int:
        """Messages that have arrived and were not taken yet."""
        return len(self._messages)

    @property
    def credit(self) -> int:
        """Messages that the peer may still send."""
        return self._link.credit

    async def receive_batch(
        self, max_count: int, *, timeout_seconds: float | None = None
    ) -> list[MessageReceived]:
        """Wait for at least one message and take up to `max_count`.

        Returns an empty list if none came in time. Messages that have arrived are given
        out even if the link is gone; after them, raises LinkClosed or ConnectionLost.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not self._messages:
                    self.check()
                    await self.changed()
        except TimeoutError:
            return []
        count = min(max_count, len(self._messages))
        batch = [self._messages.popleft() for _ in range(count)]
        self._top_up()
        return batch

    def issue_credit(self, count: int, *, drain: bool = False) -> None:
        """Let the peer send this many messages; for receivers with `credit` 0."""
        self.check()
        self._link.issue_credit(count, drain)
        self._wire.flush()

    async def drain(self) -> list[MessageReceived]:
        """Take back all credit. Returns the messages that the peer had sent before."""
        await self.take_back_credit()
        batch = list(self._messages)
        self._messages.clear()
        return batch

    async def take_back_credit(self, least: int = 0) -> None:
        """Wait until the peer has no credit left. Messages that it had sent before can
        be received. `least`: it gets so much credit first, for what is there now."""
        self.issue_credit(max(self._link.credit, least), drain=True)
        while self._link.drain:
            self.check()
            await self.changed()

    def settle(self, first: int, last: int, outcome: bytes = ACCEPTED) -> None:
        """Settle the deliveries `first` to `last` at once, unconfirmed.

        `outcome` is encoded: see twinbus.amqp.outcomes.
        """
        self.check()
        self._link.session.send_disposition(True, first, last, True, outcome)
        self._wire.flush()

    async def settle_confirmed(
        self, first: int, last: int, outcome: bytes = ACCEPTED
    ) -> None:
        """Settle the deliveries `first` to `last` and wait until the peer confirms all.

        Raises NotAccepted with the peer's error, LinkClosed or ConnectionLost.
        """
        self.check()
        count = ((last - first) & 0xFFFFFFFF) + 1
        confirmation = SettlementConfirmation(count)
        for step in range(count):
            self._unconfirmed[(first + step) & 0xFFFFFFFF] = confirmation
        self._link.session.send_disposition(True, first, last, False, outcome)
        self._wire.flush()
        await confirmation.done

    def on_attached(self) -> None:
        super().on_attached()
        self._top_up()

    def on_message(self, message: MessageReceived) -> None:
        self._messages.append(message)
        if self._waiters:
            self.wake()

    def on_disposition(self, event: DispositionReceived) -> None:
        # A settlement in a transaction is confirmed now, and settled by the commit.
        if not event.settled and not isinstance(event.state, TransactionalState):
            return
        for delivery_id in find_ids(self._unconfirmed, event.first, event.last):
            self._unconfirmed.pop(delivery_id).confirm(event.state)

    def on_lost(self, failure: ClientError) -> None:
        super().on_lost(failure)
        confirmations = dict.fromkeys(self._unconfirmed.values())
        self._unconfirmed.clear()
        for confirmation in confirmations:
            if not confirmation.done.done():
                confirmation.done.set_exception(failure)

    def _top_up(self) -> None:
        wanted = self._credit - len(self._messages)
        if self._failure is None and self._link.credit * 2 < wanted:
            self._link.issue_credit(wanted)
            self._wire.flush()
