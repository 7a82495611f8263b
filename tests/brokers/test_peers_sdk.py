"""The vendor's SDK at a broker that owns nothing of what it uses."""

import asyncio
from datetime import UTC, datetime, timedelta

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    TransportType,
)

from twinbus.config.config import local_connection_string

from .processes import Brokers, until

PATIENCE = 30


async def _two_brokers(brokers: Brokers) -> tuple[str, str]:
    """Their names. Each has a port of its own."""
    first = await brokers.start("--join")
    second = await brokers.start("--join")
    names = (f"of process {first.pid}", f"of process {second.pid}")
    await until(lambda: brokers.owns_all(*names))
    return names


def _client(brokers: Brokers, name: str) -> ServiceBusClient:
    text = local_connection_string("127.0.0.1", brokers.ports[name], brokers.root_key)
    return ServiceBusClient.from_connection_string(text)


def _websocket_client(brokers: Brokers, name: str) -> ServiceBusClient:
    port = brokers.ports[name]
    text = local_connection_string("127.0.0.1", port, brokers.root_key)
    return ServiceBusClient.from_connection_string(
        text,
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"sb://localhost:{port}",
    )


def _use_queue(client: ServiceBusClient) -> None:
    with client, client.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(20)])
        with client.get_queue_receiver("q") as receiver:
            assert len(receiver.peek_messages(5)) == 5
            got = []
            while len(got) < 20:
                got += receiver.receive_messages(20 - len(got), max_wait_time=PATIENCE)
            assert sorted(str(m) for m in got) == sorted(f"m{n}" for n in range(20))
            receiver.renew_message_lock(got[0])
            receiver.abandon_message(got[0])
            receiver.defer_message(got[1])
            receiver.dead_letter_message(got[2], reason="bad")
            for message in got[3:]:
                receiver.complete_message(message)
            number = got[1].sequence_number
            assert number is not None
            (deferred,) = receiver.receive_deferred_messages(number)
            receiver.complete_message(deferred)
            (again,) = receiver.receive_messages(1, max_wait_time=PATIENCE)
            assert again.delivery_count == 1
            receiver.complete_message(again)
        later = datetime.now(UTC) + timedelta(hours=1)
        numbers = sender.schedule_messages([ServiceBusMessage("later")], later)
        sender.cancel_scheduled_messages(numbers)
        with client.get_queue_receiver(
            "q/$deadletterqueue", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as dead:
            (message,) = dead.receive_messages(1, max_wait_time=PATIENCE)
            assert message.dead_letter_reason == "bad"


def _use_sessions(client: ServiceBusClient) -> None:
    with client, client.get_queue_sender("s") as sender:
        sender.send_messages(ServiceBusMessage("hello", session_id="one"))
        with client.get_queue_receiver("s", session_id="one") as receiver:
            receiver.session.set_state(b"state")
            assert receiver.session.get_state() == b"state"
            receiver.session.renew_lock()
            (message,) = receiver.receive_messages(1, max_wait_time=PATIENCE)
            receiver.complete_message(message)


async def test_sdk_uses_queue_of_another_broker(brokers: Brokers) -> None:
    owner, other = await _two_brokers(brokers)
    await brokers.ask(owner, "create-queue", path="q", properties="{}")
    sessions = '{"requires_session": true}'
    await brokers.ask(owner, "create-queue", path="s", properties=sessions)
    await asyncio.to_thread(_use_queue, _client(brokers, other))
    await asyncio.to_thread(_use_sessions, _client(brokers, other))
    await asyncio.to_thread(_use_queue, _websocket_client(brokers, other))
