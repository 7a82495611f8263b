"""Two buses in the test's process, and a pair over them, synchronous or asynchronous.

For tests of the faces themselves. How a pair handles a primary that is killed, frozen
or cut off is tested with processes (`harness_world.py`).
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import azure.servicebus as sync_package
import azure.servicebus.aio as async_package
from azure.servicebus.aio.management import (
    ServiceBusAdministrationClient as AsyncAdministrationClient,
)
from azure.servicebus.management import ServiceBusAdministrationClient
from sdk_links import opened

from twinbus.pairing import SendAvailabilityPairedNamespaceOptions
from twinbus.testing import Bus

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 20.0

QUICK: dict[str, Any] = {
    "backlog_queue_count": 2,
    "failover_interval": 0.2,
    "ping_primary_interval": 1,
    "attempt_timeout": 2,
    "primary_name": "site-a",
}


@contextmanager
def two_buses() -> Iterator[tuple[Bus, Bus]]:
    """A primary with the queue `orders`, and a secondary that can be administered."""
    with Bus(store="memory") as primary, Bus(store="memory", tls=True) as secondary:
        primary.create_queue("orders")
        yield primary, secondary


def wrong_key(connection_string: str) -> str:
    return connection_string.replace("SharedAccessKey=", "SharedAccessKey=not-")


class Clients:
    """The three clients of an application, of either kind."""

    def __init__(self, primary: Bus, secondary: Bus, *, asynchronous: bool) -> None:
        self.primary_bus, self.secondary_bus = primary, secondary
        package = async_package if asynchronous else sync_package
        self._kind: Any = package.ServiceBusClient
        self._administration_kind: Any = (
            AsyncAdministrationClient
            if asynchronous
            else ServiceBusAdministrationClient
        )
        self.primary = self.messaging(primary.connection_string)
        self.secondary = self.messaging(secondary.connection_string)
        self.administration = self.administering(secondary.connection_string)

    def messaging(self, connection_string: str) -> Any:
        return self._kind.from_connection_string(connection_string, retry_total=0)

    def administering(self, connection_string: str) -> Any:
        return self._administration_kind.from_connection_string(
            connection_string,
            connection_verify=str(self.secondary_bus.ca_file),
            retry_total=0,
        )

    def options(self, **changes: Any) -> SendAvailabilityPairedNamespaceOptions:
        settings = {**QUICK, **changes}
        return SendAvailabilityPairedNamespaceOptions(
            settings.pop("administration", self.administration),
            settings.pop("secondary", self.secondary),
            **settings,
        )


def bodies_at(bus: Bus, queue: str) -> list[str]:
    return [str(message) for message in messages_at(bus, queue)]


def messages_at(bus: Bus, queue: str) -> list[Any]:
    """What waits in a queue, seen by peeking."""
    client = sync_package.ServiceBusClient.from_connection_string(bus.connection_string)
    with client, opened(client.get_queue_receiver(queue)) as receiver:
        return receiver.peek_messages(100)


def backlog_at(bus: Bus, count: int = 2) -> list[Any]:
    """Of all backlog queues."""
    paths = [f"site-a/x-servicebus-transfer/{index}" for index in range(count)]
    return [message for path in paths for message in messages_at(bus, path)]


async def in_thread(function: Any, *args: Any) -> Any:
    """A blocking look at a bus, while the loop goes on."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.to_thread(function, *args)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
