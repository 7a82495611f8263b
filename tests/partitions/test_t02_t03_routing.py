"""T2, T3, T4: messages without a key take turns, those with one have their fragment."""

from collections import Counter
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.fragments.hashing import fragment_index
from twinbus.testing import Bus

from .conftest import FRAGMENTS, drained, fragment_of


def two_keys(body: str) -> ServiceBusMessage:
    """The SDK refuses to set both, so the annotation is set by hand."""
    message = ServiceBusMessage(body, session_id="a")
    message.raw_amqp_message.annotations = {b"x-opt-partition-key": "b"}
    return message


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
    queue = make_queue(requires_session=True)
    with (
        client.get_queue_sender(queue) as sender,
        pytest.raises(ServiceBusError, match="partition key 'b' and the session id"),
    ):
        sender.send_messages(two_keys("x"))
    assert drained(client, queue, session_id="a") == []


@pytest.mark.parametrize(
    "keys", [("a", "a", "b"), ("a", None), (None, "a")], ids=["two", "last", "first"]
)
def test_t03_batch_with_different_keys_is_refused_whole(
    client: ServiceBusClient, queue: str, keys: tuple[str | None, ...]
) -> None:
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        for key in keys:
            batch.add_message(ServiceBusMessage("x", partition_key=key))
        with pytest.raises(ServiceBusError, match=r"different keys.*not-allowed"):
            sender.send_messages(batch)
    assert drained(client, queue) == []


def test_t03_batch_of_several_sessions_is_refused_whole(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    with client.get_queue_sender(queue) as sender:
        batch = [ServiceBusMessage(name, session_id=name) for name in ("a", "a", "b")]
        with pytest.raises(ServiceBusError, match=r"different keys.*not-allowed"):
            sender.send_messages(batch)
    for name in ("a", "b"):
        assert drained(client, queue, session_id=name) == []


def test_t05_batch_with_a_message_of_two_keys_is_refused_whole(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    with client.get_queue_sender(queue) as sender:
        batch = [ServiceBusMessage("first", session_id="a"), two_keys("second")]
        with pytest.raises(ServiceBusError, match="partition key 'b' and the session"):
            sender.send_messages(batch)
    assert drained(client, queue, session_id="a") == []


def test_t05_topic_refuses_a_message_of_two_keys(
    bus: Bus, client: ServiceBusClient
) -> None:
    bus.create_topic("events", enable_partitioning=True)
    bus.create_subscription("events", "all")
    with (
        client.get_topic_sender("events") as sender,
        pytest.raises(ServiceBusError, match="partition key 'b' and the session id"),
    ):
        sender.send_messages(two_keys("x"))
    assert drained(client, "events/Subscriptions/all") == []
