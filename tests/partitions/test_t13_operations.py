"""T13: the operations of AMQP on partitioned entities."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from twinbus.testing import Bus

from .conftest import drained, fragment_of


def keyed(count: int) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(str(n), partition_key=str(n)) for n in range(count)]


def test_t13_schedule_and_cancel_in_many_fragments(
    bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    due = bus.now() + timedelta(hours=1)
    with client.get_queue_sender(queue) as sender:
        numbers = sender.schedule_messages(keyed(12), due)
        assert len({number >> 48 for number in numbers}) > 4
        assert bus.server.namespace.queue(queue).counts().scheduled == 12
        with pytest.raises(ServiceBusError):
            sender.cancel_scheduled_messages([*numbers[:3], (5 << 48) + 99])
        assert bus.server.namespace.queue(queue).counts().scheduled == 12
        sender.cancel_scheduled_messages(numbers[:8])
        assert bus.server.namespace.queue(queue).counts().scheduled == 4


def test_t05_scheduled_message_with_two_keys_is_refused(
    bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    """The SDK refuses to set both, so the annotation is set by hand."""
    wrong = ServiceBusMessage("wrong", session_id="a")
    wrong.raw_amqp_message.annotations = {b"x-opt-partition-key": "b"}
    due = bus.now() + timedelta(hours=1)
    with (
        client.get_queue_sender(queue) as sender,
        pytest.raises(ServiceBusError, match="partition key 'b' and the session id"),
    ):
        sender.schedule_messages([*keyed(4), wrong], due)
    assert bus.server.namespace.queue(queue).counts().scheduled == 0


def test_t13_receive_by_sequence_number_from_many_fragments(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for message in keyed(10):
            sender.send_messages(message)
    with client.get_queue_receiver(queue, max_wait_time=2) as receiver:
        numbers: list[int] = []
        while messages := receiver.receive_messages(10, max_wait_time=2):
            for message in messages:
                assert message.sequence_number is not None
                numbers.append(message.sequence_number)
                receiver.defer_message(message)
        assert len({number >> 48 for number in numbers}) > 4
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([*numbers, (3 << 48) + 999])
        found = receiver.receive_deferred_messages(numbers)
        assert [one.sequence_number for one in found] == numbers
        for one in found:
            receiver.complete_message(one)
    assert drained(client, queue) == []


def test_t13_locks_are_renewed_in_every_fragment(
    bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for message in keyed(8):
            sender.send_messages(message)
    with client.get_queue_receiver(queue, max_wait_time=2) as receiver:
        found = []
        while len(found) < 8:
            found += receiver.receive_messages(8, max_wait_time=5)
        bus.clock.advance(30_000)
        for message in found:
            before = message.locked_until_utc
            assert receiver.renew_message_lock(message) > before  # type: ignore[operator]
            receiver.complete_message(message)


def test_t13_sessions_are_renewed_and_have_a_state(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    names = [f"session {number}" for number in range(6)]
    with client.get_queue_sender(queue) as sender:
        for name in names:
            sender.send_messages(ServiceBusMessage(name, session_id=name))
    used = set()
    for name in names:
        with client.get_queue_receiver(queue, session_id=name) as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=5)
            used.add(fragment_of(message))
            before = receiver.session.locked_until_utc
            bus.clock.advance(1_000)
            assert receiver.session.renew_lock() > before  # type: ignore[operator]
            receiver.session.set_state(name.encode())
            assert receiver.session.get_state() == name.encode()
            receiver.complete_message(message)
    assert len(used) > 2
    found = bus.server.namespace.queue(queue)
    assert found.size_bytes() == sum(map(len, names))
