"""Pairs with the smallest documented rights: P1, P2, P12.

Manage for the management client of the secondary, Send and Listen for its messaging
client, Send for the primary's, even by a signature for one queue.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthorizationError

from twinbus.auth import sas
from twinbus.client.connection_string import parse_connection_string
from twinbus.clock import SystemClock
from twinbus.pairing import pair_namespace
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.syphon import Syphon
from twinbus.pairing.syphon_engines import engine_of_strings
from twinbus.testing import Bus

from .faces import Clients, backlog_at, bodies_at, in_thread, two_buses, until
from .syphon_world import BACKLOG, QUICK, diverted, put, running

HOUR_MS = 3_600_000

# One queue is enough; and no attempt is given up that only took long, because between
# strict namespaces it would leave a second copy.
HOSTING: dict[str, Any] = {
    "enable_syphon": True,
    "failover_interval": 0,
    "backlog_queue_count": 1,
    "attempt_timeout": 15,
}


@pytest.fixture(params=[False, True], ids=["own engine", "the SDK's engine"])
def buses(request: pytest.FixtureRequest) -> Iterator[tuple[Bus, Bus]]:
    """A primary with the queue `orders`, and a secondary; strict ones need the SDK."""
    settings = {"strict": True} if request.param else {}
    with (
        Bus(store="memory", settings=settings) as primary,
        Bus(store="memory", tls=True, settings=settings) as secondary,
    ):
        primary.create_queue("orders")
        yield primary, secondary


@pytest.fixture
def two() -> Iterator[tuple[Bus, Bus]]:
    with two_buses() as buses:
        yield buses


def signature_for(bus: Bus, path: str, *claims: str) -> str:
    """A connection string that is good for one path, and until its end."""
    rule = parse_connection_string(bus.connection_string_for(*claims))
    token = sas.make(
        resource=f"sb://{rule.address}/{path}",
        key_name=rule.key_name,
        key=rule.key,
        expires_at=SystemClock().now() + HOUR_MS,
    )
    return replace(rule, key_name="", key="", signature=token).reveal()


class Smallest(Clients):
    """Clients that may do what the documents ask for, and no more."""

    def __init__(
        self,
        primary: Bus,
        secondary: Bus,
        *,
        asynchronous: bool,
        primary_string: str | None = None,
    ) -> None:
        super().__init__(primary, secondary, asynchronous=asynchronous)
        self.primary = self.messaging(
            primary_string or primary.connection_string_for("Send")
        )
        self.secondary = self.messaging(
            secondary.connection_string_for("Send", "Listen")
        )
        self.administration = self.administering(
            secondary.connection_string_for("Manage")
        )


async def _there_and_back(clients: Clients) -> None:
    """A message makes the detour, and comes back by the pair's own syphon."""
    bus = clients.primary_bus
    options = clients.options(**HOSTING)
    async with await pair_namespace(clients.primary, options) as client:
        async with client.get_queue_sender("orders") as sender:
            await in_thread(bus.stop)
            await sender.send_messages(ServiceBusMessage("one"))
            await in_thread(bus.start)
        await _restored(clients)
        syphon = client.status().syphon
        assert syphon is not None and syphon.is_running
        assert (syphon.restored, syphon.trouble) == (1, ())
    await clients.administration.close()


async def _restored(clients: Clients) -> None:
    async def is_back() -> bool:
        found = await in_thread(bodies_at, clients.primary_bus, "orders")
        # A strict namespace takes a ping for a message.
        return [text for text in found if text] == ["one"]

    async with asyncio.timeout(20):
        while not await is_back():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await in_thread(backlog_at, clients.secondary_bus, 1) == []


async def test_the_rights_that_are_asked_for_are_enough(
    buses: tuple[Bus, Bus],
) -> None:
    """P2, P12: Send; Send and Listen; Manage."""
    await _there_and_back(Smallest(*buses, asynchronous=True))


async def test_a_signature_for_one_queue_restores_that_queue(
    buses: tuple[Bus, Bus],
) -> None:
    """P12: the primary's client need not be good for the whole namespace."""
    text = signature_for(buses[0], "orders", "Send")
    await _there_and_back(Smallest(*buses, asynchronous=True, primary_string=text))


def _sync_there_and_back(clients: Clients) -> None:
    bus = clients.primary_bus
    with pair_namespace(clients.primary, clients.options(**HOSTING)) as client:
        with client.get_queue_sender("orders") as sender:
            bus.stop()
            sender.send_messages(ServiceBusMessage("one"))
            bus.start()
        receiving = clients.messaging(bus.connection_string_for("Listen"))
        with receiving, receiving.get_queue_receiver("orders") as receiver:
            (back,) = receiver.receive_messages(1, max_wait_time=20)
        assert str(back) == "one"
        syphon = client.status().syphon
        assert syphon is not None and syphon.is_running
    clients.administration.close()


async def test_they_are_enough_for_the_synchronous_face(two: tuple[Bus, Bus]) -> None:
    """P2, P12: the same clients, and no event loop of the application's."""
    await in_thread(_sync_there_and_back, Smallest(*two, asynchronous=False))


async def test_a_syphon_that_may_not_listen_is_refused_by_the_call(
    two: tuple[Bus, Bus],
) -> None:
    """P1, P12: what it lacks is told at once, and not by a backlog that stays."""
    clients = Smallest(*two, asynchronous=True)
    sends_only = clients.messaging(two[1].connection_string_for("Send"))
    async with clients.primary, sends_only, clients.administration:
        options = clients.options(secondary=sends_only, **HOSTING)
        with pytest.raises(ServiceBusAuthorizationError) as raised:
            await pair_namespace(clients.primary, options)
    text = str(raised.value)
    assert "secondary" in text and "Listen" in text
    assert "site-a/x-servicebus-transfer/0" in text


async def test_a_syphon_that_may_not_send_to_what_it_covers_is_refused(
    two: tuple[Bus, Bus],
) -> None:
    """P1, P12: as far as the entities are named."""
    text = two[0].connection_string_for("Listen")
    clients = Smallest(*two, asynchronous=True, primary_string=text)
    async with clients.primary, clients.secondary, clients.administration:
        options = clients.options(covered_entities=["orders"], **HOSTING)
        with pytest.raises(ServiceBusAuthorizationError, match=r"primary.*Send"):
            await pair_namespace(clients.primary, options)


async def test_a_syphon_that_cannot_run_is_seen(two: tuple[Bus, Bus]) -> None:
    """P12: in the status and by events, with the reason; and when it runs again."""
    told: list[PairEvent] = []
    clients = Smallest(*two, asynchronous=True)
    await in_thread(two[0].stop)
    options = clients.options(on_event=told.append, **HOSTING)
    async with await pair_namespace(clients.primary, options) as client:
        await until(lambda: bool(_of(told, EventKind.SYPHON_WAITS)))
        (waits,) = _of(told, EventKind.SYPHON_WAITS)
        assert "primary" in waits.text
        syphon = client.status().syphon
        assert syphon is not None and not syphon.is_running
        assert syphon.trouble == (waits.text,)
        await in_thread(two[0].start)
        await until(lambda: bool(_of(told, EventKind.SYPHON_RUNS)))
        syphon = client.status().syphon
        assert syphon is not None and syphon.is_running and syphon.trouble == ()
    await clients.administration.close()


async def test_an_entity_that_the_syphon_may_not_send_to_is_seen(
    two: tuple[Bus, Bus],
) -> None:
    """P12: its messages stay, and the status says which right is missing."""
    two[0].create_queue("sales")
    text = signature_for(two[0], "orders", "Send")
    clients = Smallest(*two, asynchronous=True, primary_string=text)
    two[1].create_queue("site-a/x-servicebus-transfer/0")
    payloads = [diverted("sales", "stays"), diverted("orders", "one")]
    await put(two[1], "site-a/x-servicebus-transfer/0", payloads)
    async with await pair_namespace(
        clients.primary, clients.options(**HOSTING)
    ) as client:
        await until(lambda: bool(client.status().syphon.trouble))
        await until(lambda: client.status().syphon.restored == 1)
        (trouble,) = client.status().syphon.trouble
        assert "'sales' on the primary" in trouble
    await clients.administration.close()
    assert [message.application_properties for message in _left(two[1])] != []


async def test_a_process_without_a_syphon_says_so(two: tuple[Bus, Bus]) -> None:
    """P12: nobody takes a sender for a syphon."""
    clients = Smallest(*two, asynchronous=True)
    async with await pair_namespace(clients.primary, clients.options()) as client:
        assert client.status().syphon is None
    await clients.administration.close()


def _of(told: list[PairEvent], kind: EventKind) -> list[PairEvent]:
    return [event for event in list(told) if event.kind is kind]


def _left(bus: Bus) -> list[Any]:
    return backlog_at(bus, 1)


async def test_a_syphon_of_connection_strings_takes_a_signature_for_one_queue(
    two: tuple[Bus, Bus],
) -> None:
    """P12: as `twinbus syphon` and `[pair]` have them; Manage lists the queues."""
    two[1].create_queue(BACKLOG)
    await put(two[1], BACKLOG, [diverted("orders", "one")])
    strings = (
        signature_for(two[0], "orders", "Send"),
        two[1].connection_string_for("Manage"),
    )
    engine = await engine_of_strings(*strings, SystemClock())
    async with running(Syphon(engine, "site-a", QUICK)) as syphon:
        await until(lambda: syphon.status().restored == 1)
        assert syphon.status().engine == "twinbus"


async def test_a_syphon_of_connection_strings_says_which_right_it_lacks(
    two: tuple[Bus, Bus],
) -> None:
    """P12: without Manage the backlog queues cannot be found."""
    strings = (
        two[0].connection_string_for("Send"),
        two[1].connection_string_for("Send", "Listen"),
    )
    engine = await engine_of_strings(*strings, SystemClock())
    syphon: Syphon[Any] = Syphon(engine, "site-a", QUICK)
    with pytest.raises(SecondaryError, match="'Manage' claim") as raised:
        await syphon.start()
    assert raised.value.is_refused
    await syphon.close()
