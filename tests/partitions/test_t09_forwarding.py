"""T9: forwarding from, to and between partitioned entities, and between stores."""

from collections.abc import Callable, Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.fragments.hashing import fragment_index
from twinbus.testing import Bus

from .conftest import FRAGMENTS, KINDS, drained, fragment_of, postgres_urls
from .leaving import LeavingBus

KEYS = [f"key-{number}" for number in range(8)]


def send_with_keys(client: ServiceBusClient, queue: str) -> None:
    """Three messages of each key, one after the other."""
    with client.get_queue_sender(queue) as sender:
        for number in range(3):
            for key in KEYS:
                body = f"{key} {number}"
                sender.send_messages(ServiceBusMessage(body, partition_key=key))


def check_by_key(client: ServiceBusClient, queue: str, fragment_count: int) -> None:
    """All are there, in order, and in the fragment of their key."""
    found = drained(client, queue)
    assert len(found) == 3 * len(KEYS)
    for key in KEYS:
        of_key = [one for one in found if one.partition_key == key]
        assert [str(one) for one in of_key] == [f"{key} {n}" for n in range(3)]
        fragments = {fragment_of(one) for one in of_key}
        assert fragments == {fragment_index(key, fragment_count)}


def test_t09_the_key_picks_the_fragment_of_a_partitioned_target(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    source = make_queue(enable_partitioning=False, forward_to=target)
    send_with_keys(client, source)
    check_by_key(client, target, FRAGMENTS)


def test_t09_a_partitioned_queue_forwards_to_a_partitioned_one(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    source = make_queue(forward_to=target)
    send_with_keys(client, source)
    check_by_key(client, target, FRAGMENTS)


def test_t09_a_partitioned_queue_forwards_to_a_conventional_one(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue(enable_partitioning=False)
    source = make_queue(forward_to=target)
    send_with_keys(client, source)
    check_by_key(client, target, 1)


def test_t09_messages_without_a_key_are_spread_and_there_once(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    source = make_queue(forward_to=target)
    with client.get_queue_sender(source) as sender:
        for number in range(40):
            sender.send_messages(ServiceBusMessage(str(number)))
    found = drained(client, target)
    assert sorted(int(str(one)) for one in found) == list(range(40))
    assert len({fragment_of(one) for one in found}) > 1


def test_t09_subscriptions_of_a_partitioned_topic_forward(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    topic = f"topic-of-{target}"
    bus.create_topic(topic, enable_partitioning=True)
    bus.create_subscription(topic, "all", forward_to=target)
    with client.get_topic_sender(topic) as sender:
        for number in range(3):
            for key in KEYS:
                body = f"{key} {number}"
                sender.send_messages(ServiceBusMessage(body, partition_key=key))
    check_by_key(client, target, FRAGMENTS)


def test_t09_dead_letters_are_forwarded_to_a_partitioned_queue(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    source = make_queue(forward_dead_lettered_messages_to=target)
    send_with_keys(client, source)
    with client.get_queue_receiver(source, max_wait_time=2) as receiver:
        for message in receiver:
            receiver.dead_letter_message(message, reason="tested")
    found = drained(client, target)
    assert len(found) == 3 * len(KEYS)
    assert {one.dead_letter_reason for one in found} == {"tested"}
    assert {one.dead_letter_source for one in found} == {source}


def test_t09_a_target_that_is_disabled_leaves_dead_letters_at_the_source(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue()
    source = make_queue(forward_to=target)
    bus.update_queue(target, status="SendDisabled")
    send_with_keys(client, source)
    found = drained(client, source, sub_queue="deadletter")
    assert len(found) == 3 * len(KEYS)
    assert {one.dead_letter_reason for one in found} == {"AutoForwardingFailed"}


def test_t09_a_target_with_sessions_refuses_messages_without_one(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue(requires_session=True)
    source = make_queue(forward_to=target)
    with client.get_queue_sender(source) as sender:
        sender.send_messages(ServiceBusMessage("none", partition_key="red"))
        sender.send_messages(ServiceBusMessage("one", session_id="blue"))
    [refused] = drained(client, source, sub_queue="deadletter")
    assert refused.dead_letter_reason == "Session ID is null."
    [taken] = drained(client, target, session_id="blue")
    assert str(taken) == "one"


def test_t09_a_target_that_detects_duplicates_gets_each_id_once(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    target = make_queue(requires_duplicate_detection=True)
    source = make_queue(forward_to=target)
    with client.get_queue_sender(source) as sender:
        for _ in range(3):
            for number in range(10):
                sender.send_messages(ServiceBusMessage("x", message_id=str(number)))
    found = drained(client, target)
    assert sorted(str(one.message_id) for one in found) == list("0123456789")


def test_t09_the_first_sequence_number_and_the_hops_are_kept(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    """The fifth hop is one too many, from store to store as well."""
    first = make_queue()
    path = [first]
    for _ in range(5):
        path.append(make_queue(forward_to=path[-1]))
    with client.get_queue_sender(path[-2]) as sender:
        sender.send_messages(ServiceBusMessage("four hops", partition_key="red"))
    with client.get_queue_sender(path[-1]) as sender:
        sender.send_messages(ServiceBusMessage("five hops", partition_key="red"))
    [arrived] = drained(client, first)
    assert str(arrived) == "four hops"
    assert arrived.enqueued_sequence_number == arrived.sequence_number
    [ended] = drained(client, path[1], sub_queue="deadletter")
    assert ended.dead_letter_reason == "MaxTransferHopCountExceeded"


@pytest.fixture(params=KINDS)
def leaving(request: pytest.FixtureRequest) -> Iterator[LeavingBus]:
    urls = () if request.param == "sqlite" else postgres_urls(request, 2)
    with LeavingBus(urls) as running:
        running.create_in(running.leaving, "here")
        running.create_in(running.leaving, "victim")
        running.create_in(running.steady, "there", forward_to="here")
        yield running


def test_t09_messages_wait_for_a_target_whose_store_is_away(
    leaving: LeavingBus,
) -> None:
    text, there = leaving.connection_string, leaving.server.namespace.queue("there")
    with ServiceBusClient.from_connection_string(text, retry_total=0) as client:
        leaving.leave(client, "victim")
        with client.get_queue_sender("there") as sender:
            for number in range(5):
                sender.send_messages(ServiceBusMessage(str(number)))
        leaving.until(lambda: there.counts().transfer == 5)
        assert there.counts().active == 0
        leaving.come_back()
        assert [str(one) for one in drained(client, "here")] == list("01234")
        assert there.counts().transfer == 0
