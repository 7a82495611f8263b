"""A3: sends succeed while a store is away, and appear when it is back."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusServerBusyError

from twinbus.fragments.hashing import fragment_index

from .conftest import FRAGMENTS, KINDS, drained, postgres_urls
from .leaving import LeavingBus


@pytest.fixture(params=KINDS)
def urls(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return () if request.param == "sqlite" else postgres_urls(request, 2)


@pytest.fixture
def bus(request: pytest.FixtureRequest, urls: tuple[str, ...]) -> Iterator[LeavingBus]:
    with LeavingBus(urls, getattr(request, "param", None)) as running:
        running.create_in(running.leaving, "here")
        running.create_in(running.leaving, "victim")
        yield running


@pytest.fixture
def client(bus: LeavingBus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        bus.connection_string, retry_total=0
    ) as connected:
        yield connected


def send(client: ServiceBusClient, queue: str, *bodies: str, **fields: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for body in bodies:
            sender.send_messages(ServiceBusMessage(body, **fields))


def bodies(client: ServiceBusClient, queue: str) -> list[str]:
    return [str(message) for message in drained(client, queue)]


def test_a03_messages_appear_in_order_when_the_store_is_back(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    send(client, "here", "before")
    bus.leave(client, "victim")
    # Whoever found out that it is away may have been kept, too.
    kept = bus.on_their_way()
    send(client, "here", "one", "two", "three")
    assert bus.on_their_way() == kept + 3
    bus.come_back()
    send(client, "here", "after")
    assert bodies(client, "here") == ["before", "one", "two", "three", "after"]


def test_a03_an_open_link_goes_on_over_leaving_and_return(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    with client.get_queue_sender("here") as sender:
        sender.send_messages(ServiceBusMessage("before"))
        bus.leave(client, "victim")
        sender.send_messages(ServiceBusMessage("during"))
        bus.heal()
        sender.send_messages(ServiceBusMessage("just before it is back"))
        bus.come_back()
        sender.send_messages(ServiceBusMessage("after"))
    expected = ["before", "during", "just before it is back", "after"]
    assert bodies(client, "here") == expected


def test_a03_kept_messages_survive_a_restart(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.leave(client, "victim")
    send(client, "here", "one", "two")
    bus.heal()
    bus.restart()
    bus.until(lambda: bus.on_their_way() == 0)
    with ServiceBusClient.from_connection_string(bus.connection_string) as connected:
        assert bodies(connected, "here") == ["one", "two"]


def test_a03_a_kept_message_keeps_its_schedule(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.leave(client, "victim")
    message = ServiceBusMessage("later")
    message.scheduled_enqueue_time_utc = bus.now() + timedelta(minutes=10)
    with client.get_queue_sender("here") as sender:
        sender.send_messages(message)
    bus.come_back()
    assert bodies(client, "here") == []
    bus.advance(timedelta(minutes=10))
    assert bodies(client, "here") == ["later"]


def test_a03_sends_fail_when_the_store_is_away_for_too_long(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.leave(client, "victim")
    send(client, "here", "in time")
    bus.advance(timedelta(minutes=16))
    with pytest.raises(ServiceBusServerBusyError, match="transfer_limit"):
        send(client, "here", "too late")
    bus.come_back()
    assert bodies(client, "here") == ["in time"]


@pytest.mark.parametrize("bus", [{"transfer_conventional": "off"}], indirect=True)
def test_a03_nothing_is_kept_if_that_is_off(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.leave(client, "victim")
    with pytest.raises(ServiceBusServerBusyError, match="away"):
        send(client, "here", "refused")
    bus.come_back()
    assert bodies(client, "here") == []


def key_of(bus: LeavingBus) -> str:
    """A key whose fragment of the queue `all` is in the store that leaves."""
    queue = bus.server.namespace.queue("all")
    for number in range(100):
        index = fragment_index(f"key-{number}", FRAGMENTS)
        if queue.fragment(index=index).home is bus.leaving:
            return f"key-{number}"
    raise AssertionError("no fragment is in that store")


def test_a03_a_message_with_a_key_is_refused_by_default(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.create_queue("all", enable_partitioning=True)
    bus.leave(client, "victim")
    with pytest.raises(ServiceBusError, match="Fragment"):
        send(client, "all", "refused", partition_key=key_of(bus))
    send(client, "all", "any")
    bus.come_back()
    assert bodies(client, "all") == ["any"]


@pytest.mark.parametrize("bus", [{"transfer_keyed": "on"}], indirect=True)
def test_a03_messages_with_a_key_are_kept_if_that_is_on(
    bus: LeavingBus, client: ServiceBusClient
) -> None:
    bus.create_queue("all", enable_partitioning=True)
    key = key_of(bus)
    send(client, "all", "before", partition_key=key)
    bus.leave(client, "victim")
    send(client, "all", "one", "two", partition_key=key)
    bus.come_back()
    send(client, "all", "after", partition_key=key)
    assert bodies(client, "all") == ["before", "one", "two", "after"]
