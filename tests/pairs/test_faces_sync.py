"""The synchronous face of a pair: the same, for callers without an event loop."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, exceptions

from twinbus.auth.sas import make
from twinbus.clock import SystemClock
from twinbus.pairing import PairFaulted, PairingError, pair_namespace
from twinbus.testing import Bus

from .faces import (
    PATIENCE_SECONDS,
    Clients,
    backlog_at,
    bodies_at,
    two_buses,
    wrong_key,
)

FAR = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def clients() -> Iterator[Clients]:
    with two_buses() as buses:
        made = Clients(*buses, asynchronous=False)
        with made.primary, made.secondary:
            yield made
        made.administration.close()


@pytest.fixture
def paired(clients: Clients) -> Iterator[Any]:
    with pair_namespace(clients.primary, clients.options()) as client:
        yield client


def test_messages_batches_and_schedules_arrive(clients: Clients, paired: Any) -> None:
    with paired.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("message"))
        sender.send_messages({"body": f"made {n}"} for n in range(2))
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("in a batch"))
        sender.send_messages(batch)
        numbers = sender.schedule_messages([ServiceBusMessage("later")], FAR)
        sender.cancel_scheduled_messages(numbers)
    found = bodies_at(clients.primary_bus, "orders")
    assert found == ["message", "made 0", "made 1", "in a batch"]


def test_receivers_come_from_the_primary(paired: Any) -> None:
    with paired.get_topic_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("hello"))
    with paired.get_queue_receiver("orders") as receiver:
        [message] = receiver.receive_messages(max_wait_time=PATIENCE_SECONDS)
        receiver.complete_message(message)
    assert str(message) == "hello"


def test_sends_go_on_while_the_primary_is_away(clients: Clients, paired: Any) -> None:
    with paired.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("before"))
        clients.primary_bus.stop()
        sender.send_messages([ServiceBusMessage("one"), ServiceBusMessage("two")])
    assert [str(m) for m in backlog_at(clients.secondary_bus)] == ["one", "two"]
    [entity] = paired.status().entities
    assert (entity.state, entity.diverted) == ("failed over", 2)


def test_many_threads_send_at_once(clients: Clients, paired: Any) -> None:
    shared = paired.get_queue_sender("orders")

    def send(number: int) -> None:
        shared.send_messages(ServiceBusMessage(f"shared {number}"))
        with paired.get_queue_sender("orders") as own:
            own.send_messages(ServiceBusMessage(f"own {number}"))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    expected = [f"{whose} {n}" for whose in ("own", "shared") for n in range(6)]
    assert sorted(bodies_at(clients.primary_bus, "orders")) == expected


def test_bad_credentials_come_out_of_the_call(clients: Clients) -> None:
    primary = clients.messaging(wrong_key(clients.primary_bus.connection_string))
    with pytest.raises(exceptions.ServiceBusAuthenticationError):
        pair_namespace(primary, clients.options())
    bad = wrong_key(clients.secondary_bus.connection_string)
    with pytest.raises(exceptions.ServiceBusAuthenticationError):
        options = clients.options(secondary=clients.messaging(bad))
        pair_namespace(clients.primary, options)
    administration = clients.administering(bad)
    with pytest.raises(ClientAuthenticationError):
        options = clients.options(administration=administration)
        pair_namespace(clients.primary, options)
    administration.close()


def test_a_failed_call_leaves_no_thread(clients: Clients) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="primary_name"):
        pair_namespace(clients.primary, clients.options(primary_name=None))
    assert threading.active_count() == before


def signature(bus: Bus) -> str:
    return make(
        resource=f"sb://localhost:{bus.port}/",
        key_name=bus.key_name,
        key=bus.key,
        expires_at=SystemClock().now() + 3_600_000,
    )


@pytest.mark.parametrize("kind", ["named key", "signature", "connection string"])
def test_every_kind_of_credential_is_the_twins_too(clients: Clients, kind: str) -> None:
    bus = clients.primary_bus
    host = f"localhost:{bus.port}"
    if kind == "connection string":
        primary = ServiceBusClient.from_connection_string(
            f"Endpoint=sb://{host};SharedAccessSignature={signature(bus)};"
            "UseDevelopmentEmulator=true"
        )
    else:
        credential = (
            AzureNamedKeyCredential(bus.key_name, bus.key)
            if kind == "named key"
            else AzureSasCredential(signature(bus))
        )
        primary = ServiceBusClient(host, credential, use_tls=False)
    with (
        pair_namespace(primary, clients.options()) as client,
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage(kind))
    assert bodies_at(bus, "orders") == [kind]


def test_one_closed_client_faults_the_other(clients: Clients) -> None:
    options = clients.options(enable_syphon=True, fault_grace=0.1, failover_interval=60)
    client = pair_namespace(clients.primary, options)
    receiver = clients.secondary.get_queue_receiver("anything")
    sender = client.get_queue_sender("orders")
    clients.primary_bus.stop()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(sender.send_messages, ServiceBusMessage("x"))
        clients.primary.close()
        with pytest.raises(PairFaulted, match=r"client of the primary.*0\.1 seconds"):
            pending.result(PATIENCE_SECONDS)
    assert receiver._shutdown.wait(PATIENCE_SECONDS)
    with pytest.raises(PairFaulted):
        sender.send_messages(ServiceBusMessage("x"))
    client.close()


def test_a_closed_pair_refuses_and_has_no_thread(clients: Clients) -> None:
    before = threading.active_count()
    client = pair_namespace(clients.primary, clients.options())
    sender = client.get_queue_sender("orders")
    client.close()
    client.close()
    sender.close()
    assert threading.active_count() == before
    with pytest.raises(PairingError, match="closed"):
        sender.send_messages(ServiceBusMessage("x"))
    assert clients.primary_bus.key not in repr((client, sender))
