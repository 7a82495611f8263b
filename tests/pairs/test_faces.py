"""The asynchronous face of a pair: the calls of an application."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import azure.servicebus as sync_package
import pytest
import pytest_asyncio
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusMessage, exceptions
from azure.servicebus.amqp import AmqpAnnotatedMessage

from twinbus.pairing import EventKind, PairFaulted, pair_namespace
from twinbus.pairing.backlog_queues import SETTINGS
from twinbus.pairing.detour import PATH, SESSION_ID

from .faces import (
    PATIENCE_SECONDS,
    Clients,
    backlog_at,
    bodies_at,
    in_thread,
    until,
    wrong_key,
)

FAR = datetime.now(UTC) + timedelta(days=1)


@pytest_asyncio.fixture
async def paired(clients: Clients) -> AsyncIterator[Any]:
    async with await pair_namespace(clients.primary, clients.options()) as client:
        yield client


async def fail_over(clients: Clients, sender: Any) -> None:
    """Stop the primary and send until it has failed over."""
    await in_thread(clients.primary_bus.stop)
    await sender.send_messages(ServiceBusMessage("first of the backlog"))


# --- pairing ------------------------------------------------------------------------


async def test_options_show_the_backlog_queues_that_were_made(
    clients: Clients, paired: Any
) -> None:
    paths = ("site-a/x-servicebus-transfer/0", "site-a/x-servicebus-transfer/1")
    assert paired.options.backlog_queues == paths
    assert paired.options.backlog_queue_count == 2
    for path in paths:
        queue = await clients.administration.get_queue(path)
        assert queue.max_delivery_count == SETTINGS["max_delivery_count"]
        assert queue.max_size_in_megabytes == 5120
        assert queue.dead_lettering_on_message_expiration
        assert queue.lock_duration == timedelta(minutes=1)
        assert queue.default_message_time_to_live >= timedelta(days=10_675_198)
        assert queue.auto_delete_on_idle >= timedelta(days=10_675_198)


async def test_an_existing_backlog_queue_is_used_as_it_is(clients: Clients) -> None:
    path = "site-a/x-servicebus-transfer/0"
    clients.secondary_bus.create_queue(path, max_delivery_count=3)
    async with await pair_namespace(clients.primary, clients.options()):
        assert (await clients.administration.get_queue(path)).max_delivery_count == 3


async def test_pairing_sends_nothing(clients: Clients, paired: Any) -> None:
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == []
    assert await in_thread(backlog_at, clients.secondary_bus) == []


async def test_a_wrong_key_of_the_primary_comes_out_and_nothing_is_made(
    clients: Clients,
) -> None:
    bad = clients.messaging(wrong_key(clients.primary_bus.connection_string))
    with pytest.raises(exceptions.ServiceBusAuthenticationError) as raised:
        await pair_namespace(bad, clients.options())
    assert "not-key" not in repr(raised.value)
    listing = clients.administration.list_queues()
    assert [queue.name async for queue in listing] == []


async def test_a_wrong_key_of_the_secondary_comes_out(clients: Clients) -> None:
    text = wrong_key(clients.secondary_bus.connection_string)
    options = clients.options(secondary=clients.messaging(text))
    with pytest.raises(exceptions.ServiceBusAuthenticationError):
        await pair_namespace(clients.primary, options)


async def test_a_wrong_key_of_the_administration_comes_out(clients: Clients) -> None:
    async with clients.administering(
        wrong_key(clients.secondary_bus.connection_string)
    ) as bad:
        with pytest.raises(ClientAuthenticationError):
            await pair_namespace(clients.primary, clients.options(administration=bad))


async def test_a_primary_that_is_away_can_be_paired(clients: Clients) -> None:
    await in_thread(clients.primary_bus.stop)
    client = await pair_namespace(clients.primary, clients.options())
    async with client, client.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("diverted"))
    [message] = await in_thread(backlog_at, clients.secondary_bus)
    assert str(message) == "diverted"


async def test_a_secondary_that_is_away_cannot_be_paired(clients: Clients) -> None:
    await in_thread(clients.secondary_bus.stop)
    with pytest.raises(exceptions.AzureError):
        await pair_namespace(clients.primary, clients.options())


async def test_what_is_wrong_with_the_clients_is_said(clients: Clients) -> None:
    with pytest.raises(ValueError, match="same namespace"):
        await pair_namespace(clients.secondary, clients.options())
    with pytest.raises(ValueError, match="primary_name"):
        await pair_namespace(clients.primary, clients.options(primary_name=None))
    with pytest.raises(ValueError, match="mixed"):
        text = clients.secondary_bus.connection_string
        other = sync_package.ServiceBusClient.from_connection_string(text)
        await pair_namespace(clients.primary, clients.options(secondary=other))
    with pytest.raises(TypeError, match="SendAvailability"):
        await pair_namespace(clients.primary, object())  # type: ignore[arg-type]


async def test_a_client_is_paired_once_at_a_time(clients: Clients) -> None:
    async with await pair_namespace(clients.primary, clients.options()):
        with pytest.raises(ValueError, match="paired already"):
            await pair_namespace(clients.primary, clients.options())
    async with await pair_namespace(clients.primary, clients.options()) as again:
        assert again.status().entities == ()


async def test_a_failed_pairing_leaves_the_client_free(clients: Clients) -> None:
    with pytest.raises(ValueError, match="primary_name"):
        await pair_namespace(clients.primary, clients.options(primary_name=None))
    await (await pair_namespace(clients.primary, clients.options())).close()


# --- sending ------------------------------------------------------------------------


async def test_every_form_of_message_arrives(clients: Clients, paired: Any) -> None:
    async with paired.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("message"))
        await sender.send_messages({"body": "mapping"})
        await sender.send_messages(AmqpAnnotatedMessage(data_body=b"annotated"))
        await sender.send_messages([ServiceBusMessage("listed"), {"body": "too"}])
        await sender.send_messages(ServiceBusMessage(f"made {n}") for n in range(2))
        batch = await sender.create_message_batch()
        batch.add_message({"body": "in a batch"})
        await sender.send_messages(batch)
        await sender.send_messages([])
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == [
        *("message", "mapping", "annotated", "listed", "too"),
        *("made 0", "made 1", "in a batch"),
    ]


async def test_a_message_is_sent_as_often_as_it_is_sent(
    clients: Clients, paired: Any
) -> None:
    message = ServiceBusMessage("again")
    async with paired.get_queue_sender("orders") as sender:
        batch = await sender.create_message_batch()
        batch.add_message(message)
        for payload in (message, message, [message, message], batch, batch):
            await sender.send_messages(payload)
    found = await in_thread(bodies_at, clients.primary_bus, "orders")
    assert found == ["again"] * 6


async def test_a_received_message_can_be_sent_again(
    clients: Clients, paired: Any
) -> None:
    async with (
        paired.get_queue_sender("orders") as sender,
        paired.get_queue_receiver("orders") as receiver,
    ):
        await sender.send_messages(ServiceBusMessage("circular"))
        [received] = await receiver.receive_messages(max_wait_time=PATIENCE_SECONDS)
        await sender.send_messages(received)
        await receiver.complete_message(received)
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["circular"]


async def test_senders_and_clients_say_what_they_are(
    clients: Clients, paired: Any
) -> None:
    sender = paired.get_topic_sender("news", client_identifier="me")
    host = f"localhost:{clients.primary_bus.port}"
    assert (sender.entity_name, sender.client_identifier) == ("news", "me")
    assert sender.fully_qualified_namespace == paired.fully_qualified_namespace == host
    assert repr(sender) == f"PairedServiceBusSender('news' on {host!r})"
    assert clients.primary_bus.key not in repr((paired, sender, paired.options))


async def test_a_time_out_must_be_positive(paired: Any) -> None:
    async with paired.get_queue_sender("orders") as sender:
        with pytest.raises(ValueError, match="greater than 0"):
            await sender.send_messages(ServiceBusMessage("x"), timeout=0)


async def test_a_closed_sender_refuses(paired: Any) -> None:
    sender = paired.get_queue_sender("orders")
    await sender.close()
    with pytest.raises(exceptions.ServiceBusError, match="closed"):
        await sender.send_messages(ServiceBusMessage("x"))


async def test_a_connection_string_for_one_entity_is_for_no_other(
    clients: Clients,
) -> None:
    text = f"{clients.primary_bus.connection_string};EntityPath=orders"
    options = clients.options()
    async with await pair_namespace(clients.messaging(text), options) as client:
        with pytest.raises(ValueError, match="'orders' alone"):
            client.get_queue_sender("others")
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(ServiceBusMessage("x"))
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["x"]


async def test_scheduled_messages_are_cancelled_by_their_numbers(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        messages = [ServiceBusMessage("a"), ServiceBusMessage("b")]
        numbers = await sender.schedule_messages(messages, FAR)
        assert len(numbers) == 2 and min(numbers) > 0
        await sender.cancel_scheduled_messages(numbers[0])
        assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["b"]
        await sender.cancel_scheduled_messages(numbers[1:])
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == []


# --- while the primary is away --------------------------------------------------------


async def test_sends_go_on_while_the_primary_is_away(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("before"))
        await fail_over(clients, sender)
        await sender.send_messages(
            [ServiceBusMessage(f"m{n}", session_id="s") for n in range(3)]
        )
    found = await in_thread(backlog_at, clients.secondary_bus)
    assert [str(m) for m in found] == ["first of the backlog", "m0", "m1", "m2"]
    last = found[-1].application_properties
    assert (last[PATH.encode()], last[SESSION_ID.encode()]) == (b"orders", b"s")
    [entity] = paired.status().entities
    assert (entity.state, entity.diverted) == ("failed over", 4)


async def test_a_batch_is_made_and_taken_apart_while_the_primary_is_away(
    clients: Clients,
) -> None:
    await in_thread(clients.primary_bus.stop)
    client = await pair_namespace(clients.primary, clients.options())
    async with client, client.get_queue_sender("orders") as sender:
        batch = await sender.create_message_batch()
        assert batch.max_size_in_bytes == 256 * 1024
        with pytest.raises(exceptions.MessageSizeExceededError):
            while True:
                batch.add_message(ServiceBusMessage(b"x" * 20_000))
        await sender.send_messages(batch)
    found = await in_thread(backlog_at, clients.secondary_bus)
    assert len(found) == len(batch)


async def test_a_batch_larger_than_the_entity_takes_is_refused(paired: Any) -> None:
    async with paired.get_queue_sender("orders") as sender:
        with pytest.raises(ValueError, match="too large"):
            await sender.create_message_batch(max_size_in_bytes=100_000_000)
        batch = await sender.create_message_batch(max_size_in_bytes=1_000)
        assert batch.max_size_in_bytes == 1_000


async def test_a_scheduled_message_is_cancelled_in_the_backlog(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        await fail_over(clients, sender)
        [number] = await sender.schedule_messages(ServiceBusMessage("later"), FAR)
        assert number < 0
        assert len(await in_thread(backlog_at, clients.secondary_bus)) == 2
        await sender.cancel_scheduled_messages(number)
    [left] = await in_thread(backlog_at, clients.secondary_bus)
    assert str(left) == "first of the backlog"


async def test_a_primary_that_is_back_is_used_again(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        await fail_over(clients, sender)
        await in_thread(clients.primary_bus.start)
        await until(lambda: paired.status().entities[0].state != "failed over")
        await sender.send_messages(ServiceBusMessage("back"))
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["back"]


async def test_a_pair_with_a_syphon_brings_the_backlog_back(clients: Clients) -> None:
    options = clients.options(enable_syphon=True)
    client = await pair_namespace(clients.primary, options)
    async with client, client.get_queue_sender("orders") as sender:
        await fail_over(clients, sender)
        await in_thread(clients.primary_bus.start)
        async with client.get_queue_receiver("orders") as receiver:
            [message] = await receiver.receive_messages(max_wait_time=PATIENCE_SECONDS)
    assert str(message) == "first of the backlog"


async def test_an_entity_with_sessions_takes_pings(clients: Clients) -> None:
    bus = clients.primary_bus
    bus.create_queue("ordered", requires_session=True)
    bus.update_queue("ordered", status="SendDisabled")
    options = clients.options(failover_interval=0)
    client = await pair_namespace(clients.primary, options)
    async with client, client.get_queue_sender("ordered") as sender:
        await sender.send_messages(ServiceBusMessage("diverted", session_id="s"))
        assert client.status().entities[0].state == "failed over"
        bus.update_queue("ordered", status="Active")
        await until(lambda: client.status().entities[0].state != "failed over")


# --- what counts ------------------------------------------------------------------


async def test_a_missing_entity_counts_and_is_diverted(clients: Clients) -> None:
    options = clients.options(failover_interval=0)
    client = await pair_namespace(clients.primary, options)
    async with client, client.get_queue_sender("missing") as sender:
        await sender.send_messages(ServiceBusMessage("for later"))
    [message] = await in_thread(backlog_at, clients.secondary_bus)
    assert message.application_properties[PATH.encode()] == b"missing"


async def test_a_missing_right_is_raised(clients: Clients) -> None:
    text = clients.primary_bus.connection_string_for("Listen")
    options = clients.options(failover_interval=0)
    client = await pair_namespace(clients.messaging(text), options)
    async with client, client.get_queue_sender("orders") as sender:
        with pytest.raises(exceptions.ServiceBusAuthorizationError):
            await sender.send_messages(ServiceBusMessage("x"))
    assert await in_thread(backlog_at, clients.secondary_bus) == []


async def test_a_message_that_is_too_large_is_raised(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        with pytest.raises(exceptions.MessageSizeExceededError):
            await sender.send_messages(ServiceBusMessage(b"x" * 300_000))
        await sender.send_messages(ServiceBusMessage("small"))
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["small"]


async def test_a_message_that_cannot_be_encoded_is_raised(
    clients: Clients, paired: Any
) -> None:
    message = ServiceBusMessage("x", application_properties={"a": object()})  # type: ignore[dict-item]
    async with paired.get_queue_sender("orders") as sender:
        with pytest.raises(exceptions.ServiceBusError, match="encode"):
            await sender.send_messages(message)
    assert paired.status().entities[0].state == "healthy"


async def test_a_restart_between_two_sends_is_no_failure(
    clients: Clients, paired: Any
) -> None:
    async with paired.get_queue_sender("orders") as sender:
        await sender.send_messages(ServiceBusMessage("before"))
        await in_thread(clients.primary_bus.restart)
        await sender.send_messages(ServiceBusMessage("after"))
        assert paired.status().entities[0].since_seconds == 0.0
    found = await in_thread(bodies_at, clients.primary_bus, "orders")
    assert found == ["before", "after"]


# --- the end ----------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["primary", "secondary"])
async def test_one_closed_client_faults_the_other(
    clients: Clients, closed: str
) -> None:
    events: list[Any] = []
    # Long attempts at a primary that is away: the send is pending at the fault.
    options = clients.options(
        enable_syphon=True,
        fault_grace=0.1,
        failover_interval=60,
        on_event=events.append,
    )
    paired = await pair_namespace(clients.primary, options)
    other = "secondary" if closed == "primary" else "primary"
    receiver = getattr(clients, other).get_queue_receiver("orders")
    sender = paired.get_queue_sender("orders")
    await in_thread(clients.primary_bus.stop)
    pending = asyncio.create_task(sender.send_messages(ServiceBusMessage("x")))
    await asyncio.sleep(0)
    await getattr(clients, closed).close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(PairFaulted, match=f"of the {closed} .* 0.1 seconds"):
            await pending
    with pytest.raises(PairFaulted):
        await sender.send_messages(ServiceBusMessage("x"))
    await until(receiver._shutdown.is_set)
    assert EventKind.FAULTED in {event.kind for event in events}
    await paired.close()


async def test_both_closed_clients_end_the_pair_quietly(clients: Clients) -> None:
    events: list[Any] = []
    options = clients.options(
        enable_syphon=True, fault_grace=60, on_event=events.append
    )
    paired = await pair_namespace(clients.primary, options)
    sender = paired.get_queue_sender("orders")
    await sender.send_messages(ServiceBusMessage("x"))
    await clients.primary.close()
    await clients.secondary.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(exceptions.ServiceBusError, match="closed"):
            while True:
                await sender.send_messages(ServiceBusMessage("x"))
    assert EventKind.FAULTED not in {event.kind for event in events}
    await paired.close()


async def test_closing_the_pair_ends_what_is_pending(clients: Clients) -> None:
    options = clients.options(failover_interval=60)
    paired = await pair_namespace(clients.primary, options)
    sender = paired.get_queue_sender("orders")
    await in_thread(clients.primary_bus.stop)
    pending = asyncio.create_task(sender.send_messages(ServiceBusMessage("x")))
    await asyncio.sleep(0)
    await paired.close()
    await paired.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(exceptions.ServiceBusError, match="closed"):
            await pending
