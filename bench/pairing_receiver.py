"""`python -m bench.pairing_receiver`: takes and completes everything on the primary.

It is also the application that runs the syphon, if it is told to, and it keeps the
audit. It receives with `twinbus.client`, whose settlements say whether the bus has
confirmed them, and connects again for as long as the primary is away.
"""

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from itertools import groupby
from typing import Any

from azure.servicebus.aio import ServiceBusClient

from bench.pairing_audit import Audit
from bench.pairing_process import Line, Teller
from bench.pairing_sender import pair_options
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.messaging import Message, decode_message
from twinbus.client import ClientError, ClientReceiver, NotAccepted
from twinbus.client.address import parse_address
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.clock import SystemClock
from twinbus.pairing import pair_namespace

_CREDIT = 500
_RETRY_SECONDS = 0.2
_STATUS_SECONDS = 0.25
_SEQUENCE_NUMBER = "x-opt-sequence-number"


class AuditedReceiver:
    """Receives from one queue for as long as it is let."""

    def __init__(self, settings: Line, audit: Audit) -> None:
        self._audit = audit
        self._queue: str = settings["queue"]
        self._connection = NamespaceConnection(
            parse_address(settings["primary"]), SystemClock()
        )

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self._receive()
                except (ClientError, OSError, TimeoutError):
                    # The primary is away: that is what this bench is about.
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            await self._connection.close()

    async def _receive(self) -> None:
        """Until the link ends: raises."""
        connection = await self._connection.get()
        receiver = await connection.receiver(self._queue, credit=_CREDIT)
        while True:
            batch = await receiver.receive_batch(_CREDIT)
            ids = [self._note(delivery) for delivery in batch]
            if await _complete(receiver, batch):
                self._audit.completed(ids)

    def _note(self, delivery: MessageReceived) -> str:
        message = decode_message(delivery.payload)
        id = _id_of(message)
        annotations: dict[Any, Any] = message.message_annotations or {}
        self._audit.received(id, int(annotations[_SEQUENCE_NUMBER]))
        return id


def _id_of(message: Message) -> str:
    assert message.properties is not None, "every message has an id"
    return str(message.properties.message_id)


async def _complete(receiver: ClientReceiver, batch: list[MessageReceived]) -> bool:
    """Whether the bus confirmed all of them; if not, it may deliver some again."""
    is_confirmed = True
    # Neighbours have the same difference to their place.
    for _, run in groupby(enumerate(batch), lambda one: one[1].delivery_id - one[0]):
        ids = [delivery.delivery_id for _, delivery in run]
        try:
            await receiver.settle_confirmed(ids[0], ids[-1])
        except NotAccepted:
            # A lock ran out while the primary was frozen.
            is_confirmed = False
    return is_confirmed


async def _tell_for_ever(audit: Audit, teller: Teller) -> None:
    while True:
        teller.tell("status", once=audit.once)
        await asyncio.sleep(_STATUS_SECONDS)


async def _first_of(teller: Teller, receiving: asyncio.Task[None]) -> Line:
    """What we are told next, unless receiving ends before, which is a bug."""
    telling = asyncio.create_task(teller.told())
    await asyncio.wait((telling, receiving), return_when=asyncio.FIRST_COMPLETED)
    if receiving.done():
        telling.cancel()
        await receiving
    return await telling


async def _open_pair(settings: Line, stack: AsyncExitStack) -> None:
    """The pair of the receiving application: it never sends, and runs the syphon."""
    primary = ServiceBusClient.from_connection_string(settings["primary"])
    options = pair_options(settings, enable_syphon=True)
    await stack.enter_async_context(options.secondary_management_client)
    await stack.enter_async_context(await pair_namespace(primary, options))


async def main() -> int:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    teller = Teller()
    await teller.open()
    settings = await teller.told()
    audit = Audit()
    async with AsyncExitStack() as stack:
        if settings["enable_syphon"]:
            await _open_pair(settings, stack)
        receiving = asyncio.create_task(AuditedReceiver(settings, audit).run())
        telling = asyncio.create_task(_tell_for_ever(audit, teller))
        teller.tell("ready")
        told = await _first_of(teller, receiving)
        telling.cancel()
        receiving.cancel()
        await asyncio.gather(telling, receiving, return_exceptions=True)
    sent = {int(sender): count for sender, count in told["sent"].items()}
    failed = {
        int(sender): [(first, last) for first, last in ranges]
        for sender, ranges in told["failed"].items()
    }
    teller.tell("end", **asdict(audit.verdict(sent, failed)))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
