"""How a pair is made: P1 to P4, and what is refused before anything is sent."""

from datetime import timedelta
from typing import Any

import azure.servicebus as sync_sdk
import pytest
from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import ServiceBusError

from twinbus.pairing import (
    PairedNamespaceOptions,
    SendAvailabilityPairedNamespaceOptions,
    pair_namespace,
)
from twinbus.pairing.errors import PairingError

from .harness_audit import ids_of
from .harness_site import LISTEN_ONLY_KEY, SEND_ONLY_KEY
from .harness_world import World, message

INT_MAX = 2**31 - 1
# What an application may see when a side refuses its key; never a bare Exception.
REFUSALS = (AzureError, PairingError)


def _backlog_names(world: World) -> list[str]:
    names = world.secondary.queue_names()
    return sorted(name for name in names if name.startswith(f"{world.name}/"))


async def test_a_pair_is_ready_when_the_call_returns(world: World) -> None:
    """P1: one asynchronous call; its backlog queues are there when it returns."""
    queue = world.queue()
    client = await world.pair()
    assert _backlog_names(world) == [world.backlog_path(0), world.backlog_path(1)]
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("first"))
    assert ids_of(await world.backlog_has(1)) == ["first"]


async def test_a_pair_can_be_made_while_the_primary_is_away(world: World) -> None:
    """P1, A5: an application that starts during the outage can send."""
    queue = world.queue()
    world.way.refuse()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("first"))
    assert ids_of(await world.backlog_has(1)) == ["first"]


async def test_nothing_is_sent_by_pairing_itself(world: World) -> None:
    """P1: nothing is sent before the application sends."""
    queue = world.queue()
    await world.pair()
    assert await world.backlog() == []
    assert await world.at_primary.peeked(queue) == []


@pytest.mark.parametrize("wrong", ["management", "messaging", "both"])
async def test_a_wrong_key_of_the_secondary_comes_out_of_the_call(
    world: World, wrong: str
) -> None:
    """P1: bad credentials are an error of `pair_namespace`."""
    sides: dict[str, Any] = {}
    if wrong in ("management", "both"):
        sides["management"] = world.secondary_management(key="d3Jvbmc=")
    if wrong in ("messaging", "both"):
        sides["messaging"] = world.secondary_client(key="d3Jvbmc=")
    with pytest.raises(REFUSALS):
        await world.pair(**sides)


async def test_a_wrong_key_of_the_primary_comes_out_of_the_call(world: World) -> None:
    """P1: and is never taken for an outage (P7)."""
    text = world.primary.connection_string(world.way.port, key="d3Jvbmc=")
    with pytest.raises(REFUSALS):
        await pair_namespace(world.client(text), world.options())
    assert world.events == []


async def test_a_key_without_manage_cannot_make_backlog_queues(world: World) -> None:
    """P1, P2: the management client needs Manage, and the error comes out at once."""
    management = world.secondary_management(rule="sender", key=SEND_ONLY_KEY)
    with pytest.raises(REFUSALS):
        await world.pair(management=management)
    assert _backlog_names(world) == []


async def test_a_secondary_that_is_away_fails_the_call(world: World) -> None:
    """P1: a backlog queue that cannot be made is an error of `pair_namespace`."""
    world.secondary_way.refuse()
    with pytest.raises((*REFUSALS, OSError)):
        await world.pair()
    world.secondary_way.heal()
    assert _backlog_names(world) == []


async def test_a_key_that_may_not_listen_can_still_pair_a_sender(world: World) -> None:
    """P1, P12: a sender without the syphon needs only Send on the secondary."""
    queue = world.queue()
    messaging = world.secondary_client(rule="sender", key=SEND_ONLY_KEY)
    client = await world.pair(messaging=messaging, enable_syphon=False)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("one"))
    assert ids_of(await world.backlog_has(1)) == ["one"]


async def test_a_key_that_may_not_send_is_refused(world: World) -> None:
    """P1: the secondary's messaging client must be able to take over."""
    messaging = world.secondary_client(rule="listener", key=LISTEN_ONLY_KEY)
    with pytest.raises(REFUSALS):
        await world.pair(messaging=messaging)


async def test_defaults_are_those_of_the_original(world: World) -> None:
    """P2: ten queues, a minute, no syphon, a minute; shorter forms take them."""
    options = SendAvailabilityPairedNamespaceOptions(
        world.secondary_management(), world.secondary_client()
    )
    assert isinstance(options, PairedNamespaceOptions)
    assert options.backlog_queue_count == 10
    assert options.enable_syphon is False
    assert options.settings.failover_interval_ms == 60_000
    assert options.settings.ping_primary_interval_ms == 60_000


async def test_options_are_taken_by_position_as_in_the_original(world: World) -> None:
    """P2: count, interval and syphon follow the two clients, in this order."""
    management, client = world.secondary_management(), world.secondary_client()
    options = SendAvailabilityPairedNamespaceOptions(
        management, client, 3, timedelta(seconds=5), True
    )
    assert options.secondary_management_client is management
    assert options.secondary_client is client
    assert options.backlog_queue_count == 3
    assert options.settings.failover_interval_ms == 5_000
    assert options.enable_syphon is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"backlog_queue_count": 0},
        {"backlog_queue_count": -1},
        {"failover_interval": -1},
        {"failover_interval": timedelta(seconds=-1)},
        {"failover_interval": float("nan")},
        {"ping_primary_interval": -1},
        {"ping_primary_interval": 0.5},
        {"primary_name": "a/b"},
        {"covered_entities": []},
    ],
    ids=str,
)
async def test_a_wrong_option_is_named(world: World, wrong: dict[str, Any]) -> None:
    """P2: each error names the option, before anything is sent."""
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        world.options(**wrong)


async def test_both_clients_of_the_secondary_are_needed(world: World) -> None:
    """P2: a pairing has a management client and a messaging client."""
    with pytest.raises(ValueError, match="both"):
        SendAvailabilityPairedNamespaceOptions(None, world.secondary_client())
    with pytest.raises(ValueError, match="both"):
        SendAvailabilityPairedNamespaceOptions(world.secondary_management(), None)


async def test_a_zero_failover_interval_is_allowed(world: World) -> None:
    """P6: zero means at the first failure."""
    assert world.options(failover_interval=0).settings.failover_interval_ms == 0


async def test_options_show_how_many_backlog_queues_there_are(world: World) -> None:
    """P3: found or made."""
    world.secondary.create_queue(world.backlog_path(0))
    options = world.options(backlog_queue_count=3)
    client = await pair_namespace(world.client(), options)
    try:
        assert options.backlog_queue_count == 3
        assert sorted(options.backlog_queues) == [
            world.backlog_path(index) for index in range(3)
        ]
        assert client.options is options
    finally:
        await client.close()


async def test_backlog_queues_have_the_settings_of_the_original(world: World) -> None:
    """P4: path, 5120 MB, and nothing that would lose a message."""
    await world.pair(backlog_queue_count=1)
    assert _backlog_names(world) == [f"{world.name}/x-servicebus-transfer/0"]
    made = world.secondary.administration.get_queue(world.backlog_path(0))
    assert made.max_size_in_megabytes == 5120
    assert made.max_delivery_count == INT_MAX
    assert made.lock_duration == timedelta(minutes=1)
    assert made.dead_lettering_on_message_expiration is True
    assert made.enable_batched_operations is True
    assert made.requires_session is False
    assert made.default_message_time_to_live > timedelta(days=100 * 365)
    assert made.auto_delete_on_idle > timedelta(days=100 * 365)


async def test_an_existing_backlog_queue_is_used_as_it_is(world: World) -> None:
    """P4: even with other settings, and nothing of them is changed."""
    world.secondary.create_queue(
        world.backlog_path(0),
        max_delivery_count=7,
        lock_duration=timedelta(seconds=30),
        max_size_in_megabytes=1024,
        default_message_time_to_live=timedelta(days=3),
    )
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("one"))
    found = world.secondary.administration.get_queue(world.backlog_path(0))
    assert (found.max_delivery_count, found.max_size_in_megabytes) == (7, 1024)
    assert found.lock_duration == timedelta(seconds=30)
    assert found.default_message_time_to_live == timedelta(days=3)
    assert ids_of(await world.at_secondary.peeked(world.backlog_path(0))) == ["one"]


async def test_surplus_backlog_queues_are_left_alone_and_unused(world: World) -> None:
    """P4: those beyond the count stay, empty, and nothing is cleaned up."""
    await world.closed(await world.pair(backlog_queue_count=3))
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        for number in range(8):
            await sender.send_messages(message(f"m-{number}"))
    assert len(await world.at_secondary.peeked(world.backlog_path(0))) == 8
    assert await world.at_secondary.peeked(world.backlog_path(2)) == []
    await world.closed(client)
    assert len(_backlog_names(world)) == 3


async def test_a_local_host_needs_a_name_for_the_primary(world: World) -> None:
    """P4: so that two primaries never share backlog queues by accident."""
    before = set(world.secondary.queue_names())
    with pytest.raises(ValueError, match="primary_name"):
        await world.pair(primary_name=None)
    assert set(world.secondary.queue_names()) == before


async def test_a_namespace_is_not_paired_with_itself(world: World) -> None:
    """P1: the same namespace twice is no detour."""
    text = world.secondary.connection_string(world.secondary_way.port)
    with pytest.raises(ValueError):
        await pair_namespace(world.client(text), world.options())


async def test_a_client_is_paired_once(world: World) -> None:
    """P1: pairing twice is an error, and the first pair goes on."""
    queue = world.queue()
    primary = world.client()
    first = await pair_namespace(primary, world.options())
    try:
        with pytest.raises(ValueError):
            await pair_namespace(primary, world.options())
        async with first.get_queue_sender(queue) as sender:
            await sender.send_messages(message("one"))
    finally:
        await first.close()
    assert ids_of(await world.at_primary.has(queue, 1)) == ["one"]


async def test_synchronous_and_asynchronous_clients_do_not_mix(world: World) -> None:
    """P1: a mixture is an error."""
    text = world.secondary.connection_string(world.secondary_way.port)
    with sync_sdk.ServiceBusClient.from_connection_string(text) as blocking:
        with pytest.raises((TypeError, ValueError)):
            await pair_namespace(world.client(), world.options(messaging=blocking))


async def test_receivers_come_from_the_primary(world: World) -> None:
    """P15: what is not sending is the primary client's own."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("one"))
    async with client.get_queue_receiver(queue) as receiver:
        (received,) = await receiver.receive_messages(1, max_wait_time=10)
        await receiver.complete_message(received)
    assert ids_of([received]) == ["one"]
    assert await world.at_primary.peeked(queue) == []


async def test_senders_of_a_closed_pair_refuse(world: World) -> None:
    """P14: what is sent after the close is an error, and goes nowhere."""
    queue = world.queue()
    client = await world.pair()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("one"))
    await world.closed(client)
    with pytest.raises((ValueError, ServiceBusError, PairingError)):
        await sender.send_messages(message("two"))
    assert ids_of(await world.at_primary.has(queue, 1)) == ["one"]
