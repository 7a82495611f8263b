"""T11: messages of a partitioned entity over HTTP. In one broker the fragments hold
nothing for a connection, so none waits where another connection cannot see it."""

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from http_messaging.caller import Caller

from twinbus.testing import Bus

from .conftest import FRAGMENTS


@pytest.fixture
def call(bus: Bus) -> Iterator[Caller]:
    caller = Caller.of(bus)
    yield caller
    caller.close()


def fragment_of(number: int) -> int:
    return number >> 48


def test_t11_receive_asks_all_fragments(call: Caller, queue: str) -> None:
    for number in range(40):
        call.send(queue, str(number).encode(), PartitionKey=str(number))
    found = {}
    while (answer := call.take(queue, 0)).status == 200:
        found[answer.body] = fragment_of(answer.broker["SequenceNumber"])
    assert {int(body) for body in found} == set(range(40))
    assert len(set(found.values())) > FRAGMENTS // 2


def test_t11_last_message_of_any_fragment_is_found_at_once(
    call: Caller, queue: str
) -> None:
    """Low volume: one message, in any of 16 fragments, and no wait for it."""
    for number in range(20):
        call.send(queue, b"x", PartitionKey=str(number))
        assert call.take(queue, 0).status == 200
        assert call.take(queue, 0).status == 204


def test_t11_message_wakes_a_receive_that_waits(
    bus: Bus, call: Caller, queue: str
) -> None:
    sender = Caller.of(bus)
    for number in range(4):
        call.begin("POST", f"/{queue}/messages/head?timeout=60")
        sender.send(queue, b"x", PartitionKey=str(number))
        answer = call.answer()
        assert answer.status == 201
        assert call("DELETE", answer.lock).status == 200
    sender.close()


def test_t11_nothing_is_held_for_a_connection(
    bus: Bus, call: Caller, queue: str
) -> None:
    """A receive of one message takes one, from whatever fragment."""
    for number in range(20):
        call.send(queue, b"x", PartitionKey=str(number))
    first = call.lock(queue)
    other = Caller.of(bus)
    assert len(other.bodies(queue)) == 19
    assert other.lock(queue, 0).status == 204
    assert call("DELETE", first.lock).status == 200
    other.close()


def test_t11_locks_work_in_every_fragment(call: Caller, queue: str) -> None:
    for number in range(20):
        call.send(queue, b"x", PartitionKey=str(number))
    for _ in range(20):
        answer = call.lock(queue)
        assert call("POST", answer.lock).status == 200
        assert call("PUT", answer.lock).status == 200
        answer = call.lock(queue)
        assert call("DELETE", answer.lock).status == 200
    assert call.lock(queue, 0).status == 204


def test_t11_keys_choose_the_same_fragment_as_over_amqp(
    call: Caller, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(12):
            key = str(number)
            call.send(queue, key.encode(), PartitionKey=key)
            sender.send_messages(ServiceBusMessage(key, partition_key=key))
    places: dict[bytes, set[int]] = {}
    while (answer := call.take(queue, 0)).status == 200:
        place = fragment_of(answer.broker["SequenceNumber"])
        places.setdefault(answer.body, set()).add(place)
    assert len(places) == 12
    assert all(len(fragments) == 1 for fragments in places.values())
