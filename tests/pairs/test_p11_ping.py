"""Pings of the primary, and the return to it: P11."""

import asyncio
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from twinbus.pairing.events import EventKind

from .harness_audit import ids_of
from .harness_wire import messages_said
from .harness_world import World, message, timed

PING = "application/vnd.ms-servicebus-ping"
DEAD_LETTERS = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}


async def test_a_ping_brings_all_senders_back_within_seconds(world: World) -> None:
    """P11: as soon as one succeeds, all senders of the client use the primary."""
    queue = world.queue()
    client = await world.pair(ping_primary_interval=1)
    first, second = client.get_queue_sender(queue), client.get_queue_sender(queue)
    world.way.refuse()
    await first.send_messages(message("first-during"))
    await second.send_messages(message("second-during"))
    world.way.heal()
    lap = timed()
    before = len(world.told(EventKind.STATE_CHANGED, queue))
    await world.hears(EventKind.STATE_CHANGED, queue, before + 1)
    assert lap() < 5.0
    await first.send_messages(message("first-after"))
    await second.send_messages(message("second-after"))
    found = await world.at_primary.has(queue, 2)
    assert ids_of(found) == ["first-after", "second-after"]
    assert ids_of(await world.backlog()) == ["first-during", "second-during"]


async def test_pings_are_as_the_original_sends_them(world: World) -> None:
    """P11: empty, with its content type, and a time to live of one second."""
    queue = world.queue()
    client = await world.pair()
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("during"))
    world.way.requests.clear()
    before = len(world.told(EventKind.STATE_CHANGED, queue))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, queue, before + 1)
    said = messages_said(world.way)
    assert [one.path for one in said] == [queue]
    assert said[0].content_type == PING
    assert said[0].ttl_ms == 1_000
    assert not said[0].body


async def test_pings_stop_at_the_first_success(world: World) -> None:
    """P11: it stops as soon as one succeeds."""
    queue = world.queue()
    client = await world.pair(ping_primary_interval=1)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(message("during"))
    before = len(world.told(EventKind.STATE_CHANGED, queue))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, queue, before + 1)
    pings = len(world.told(EventKind.PINGED, queue))
    # What must not come is waited for through two intervals.
    await asyncio.sleep(2.2)
    assert len(world.told(EventKind.PINGED, queue)) == pings
    said = [one for one in messages_said(world.way) if one.content_type == PING]
    assert len(said) == 1


async def test_there_is_one_ping_per_interval_and_entity(world: World) -> None:
    """P11: once per interval per unavailable entity, however many senders it has."""
    queue, healthy = world.queue(), world.queue("healthy")
    client = await world.pair(ping_primary_interval=1)
    world.primary.administration.delete_queue(queue)
    senders = [client.get_queue_sender(queue) for _ in range(3)]
    await client.get_queue_sender(healthy).send_messages(message("healthy"))
    await asyncio.gather(*(one.send_messages(message("m")) for one in senders))
    lap = timed()
    start = len(world.told(EventKind.PINGED, queue))
    await world.hears(EventKind.PINGED, queue, start + 3)
    # A ping that is refused takes the SDK a while; never less than an interval.
    assert lap() > 1.8
    assert world.told(EventKind.PINGED, healthy) == []


async def test_no_ping_goes_to_a_healthy_entity(world: World) -> None:
    """P11: pings start with a failover."""
    queue = world.queue()
    client = await world.pair(ping_primary_interval=1)
    await client.get_queue_sender(queue).send_messages(message("one"))
    await asyncio.sleep(1.5)
    assert world.told(EventKind.PINGED) == []
    assert [one.content_type for one in messages_said(world.way)] == [None]


def _ping() -> ServiceBusMessage:
    return ServiceBusMessage(
        b"", content_type=PING, time_to_live=timedelta(seconds=1), message_id="ping"
    )


async def test_a_ping_leaves_no_trace_in_a_queue(world: World) -> None:
    """P11: never delivered, peeked, dead-lettered, forwarded or counted in size."""
    target = world.queue("target")
    queue = world.queue(dead_lettering_on_message_expiration=True)
    forwarding = world.queue("forwarding", forward_to=target)
    admin = world.primary.administration
    text = world.primary.connection_string()
    async with ServiceBusClient.from_connection_string(text, retry_total=0) as client:
        for name in (queue, forwarding):
            async with client.get_queue_sender(name) as sender:
                await sender.send_messages(_ping())
                await sender.send_messages(_ping())
                await sender.send_messages(message(f"after {name}"))
        async with client.get_queue_receiver(queue) as receiver:
            (only,) = await receiver.receive_messages(5, max_wait_time=5)
            await receiver.complete_message(only)
    assert only.message_id == f"after {queue}"
    assert ids_of(await world.at_primary.has(target, 1)) == [f"after {forwarding}"]
    # Beyond the ping's time to live.
    await asyncio.sleep(1.2)
    assert await world.at_primary.peeked(queue) == []
    assert await world.at_primary.peeked(queue, **DEAD_LETTERS) == []
    properties = admin.get_queue_runtime_properties(queue)
    assert (properties.total_message_count, properties.size_in_bytes) == (0, 0)


async def test_a_ping_is_accepted_by_every_kind_of_entity(world: World) -> None:
    """P11: session-aware, duplicate-detecting, and topics, which fan nothing out."""
    sessions = world.queue("sessions", requires_session=True)
    single = world.queue("single", requires_duplicate_detection=True)
    topic = world.topic("all")
    text = world.primary.connection_string()
    async with ServiceBusClient.from_connection_string(text, retry_total=0) as client:
        for sender in (
            client.get_queue_sender(sessions),
            client.get_queue_sender(single),
            client.get_topic_sender(topic),
        ):
            async with sender:
                await sender.send_messages(_ping())
                await sender.send_messages(_ping())
    for entity in (sessions, single):
        assert world.primary.message_count(entity) == 0
    subscription = f"{topic}/Subscriptions/all"
    assert await world.at_primary.peeked(subscription) == []
    assert await world.at_primary.peeked(subscription, **DEAD_LETTERS) == []


@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
async def test_a_ping_is_refused_where_a_message_would_be(
    world: World, status: str
) -> None:
    """P11: accepted if and only if it could take a message now."""
    queue = world.queue()
    world.primary.set_status(queue, status)
    text = world.primary.connection_string()
    async with ServiceBusClient.from_connection_string(text, retry_total=0) as client:
        sender = client.get_queue_sender(queue)
        with pytest.raises(ServiceBusError):
            await sender.send_messages(_ping())
        await sender.close()


async def test_a_session_queue_and_a_topic_come_back(world: World) -> None:
    """P11: pings of session-aware entities and topics are accepted as well."""
    queue, topic = world.queue("sessions", requires_session=True), world.topic("all")
    client = await world.pair()
    world.way.refuse()
    to_queue, to_topic = client.get_queue_sender(queue), client.get_topic_sender(topic)
    await to_queue.send_messages(message("q-during", session_id="s"))
    await to_topic.send_messages(message("t-during"))
    counts = {
        path: len(world.told(EventKind.STATE_CHANGED, path)) for path in (queue, topic)
    }
    world.way.heal()
    for path, count in counts.items():
        await world.hears(EventKind.STATE_CHANGED, path, count + 1)
    await to_queue.send_messages(message("q-after", session_id="s"))
    await to_topic.send_messages(message("t-after"))
    assert ids_of(await world.at_primary.received(queue, 1, session_id="s")) == [
        "q-after"
    ]
    found = await world.at_primary.has(f"{topic}/Subscriptions/all", 1)
    assert ids_of(found) == ["t-after"]
