"""Sends messages, many at a time.

All messages of one call share one future, which is done when the peer has settled the
last of them. A call sends as many as credit and the peer's window allow, then waits for
more of both.
"""

import asyncio
from collections.abc import Sequence

from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME, Accepted, Rejected
from twinbus.amqp.performatives import error_of
from twinbus.amqp.transactions import Declared, TransactionalState
from twinbus.client.errors import ClientError, NotAccepted
from twinbus.client.link import ClientLink, Wire

# Messages between two writes: keeps what waits in memory small.
_WRITE_COUNT = 500


class SendBatch:
    """The messages of one call that are not settled yet."""

    def __init__(self, count: int) -> None:
        self._left_count = count
        # The first outcome that was not accepted.
        self._failure: ClientError | None = None
        self.done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def settle(self, state: object) -> None:
        """One message has got this outcome."""
        self._left_count -= 1
        if state is not ACCEPTED_OUTCOME:
            self._judge(state)
        if self._left_count > 0 or self.done.done():
            return
        if self._failure is not None:
            self.done.set_exception(self._failure)
        else:
            self.done.set_result(state)

    def fail(self, failure: ClientError) -> None:
        if not self.done.done():
            self.done.set_exception(failure)

    def abandon(self) -> None:
        """Nobody waits any more: a late failure must not be reported as unhandled."""
        if not self.done.cancel() and not self.done.cancelled():
            self.done.exception()

    def _judge(self, state: object) -> None:
        """Note the first outcome that is not a success."""
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if self._failure is not None or isinstance(outcome, Accepted | Declared):
            return
        error = error_of(outcome.error) if isinstance(outcome, Rejected) else None
        self._failure = NotAccepted("a message was not accepted", outcome, error)


class ClientSender(ClientLink):
    def __init__(self, wire: Wire, link: Link, settled: bool) -> None:
        super().__init__(wire, link)
        # Messages go out settled: the peer answers nothing.
        self._settled = settled
        self._next_tag = 0
        # In the order of their calls.
        self._batches: dict[SendBatch, None] = {}

    @property
    def max_message_bytes(self) -> int:
        """The largest message that the peer takes; 0 if it did not say."""
        return self._link.max_message_size

    async def send(self, payload: bytes, *, state: bytes | None = None) -> object:
        """Send one encoded message and return its outcome.

        Raises NotAccepted with the peer's error, LinkClosed or ConnectionLost.
        """
        return await self.send_many([payload], state=state)

    async def send_many(
        self,
        payloads: Sequence[bytes],
        *,
        message_format: int = 0,
        state: bytes | None = None,
    ) -> object:
        """Send encoded messages and wait until all of them are settled.

        Returns the last outcome (None if the link is settled). Raises NotAccepted for
        the first message that was not accepted, after all have been answered.
        """
        if not payloads:
            return None
        batch = SendBatch(len(payloads))
        self._batches[batch] = None
        try:
            sent_count = 0
            while sent_count < len(payloads):
                self.check()
                sent_count = self._send_some(
                    payloads, sent_count, batch, message_format, state
                )
                self._wire.flush()
                if sent_count < len(payloads) and not self._can_send():
                    await self.changed()
                await self._wire.writable()
            return None if self._settled else await batch.done
        finally:
            self._batches.pop(batch, None)
            batch.abandon()

    def on_lost(self, failure: ClientError) -> None:
        super().on_lost(failure)
        for batch in self._batches:
            batch.fail(failure)

    def _can_send(self) -> bool:
        return self._link.credit > 0 and self._link.session.window_open()

    def _send_some(
        self,
        payloads: Sequence[bytes],
        start: int,
        batch: SendBatch,
        message_format: int,
        state: bytes | None,
    ) -> int:
        """Send from `start` on while credit lasts; return the index of the next one."""
        link = self._link
        end = min(len(payloads), start + _WRITE_COUNT)
        while start < end and self._can_send():
            tag = self._next_tag.to_bytes(8, "big")
            self._next_tag += 1
            payload = payloads[start]
            link.send(payload, tag, self._settled, batch, message_format, state)
            start += 1
        return start
