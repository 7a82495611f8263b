"""The synchronous face: the same promises, without an event loop. P1, P6 to P12.

The work of a test runs in its own thread, like that of an application; the results are
checked in the test's loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus.pairing import pair_namespace
from twinbus.pairing.errors import PairingError

from .harness_audit import assert_once_each, ids_of
from .harness_world import HASTY, World, message, numbered


@contextmanager
def _paired(world: World, **changes: Any) -> Iterator[Any]:
    """A synchronous pair, as an application writes it."""
    text = world.secondary.connection_string(world.secondary_way.port)
    options = world.options(
        management=ServiceBusAdministrationClient.from_connection_string(
            text, connection_verify=str(world.secondary.ca_file)
        ),
        messaging=ServiceBusClient.from_connection_string(text),
        **changes,
    )
    primary = ServiceBusClient.from_connection_string(
        world.primary.connection_string(world.way.port)
    )
    client = pair_namespace(primary, options)
    try:
        yield client
    finally:
        client.close()
        options.secondary_management_client.close()
        options.secondary_client.close()
        primary.close()


async def _in_thread(work: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        return await asyncio.to_thread(work)


@pytest.mark.parametrize("fault", ["refuse", "black_hole"])
async def test_a_synchronous_sender_diverts(world: World, fault: str) -> None:
    """P1, P7, P8: an open sender and a new one, single messages and lists."""
    queue = world.queue()

    def work() -> None:
        with _paired(world, **HASTY) as client:
            with client.get_queue_sender(queue) as sender:
                sender.send_messages(message("before"))
                getattr(world.way, fault)()
                sender.send_messages(message("during"))
            with client.get_queue_sender(queue) as sender:
                sender.send_messages([message("second"), message("third")])

    await _in_thread(work)
    assert ids_of(await world.at_primary.has(queue, 1)) == ["before"]
    assert ids_of(await world.backlog()) == ["during", "second", "third"]


async def test_a_synchronous_process_gets_its_messages_back(world: World) -> None:
    """P11, P12: with the syphon in the application, and its own receiver."""
    queue = world.queue()

    def work() -> list[Any]:
        with _paired(world, enable_syphon=True) as client:
            with client.get_queue_sender(queue) as sender:
                world.way.refuse()
                sender.send_messages(numbered("m", 10))
                world.way.heal()
                found: list[Any] = []
                with client.get_queue_receiver(queue) as receiver:
                    while len(found) < 10:
                        portion = receiver.receive_messages(10, max_wait_time=20)
                        for one in portion:
                            receiver.complete_message(one)
                        found += portion
                return found

    assert_once_each([f"m-{n}" for n in range(10)], await _in_thread(work))
    await world.backlog_has(0)


async def test_synchronous_batches_and_schedules_take_the_detour(world: World) -> None:
    """P9: the SDK's whole interface of a sender."""
    queue = world.queue()

    def work() -> None:
        with _paired(world) as client, client.get_queue_sender(queue) as sender:
            batch = sender.create_message_batch()
            batch.add_message(message("batched"))
            world.way.refuse()
            sender.send_messages(batch)
            later = datetime.now(UTC) + timedelta(hours=1)
            numbers = sender.schedule_messages(numbered("s", 2), later)
            sender.cancel_scheduled_messages(numbers[0])

    await _in_thread(work)
    assert ids_of(await world.backlog()) == ["batched", "s-1"]


async def test_synchronous_errors_are_the_sdks(world: World) -> None:
    """P6, P7: time-outs, sizes, and sends after the close."""
    queue = world.queue()

    def work() -> None:
        with _paired(world, failover_interval=60) as client:
            sender = client.get_queue_sender(queue)
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(message("large", subject="x" * 300_000))
            world.way.refuse()
            with pytest.raises(OperationTimeoutError):
                sender.send_messages(message("late"), timeout=1)
        with pytest.raises((PairingError, ServiceBusError, ValueError)):
            sender.send_messages(message("closed"))

    await _in_thread(work)
    assert await world.backlog() == []


async def test_threads_share_a_synchronous_pair(world: World) -> None:
    """P8: health is shared by all senders of the process."""
    queue = world.queue()

    def send(client: Any, stem: str) -> None:
        with client.get_queue_sender(queue) as sender:
            for one in numbered(stem, 5):
                sender.send_messages(one)

    async def all_of(client: Any) -> None:
        await asyncio.gather(
            *(asyncio.to_thread(send, client, f"t{n}") for n in range(4))
        )

    def work() -> None:
        with _paired(world) as client:
            world.way.refuse()
            asyncio.run(all_of(client))

    await _in_thread(work)
    wanted = [f"t{n}-{m}" for n in range(4) for m in range(5)]
    assert_once_each(wanted, await world.backlog())
