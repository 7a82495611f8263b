"""The environment of one test: a proxy in front of each of two sites, names, and pairs.

All tests of a process share the sites, but not the names, so that no test sees messages
of another. Everything that a test opened here is closed at its end.
"""

import asyncio
import gc
import itertools
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.pairing import SendAvailabilityPairedNamespaceOptions, pair_namespace
from twinbus.pairing.events import EventKind, PairEvent

from .harness_audit import Audit, eventually
from .harness_proxy import Proxy
from .harness_site import ROOT_KEY, ROOT_RULE, Site
from .harness_throttle import throttled

_numbers = itertools.count(1)

SHORT = {
    "backlog_queue_count": 2,
    "failover_interval": 0.3,
    "ping_primary_interval": 1,
    "attempt_timeout": 5,
    "busy_wait": 0.5,
    "backlog_retry_interval": 1,
}
"""Options of a pair in a hurry."""

HASTY = {"attempt_timeout": 3}
"""For faults that say nothing, which an attempt's time-out has to notice. The SDK takes
half a second to open a link, and more than a second to tell of a refusal, so that a
shorter one would find outages on a busy machine."""


class World:
    """Two sites as one test sees them."""

    def __init__(self, primary: Site, secondary: Site) -> None:
        self.primary, self.secondary = primary, secondary
        number = next(_numbers)
        self.name = f"site-{os.getpid()}-{number}"
        # Everything that pairs of this test told.
        self.events: list[PairEvent] = []
        # Backlog queues that its pairs have, at most.
        self._backlog_queue_count = 0
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self.way = enter(Proxy(primary.port, translate=throttled))
        self.secondary_way = enter(Proxy(secondary.port))
        self._pairs: list[Any] = []
        self._clients: list[Any] = []
        self._audits: dict[Site, Audit] = {}

    async def close(self) -> None:
        self.primary.make_sound()
        self.secondary.make_sound()
        self.way.heal()
        self.secondary_way.heal()
        async with asyncio.timeout(30):
            opened = [*self._pairs, *self._audits.values()]
            await asyncio.gather(*(one.close() for one in opened))
            await asyncio.gather(*(client.close() for client in self._clients))
        await let_transports_end()
        self._stack.close()

    # --- names and entities ---------------------------------------------------

    def path(self, stem: str = "orders") -> str:
        """A name that no other test has."""
        return f"{self.name}-{stem}-{next(_numbers)}"

    def queue(self, stem: str = "orders", **settings: Any) -> str:
        """A new queue on the primary."""
        name = self.path(stem)
        self.primary.create_queue(name, **settings)
        return name

    def topic(self, *subscriptions: str, **settings: Any) -> str:
        """A new topic on the primary."""
        name = self.path("topic")
        self.primary.create_topic(name, *subscriptions, **settings)
        return name

    # --- pairing --------------------------------------------------------------

    def client(
        self, connection_string: str | None = None, **settings: Any
    ) -> ServiceBusClient:
        """A client of the primary, through its proxy, with the SDK's own defaults."""
        text = connection_string or self.primary.connection_string(self.way.port)
        return self._kept(ServiceBusClient.from_connection_string(text, **settings))

    def secondary_client(
        self, rule: str = ROOT_RULE, key: str = ROOT_KEY
    ) -> ServiceBusClient:
        text = self.secondary.connection_string(
            self.secondary_way.port, rule=rule, key=key
        )
        return self._kept(ServiceBusClient.from_connection_string(text))

    def secondary_management(
        self, rule: str = ROOT_RULE, key: str = ROOT_KEY
    ) -> ServiceBusAdministrationClient:
        text = self.secondary.connection_string(
            self.secondary_way.port, rule=rule, key=key
        )
        return self._kept(
            ServiceBusAdministrationClient.from_connection_string(
                text, connection_verify=str(self.secondary.ca_file)
            )
        )

    def _kept(self, client: Any) -> Any:
        self._clients.append(client)
        return client

    def options(self, **changes: Any) -> SendAvailabilityPairedNamespaceOptions:
        """For a pair in a hurry that tells everything."""
        settings = {
            **SHORT,
            "primary_name": self.name,
            "on_event": self.events.append,
            **changes,
        }
        count = settings["backlog_queue_count"]
        self._backlog_queue_count = max(self._backlog_queue_count, count)
        management = settings.pop("management", None) or self.secondary_management()
        messaging = settings.pop("messaging", None) or self.secondary_client()
        return SendAvailabilityPairedNamespaceOptions(management, messaging, **settings)

    async def pair(self, **changes: Any) -> Any:
        """A paired client; options as given, the rest in a hurry."""
        client = await pair_namespace(self.client(), self.options(**changes))
        self._pairs.append(client)
        return client

    async def closed(self, pair: Any) -> None:
        """Close a pair before the test's end."""
        self._pairs.remove(pair)
        await pair.close()

    # --- looking --------------------------------------------------------------

    @property
    def at_primary(self) -> Audit:
        return self._audit(self.primary)

    @property
    def at_secondary(self) -> Audit:
        return self._audit(self.secondary)

    def _audit(self, site: Site) -> Audit:
        if site not in self._audits:
            self._audits[site] = Audit(site.connection_string())
        return self._audits[site]

    def backlog_path(self, index: int) -> str:
        return f"{self.name}/x-servicebus-transfer/{index}"

    async def backlog(self) -> list[Any]:
        """All messages in the backlog queues of this test's primary."""
        count = self._backlog_queue_count
        paths = [self.backlog_path(index) for index in range(count)]
        found = await asyncio.gather(*map(self.at_secondary.peeked, paths))
        return [message for messages in found for message in messages]

    async def backlog_has(self, count: int) -> list[Any]:
        """Wait until the backlog queues hold exactly as many."""

        async def reached() -> list[Any] | bool:
            found = await self.backlog()
            return found if len(found) == count else False

        if count == 0:
            await eventually(self.backlog_is_empty, "an empty backlog")
            return []
        found: list[Any] = await eventually(reached, f"{count} messages in the backlog")
        return found

    async def backlog_is_empty(self) -> bool:
        return await self.backlog() == []

    def told(self, kind: EventKind, path: str = "") -> list[PairEvent]:
        """Events of a kind, about one entity if it is named."""
        return [
            event
            for event in list(self.events)
            if event.kind is kind and path in ("", event.path)
        ]

    async def hears(self, kind: EventKind, path: str = "", count: int = 1) -> None:
        await eventually(
            lambda: len(self.told(kind, path)) >= count,
            f"{count} x {kind} of {path or 'any entity'}; heard: {self.events}",
        )


async def let_transports_end() -> None:
    """Closed transports say goodbye in the loop's next turns.

    The SDK forgets the socket of a connection that was reset; it is found here, where
    it disturbs nobody.
    """
    for _ in range(5):
        await asyncio.sleep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def message(text: str, **properties: Any) -> ServiceBusMessage:
    """A message whose id is its text."""
    return ServiceBusMessage(text, **{"message_id": text, **properties})


def numbered(stem: str, count: int, **properties: Any) -> list[ServiceBusMessage]:
    return [message(f"{stem}-{number}", **properties) for number in range(count)]


def timed() -> Callable[[], float]:
    """A stop-watch: each call tells the seconds since it was made."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    return lambda: loop.time() - start
