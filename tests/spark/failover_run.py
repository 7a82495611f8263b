"""A real failover, and its logs: two buses, a paired sender, a syphon, an outage."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.clock import SystemClock
from twinbus.pairing import (
    EventKind,
    PairEvent,
    SendAvailabilityPairedNamespaceOptions,
    pair_namespace,
)
from twinbus.testing import Bus

PRIMARY = "site-a"
_PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Load:
    """How many messages are sent before, in and after the outage, and how fast."""

    before: int = 20
    during: int = 15
    after: int = 5
    pause_seconds: float = 0.0


async def fail_over(site_a: Bus, site_b: Bus, send_log: Path, load: Load) -> None:
    """Send to `orders` of the first through an outage; all are received at the end."""
    is_back = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(event: PairEvent) -> None:
        if (event.kind, event.text) == (EventKind.STATE_CHANGED, "recovering"):
            loop.call_soon_threadsafe(is_back.set)

    options = SendAvailabilityPairedNamespaceOptions(
        ServiceBusAdministrationClient.from_connection_string(
            site_b.connection_string, connection_verify=str(site_b.ca_file)
        ),
        ServiceBusClient.from_connection_string(site_b.connection_string),
        failover_interval=0,
        ping_primary_interval=1,
        enable_syphon=True,
        primary_name=PRIMARY,
        send_log=send_log,
        on_event=told,
    )
    primary = ServiceBusClient.from_connection_string(site_a.connection_string)
    async with await pair_namespace(primary, options) as client:
        async with client.get_queue_sender("orders") as sender:
            await _send(sender, "before", load.before, load)
            await _receive(client, load.before)
            site_a.stop()
            await _send(sender, "during", load.during, load)
            site_a.start()
            await _receive(client, load.during)
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await is_back.wait()
            await _send(sender, "after", load.after, load)
            await _receive(client, load.after)
    await options.secondary_management_client.close()


async def _send(sender: Any, word: str, count: int, load: Load) -> None:
    for number in range(count):
        message = ServiceBusMessage(f"{word} {number}", message_id=f"{word}-{number}")
        await sender.send_messages(message)
        await asyncio.sleep(load.pause_seconds)


async def _receive(client: Any, count: int) -> None:
    async with client.get_queue_receiver("orders") as receiver:
        while count:
            for message in await receiver.receive_messages(count, max_wait_time=60):
                if message.message_id in ("before-3", "before-4"):
                    await receiver.dead_letter_message(message, reason="OutOfStock")
                else:
                    await receiver.complete_message(message)
                count -= 1


def export(bus: Bus, folder: Path, name: str) -> Path:
    """The log of a bus that has stopped, as files."""
    command = [sys.executable, "-m", "twinbus", "log", "export"]
    flags = ["--data", str(bus.folder), "--folder", str(folder), "--namespace", name]
    subprocess.run([*command, *flags], check=True, capture_output=True)
    return folder


def logs_of_a_failover(
    folder: Path, load: Load, create: Callable[[Bus], None]
) -> tuple[Path, ...]:
    """Run it, and return the folders of three logs."""
    send_log = folder / "senders"
    buses: tuple[Any, Any] = (Bus(), Bus(tls=True))
    for bus in buses:
        # Time passes as for everybody else: the sender's log has the machine's time.
        bus.clock = SystemClock()
    with buses[0] as site_a, buses[1] as site_b:
        create(site_a)
        asyncio.run(fail_over(site_a, site_b, send_log, load))
        site_a.stop()
        site_b.stop()
        return (
            export(site_a, folder / "site-a", PRIMARY),
            export(site_b, folder / "site-b", "site-b"),
            send_log,
        )
