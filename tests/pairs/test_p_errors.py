"""Errors of pairing say what failed, and where: P1, P4, P7."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.servicebus import ServiceBusMessage, TransportType, aio
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusConnectionError,
)

from twinbus.pairing import FailureKind, PairingError, Verdict, pair_namespace
from twinbus.testing import Bus

from .faces import Clients, in_thread
from .harness_world import timed


@contextmanager
def silence() -> Iterator[str]:
    """Somebody who takes every connection and says nothing: a connection string."""
    with socket.create_server(("localhost", 0), backlog=64) as listener:
        port = listener.getsockname()[1]
        yield (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=root;"
            "SharedAccessKey=secret;UseDevelopmentEmulator=true"
        )


@pytest.mark.parametrize("asynchronous", [True, False], ids=["aio", "sync"])
async def test_a_silent_secondary_ends_the_call_in_its_time(
    buses: tuple[Bus, Bus], asynchronous: bool
) -> None:
    """P1: within `pairing_timeout`, and the error says which side it was."""
    clients = Clients(*buses, asynchronous=asynchronous)
    with silence() as text:
        silent = clients._administration_kind.from_connection_string(text)
        options = clients.options(administration=silent, pairing_timeout=4)
        lap = timed()
        with pytest.raises(OperationTimeoutError, match=r"secondary.*4 seconds.*queue"):
            if asynchronous:
                await pair_namespace(clients.primary, options)
            else:
                await asyncio.to_thread(pair_namespace, clients.primary, options)
        # Unbounded, it was nine minutes.
        assert lap() < 30
    for client in (clients.primary, clients.secondary, clients.administration, silent):
        await client.close() if asynchronous else client.close()


async def test_a_topic_at_the_path_of_a_backlog_queue_is_told(clients: Clients) -> None:
    """P4: it cannot be used as it is."""
    path = "site-a/x-servicebus-transfer/1"
    clients.secondary_bus.create_topic(path)
    with pytest.raises(PairingError, match=f"'{path}'.*topic"):
        await pair_namespace(clients.primary, clients.options())


async def test_an_untrusted_administration_is_told(clients: Clients) -> None:
    """P1: which side, and what to do about it."""
    text = clients.secondary_bus.connection_string
    untrusting = clients._administration_kind.from_connection_string(text)
    async with untrusting:
        options = clients.options(administration=untrusting)
        with pytest.raises(ServiceRequestError, match=r"secondary.*connection_verify"):
            await pair_namespace(clients.primary, options)


async def test_an_untrusted_primary_is_no_outage(buses: tuple[Bus, Bus]) -> None:
    """P1, P7: the client is misconfigured, and no detour mends that."""
    clients = Clients(*buses, asynchronous=True)
    secured = buses[1]
    text = secured.connection_string.replace("UseDevelopmentEmulator=true", "")
    untrusting = aio.ServiceBusClient.from_connection_string(
        text.replace(f":{secured.port}", ""),
        transport_type=TransportType.Amqp,
        custom_endpoint_address=f"sb://localhost:{secured.port}",
    )
    async with untrusting, clients.primary, clients.secondary, clients.administration:
        with pytest.raises(ServiceBusConnectionError, match=r"primary.*certificate"):
            await pair_namespace(untrusting, clients.options())


async def test_a_missing_entity_is_named_by_the_status(clients: Clients) -> None:
    """P7: it counts, and who looks can see why."""
    options = clients.options(failover_interval=0)
    async with await pair_namespace(clients.primary, options) as client:
        async with client.get_queue_sender("misspelt") as sender:
            await sender.send_messages(ServiceBusMessage("one"))
        (entity,) = client.status().entities
        assert "'misspelt' could not be found" in entity.last_failure


async def test_a_missing_entity_is_an_error_of_its_own_where_it_is_raised(
    clients: Clients,
) -> None:
    """P7: the SDK takes it for a refused token."""
    options = clients.options(verdicts={FailureKind.NOT_FOUND: Verdict.RAISE})
    async with await pair_namespace(clients.primary, options) as client:
        async with client.get_queue_sender("misspelt") as sender:
            with pytest.raises(MessagingEntityNotFoundError, match="misspelt"):
                await sender.send_messages(ServiceBusMessage("one"))


async def test_missing_backlog_queues_are_named_by_the_send(clients: Clients) -> None:
    """P8: with none left the send fails with the error, which says what is wrong."""
    options = clients.options(failover_interval=0, backlog_queue_count=1)
    async with await pair_namespace(clients.primary, options) as client:
        path = "site-a/x-servicebus-transfer/0"
        clients.secondary_bus.delete_queue(path)
        await in_thread(clients.primary_bus.stop)
        async with client.get_queue_sender("orders") as sender:
            with pytest.raises(Exception, match=f"'{path}' could not be found"):
                await sender.send_messages(ServiceBusMessage("one"), timeout=3)
