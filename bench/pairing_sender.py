"""`python -m bench.pairing_sender`: an application that sends through a pair.

It sends with the vendor's SDK, at a steady rate: what is due when a call returns goes
out with the next one, in one batch. So a sender that had to wait, or is slow, catches
up in larger batches and never leaves a message out. Every message has a number of its
own, and a call that raises makes its numbers failed ones.
"""

import asyncio
import logging
import sys
import time
from typing import Any

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from bench.pairing_audit import message_id
from bench.pairing_process import Line, Teller
from twinbus.pairing import (
    EventKind,
    PairEvent,
    SendAvailabilityPairedNamespaceOptions,
    pair_namespace,
)

_STATUS_SECONDS = 0.5


class PacedSender:
    """One sender, its numbers and its outcomes."""

    def __init__(self, settings: Line, teller: Teller) -> None:
        self._index: int = settings["sender"]
        self._rate: float = settings["rate"]
        self._most: int = settings["most"]
        self._body = bytes(settings["body_bytes"])
        self._teller = teller
        self._is_stopping = False
        self._count = 0
        self._failed: list[tuple[int, int]] = []
        self._calls = 0
        self._slowest_seconds = 0.0
        # Messages that took the detour; whether the present failover had its first.
        self._diverted = 0
        self._is_diverting = False

    def stop(self) -> None:
        self._is_stopping = True

    def happened(self, event: PairEvent) -> None:
        """Tells changes of state, and the first diverted message after each."""
        if event.kind is EventKind.STATE_CHANGED:
            self._is_diverting = False
            self._teller.tell("state", text=event.text)
        elif event.kind is EventKind.DIVERTED:
            self._diverted += event.count
            if not self._is_diverting:
                self._is_diverting = True
                self._teller.tell("diverted")

    async def run(self, sender: Any) -> None:
        began_at = time.monotonic()
        telling = asyncio.create_task(self._tell_for_ever())
        try:
            while not self._is_stopping:
                due = int((time.monotonic() - began_at) * self._rate) - self._count
                if due > 0:
                    await self._send(sender, min(due, self._most))
                else:
                    next_at = began_at + (self._count + 1) / self._rate
                    await asyncio.sleep(max(next_at - time.monotonic(), 0.0))
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        seconds = time.monotonic() - began_at
        self._tell("end", seconds=seconds, cpu_seconds=time.process_time())

    async def _send(self, sender: Any, count: int) -> None:
        first, self._count = self._count, self._count + count
        messages = [
            ServiceBusMessage(self._body, message_id=message_id(self._index, number))
            for number in range(first, first + count)
        ]
        began_at = time.monotonic()
        try:
            await sender.send_messages(messages)
        except (AzureError, ValueError) as error:
            self._failed.append((first, first + count - 1))
            self._teller.tell("failed", count=count, text=repr(error))
        self._calls += 1
        took = time.monotonic() - began_at
        self._slowest_seconds = max(self._slowest_seconds, took)

    async def _tell_for_ever(self) -> None:
        while True:
            self._tell("status")
            await asyncio.sleep(_STATUS_SECONDS)

    def _tell(self, kind: str, **more: object) -> None:
        self._teller.tell(
            kind,
            sent=self._count,
            failed=self._failed,
            calls=self._calls,
            diverted=self._diverted,
            slowest_seconds=self._slowest_seconds,
            **more,
        )


def pair_options(
    settings: Line, enable_syphon: bool = False, on_event: Any = None
) -> SendAvailabilityPairedNamespaceOptions:
    """The pair as both applications of the bench have it."""
    secondary = settings["secondary"]
    return SendAvailabilityPairedNamespaceOptions(
        ServiceBusAdministrationClient.from_connection_string(
            secondary, connection_verify=settings["secondary_ca_file"]
        ),
        ServiceBusClient.from_connection_string(secondary),
        settings["backlog_queues"],
        settings["failover_interval"],
        enable_syphon,
        ping_primary_interval=settings["ping_interval"],
        attempt_timeout=settings["attempt_timeout"],
        primary_name=settings["primary_name"],
        on_event=on_event,
    )


async def main() -> int:
    logging.basicConfig(level=logging.WARNING)
    # The SDK tells every failure that the pair deals with.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    teller = Teller()
    await teller.open()
    settings = await teller.told()
    paced = PacedSender(settings, teller)
    primary = ServiceBusClient.from_connection_string(settings["primary"])
    options = pair_options(settings, on_event=paced.happened)
    async with await pair_namespace(primary, options) as client:
        teller.tell("ready")
        await teller.told()
        async with client.get_queue_sender(settings["queue"]) as sender:
            running = asyncio.create_task(paced.run(sender))
            await teller.told()
            paced.stop()
            await running
    await options.secondary_management_client.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
