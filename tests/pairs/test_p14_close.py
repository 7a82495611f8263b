"""Close and fault (P14), and what the application must accept (P15)."""

import asyncio

import pytest
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from twinbus.pairing import pair_namespace
from twinbus.pairing.errors import PairFaulted, PairingError
from twinbus.pairing.events import EventKind

from .harness_audit import eventually, ids_of, text_of
from .harness_world import World, message, numbered, timed


async def is_shut(sender: ServiceBusSender) -> bool:
    """A sender of a client that was closed refuses by itself."""
    try:
        await sender.create_message_batch()
    except ValueError:
        return True
    return False


async def test_closing_the_secondary_alone_faults_the_primary(world: World) -> None:
    """P14: after 5 seconds, and what is pending fails with an error that says so."""
    queue = world.queue()
    primary, options = (
        world.client(),
        world.options(enable_syphon=True, failover_interval=60),
    )
    client = await pair_namespace(primary, options)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    plain = await primary.get_queue_sender(queue).__aenter__()
    world.way.refuse()
    # Waits for the primary: the interval is far longer than this test.
    pending = asyncio.create_task(sender.send_messages(message("pending")))
    await world.hears(EventKind.STATE_CHANGED, queue)
    lap = timed()
    await options.secondary_client.close()
    with pytest.raises(PairFaulted) as failure:
        await asyncio.wait_for(pending, 20)
    assert 4.5 < lap() < 12
    assert "second" in str(failure.value).lower()
    assert world.told(EventKind.FAULTED)
    world.way.heal()
    with pytest.raises((PairingError, ServiceBusError, ValueError)):
        await sender.send_messages(message("after"))
    await eventually(lambda: is_shut(plain), "the end of what the client had made")
    await client.close()
    assert ids_of(await world.at_primary.peeked(queue)) == ["before"]


async def test_closing_the_primary_alone_faults_the_secondary(world: World) -> None:
    """P14: the other way round; the secondary's client is closed, too."""
    queue = world.queue()
    primary, options = world.client(), world.options(enable_syphon=True)
    client = await pair_namespace(primary, options)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    path = world.backlog_path(0)
    plain = await options.secondary_client.get_queue_sender(path).__aenter__()
    lap = timed()
    await primary.close()
    await world.hears(EventKind.FAULTED)
    assert 4.5 < lap() < 12
    with pytest.raises((PairingError, ServiceBusError, ValueError)):
        await sender.send_messages(message("after"))
    await eventually(lambda: is_shut(plain), "the end of what the client had made")
    await client.close()
    assert await world.backlog() == []


async def test_a_process_without_a_syphon_is_left_alone(world: World) -> None:
    """P14: it is the syphon that faults; sends go on as long as the pair is open."""
    queue = world.queue()
    options = world.options(fault_grace=0.2)
    client = await pair_namespace(world.client(), options)
    sender = client.get_queue_sender(queue)
    await options.secondary_client.close()
    # What must not come is waited for far beyond the grace.
    await asyncio.sleep(1.5)
    await sender.send_messages(message("after"))
    assert world.told(EventKind.FAULTED) == []
    await client.close()
    assert ids_of(await world.at_primary.peeked(queue)) == ["after"]


async def test_closing_both_within_five_seconds_is_no_fault(world: World) -> None:
    """P14: only a side that does not follow is faulted."""
    primary, options = world.client(), world.options(enable_syphon=True)
    client = await pair_namespace(primary, options)
    await options.secondary_client.close()
    await asyncio.sleep(1)
    await primary.close()
    # What must not come is waited for beyond the five seconds.
    await asyncio.sleep(5.5)
    assert world.told(EventKind.FAULTED) == []
    await client.close()


async def falls_silent(world: World, seconds: float) -> bool:
    """Soon nothing is said to either side for so long."""
    said = (-1, -1)
    for _ in range(3):
        before, said = said, (world.way.client_bytes, world.secondary_way.client_bytes)
        if said == before:
            return True
        await asyncio.sleep(seconds)
    return False


async def test_closing_the_pair_ends_everything_of_it(world: World) -> None:
    """P14: pings, syphon and links end; nothing is said to either side any more."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(message("during"))
    await world.closed(client)
    world.way.heal()
    # The last frames may still be on their way; a ping would come every second.
    assert await falls_silent(world, 2.5)
    assert ids_of(await world.backlog()) == ["during"]


async def test_an_outage_is_no_fault(world: World) -> None:
    """P14: a primary that is away for longer than 5 seconds is why there is a pair."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("first"))
    await asyncio.sleep(6.5)
    await sender.send_messages(message("second"))
    assert world.told(EventKind.FAULTED) == []
    world.way.heal()
    assert ids_of(await world.at_primary.has(queue, 2)) == ["first", "second"]


async def test_new_messages_may_come_before_the_backlog_is_drained(
    world: World,
) -> None:
    """P15: the primary takes new messages while older ones wait."""
    queue = world.queue()
    client = await world.pair(enable_syphon=False)
    sender = client.get_queue_sender(queue)
    world.way.refuse()
    await sender.send_messages(numbered("old", 2))
    changes = len(world.told(EventKind.STATE_CHANGED, queue))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, queue, changes + 1)
    await sender.send_messages(message("new"))
    assert ids_of(await world.at_primary.has(queue, 1)) == ["new"]
    assert ids_of(await world.backlog()) == ["old-0", "old-1"]
    await world.pair(enable_syphon=True)
    back = await world.at_primary.received(queue, 3)
    assert text_of(back[0]) == "new"
    assert ids_of(back) == ["new", "old-0", "old-1"]


async def test_session_state_stays_on_the_primary(world: World) -> None:
    """P15: a detour changes nothing of a session's state."""
    queue = world.queue(requires_session=True)
    client = await world.pair(enable_syphon=True)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before", session_id="s"))
    async with client.get_queue_receiver(queue, session_id="s") as receiver:
        await receiver.session.set_state("half way")
    world.way.refuse()
    await sender.send_messages(message("during", session_id="s"))
    world.way.heal()
    await world.backlog_has(0)
    async with client.get_queue_receiver(queue, session_id="s") as receiver:
        assert await receiver.session.get_state() == b"half way"
    back = await world.at_primary.received(queue, 2, session_id="s")
    assert ids_of(back) == ["before", "during"]
