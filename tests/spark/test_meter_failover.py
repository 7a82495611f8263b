"""A real pair, its real logs: what idle polls, pings and detours cost by the meter.

Time is scaled: pings come each second, and a quarter of an hour of the syphon is half
a second.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient
from pyspark.sql import SparkSession

from twinbus.client.address import parse_address
from twinbus.clock import SystemClock
from twinbus.pairing import (
    EventKind,
    PairEvent,
    SendAvailabilityPairedNamespaceOptions,
    pair_namespace,
)
from twinbus.pairing.own.engine import own_engine
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import Syphon
from twinbus.spark.jobs import meter
from twinbus.testing import Bus

from .failover_run import PRIMARY, export

QUEUES, POLLS, FAILED_PINGS, MESSAGES = 10, 4, 3, 8
_PATIENCE_SECONDS = 120


@dataclass
class Told:
    """What the pair and the syphon told of themselves."""

    pings: Counter[str] = field(default_factory=Counter)
    # Receives that found nothing, by queue; and how many messages the others got.
    idle: Counter[str] = field(default_factory=Counter)
    received: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, event: PairEvent) -> None:
        if event.kind is EventKind.PINGED:
            self.pings[event.text] += 1
        elif event.kind is EventKind.RECEIVED:
            self.received += event.count
            self.idle[event.queue] += event.count == 0
        self.changed.set()

    async def until_pinged(self, outcome: str, count: int) -> None:
        await self._until(lambda: self.pings[outcome] >= count)

    async def until_idle(self) -> None:
        await self._until(
            lambda: (
                self.received == MESSAGES
                and len(self.idle) == QUEUES
                and min(self.idle.values()) >= POLLS
            )
        )

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()


async def through_an_outage(site_a: Bus, site_b: Bus, send_log: Path) -> Told:
    """Divert messages, ping until the primary is back, and bring them back."""
    told, loop = Told(), asyncio.get_running_loop()
    options = SendAvailabilityPairedNamespaceOptions(
        ServiceBusAdministrationClient.from_connection_string(
            site_b.connection_string, connection_verify=str(site_b.ca_file)
        ),
        ServiceBusClient.from_connection_string(site_b.connection_string),
        backlog_queue_count=QUEUES,
        failover_interval=0,
        ping_primary_interval=1,
        primary_name=PRIMARY,
        send_log=send_log,
        on_event=lambda event: loop.call_soon_threadsafe(told.note, event),
    )
    primary = ServiceBusClient.from_connection_string(site_a.connection_string)
    async with await pair_namespace(primary, options) as client:
        async with client.get_queue_sender("orders") as sender:
            site_a.stop()
            for number in range(MESSAGES):
                await sender.send_messages(ServiceBusMessage(f"order {number}"))
            await told.until_pinged("failed", FAILED_PINGS)
            site_a.start()
            await told.until_pinged("accepted", 1)
    await options.secondary_management_client.close()
    engine = own_engine(
        parse_address(site_a.connection_string),
        parse_address(site_b.connection_string),
        SystemClock(),
    )
    settings = SyphonSettings(poll_ms=500)
    syphon = Syphon(engine, PRIMARY, settings, on_event=told.note)
    await syphon.start()
    await told.until_idle()
    await syphon.close()
    return told


@pytest.mark.timeout(900)
def test_the_meter_counts_what_a_real_pair_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Bus() as site_a, Bus(tls=True) as site_b:
        for bus in (site_a, site_b):
            # The sender's log has the machine's time.
            bus.clock = SystemClock()
        site_a.create_queue("orders")
        told = asyncio.run(through_an_outage(site_a, site_b, tmp_path / "sent"))
        site_a.stop()
        site_b.stop()
        logs = (
            str(export(site_a, tmp_path / "a", PRIMARY)),
            str(export(site_b, tmp_path / "b", "site-b")),
            str(tmp_path / "sent"),
        )
    out = tmp_path / "out"
    options = meter.MeterOptions(logs=logs, books=("documents",), output=str(out))
    use = meter.run(spark, options).pair
    assert use is not None
    assert (use.backlog_queues, use.diverted, use.restored) == (
        *(QUEUES, MESSAGES, MESSAGES),
    )
    # Each poll is one receive; closing a link asks once more.
    polls = sum(told.idle.values())
    assert polls <= use.idle_receives <= polls + QUEUES
    [outage] = use.outages
    assert outage.entity == "orders"
    assert (outage.pings, outage.clients) == (sum(told.pings.values()), 1)
    assert told.pings["failed"] >= FAILED_PINGS
    table = spark.read.parquet(str(out / "billed"))
    sums = table.groupBy("kind", "purpose").sum("billed").collect()
    billed = {(kind, purpose): operations for kind, purpose, operations in sums}
    assert billed["receive_empty", "syphon"] == use.idle_receives
    assert billed["send", "syphon"] == MESSAGES
    # Those that nobody answered, and the one that the bus answered.
    assert billed["ping", "pair"] == told.pings["failed"]
    assert billed["ping", "send"] == told.pings["accepted"]
