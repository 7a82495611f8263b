"""T2, T3, T4: messages without a key take turns, those with one have their fragment."""

from collections import Counter
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.fragments.hashing import fragment_index

from .conftest import FRAGMENTS, drained, fragment_of


def test_t02_sends_without_a_key_use_all_fragments(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(FRAGMENTS):
            sender.send_messages(ServiceBusMessage(str(number)))
    assert sorted(map(fragment_of, drained(client, queue))) == list(range(FRAGMENTS))


def test_t02_batch_without_a_key_is_in_one_fragment(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
    found = drained(client, queue)
    assert len(found) == 20
    assert len({fragment_of(message) for message in found}) == 1


def test_t03_messages_with_a_key_are_in_its_fragment_and_in_order(
    client: ServiceBusClient, queue: str
) -> None:
    keys = [f"key-{number}" for number in range(8)]
    with client.get_queue_sender(queue) as sender:
        for number in range(5):
            for key in keys:
                body = f"{key} {number}"
                sender.send_messages(ServiceBusMessage(body, partition_key=key))
    found = drained(client, queue)
    for key in keys:
        of_key = [one for one in found if one.partition_key == key]
        assert [str(one) for one in of_key] == [f"{key} {n}" for n in range(5)]
        assert {fragment_of(one) for one in of_key} == {fragment_index(key, FRAGMENTS)}


def test_t04_session_id_is_the_key(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    with client.get_queue_sender(queue) as sender:
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number), session_id="blue"))
    found = drained(client, queue, session_id="blue")
    assert [str(one) for one in found] == ["0", "1", "2"]
    assert {fragment_of(one) for one in found} == {fragment_index("blue", FRAGMENTS)}


def test_t04_message_id_is_the_key_where_duplicates_are_detected(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_duplicate_detection=True)
    with client.get_queue_sender(queue) as sender:
        for _ in range(4):
            for number in range(10):
                sender.send_messages(ServiceBusMessage("x", message_id=str(number)))
    found = drained(client, queue)
    assert sorted(str(one.message_id) for one in found) == list("0123456789")
    assert len({fragment_of(one) for one in found}) > 3


def test_t04_message_id_is_no_key_where_duplicates_are_not_detected(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for _ in range(FRAGMENTS):
            sender.send_messages(ServiceBusMessage("x", message_id="same"))
    fragments = Counter(map(fragment_of, drained(client, queue)))
    assert fragments == dict.fromkeys(range(FRAGMENTS), 1)


def test_t05_different_session_id_and_partition_key_are_refused(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    """The SDK refuses to set both, so the annotation is set by hand."""
    queue = make_queue(requires_session=True)
    message = ServiceBusMessage("x", session_id="a")
    message.raw_amqp_message.annotations = {b"x-opt-partition-key": "b"}
    with (
        client.get_queue_sender(queue) as sender,
        pytest.raises(ServiceBusError, match="partition key 'b' and the session id"),
    ):
        sender.send_messages(message)
    assert drained(client, queue, session_id="a") == []


def test_batch_with_different_keys_is_refused_whole(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("x", partition_key="a"))
        batch.add_message(ServiceBusMessage("y", partition_key="b"))
        with pytest.raises(ServiceBusError, match=r"different keys.*not-allowed"):
            sender.send_messages(batch)
    assert drained(client, queue) == []
