"""T1, T15: fragments are in different stores, and their numbers tell which."""

from collections import Counter

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.testing import Bus

from .conftest import FRAGMENTS, STORES, drained, fragment_of


def test_t01_fragments_are_spread_over_all_stores(bus: Bus, queue: str) -> None:
    placement = bus.server.namespace.queue(queue).record.placement
    assert len(placement) == FRAGMENTS
    assert set(Counter(placement).values()) == {FRAGMENTS // STORES}


def test_t01_conventional_queue_is_in_one_store(bus: Bus) -> None:
    bus.create_queue("conventional")
    assert len(bus.server.namespace.queue("conventional").record.placement) == 1


def test_t15_sequence_numbers_tell_the_fragment(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(2 * FRAGMENTS):
            sender.send_messages(ServiceBusMessage(str(number)))
    found = drained(client, queue)
    assert Counter(map(fragment_of, found)) == dict.fromkeys(range(FRAGMENTS), 2)
    own_numbers = Counter(
        message.sequence_number & ((1 << 48) - 1)  # type: ignore[operator]
        for message in found
    )
    assert own_numbers == {1: FRAGMENTS, 2: FRAGMENTS}


def test_t15_numbers_of_a_conventional_queue_have_no_fragment(
    bus: Bus, client: ServiceBusClient
) -> None:
    bus.create_queue("plain-numbers")
    with client.get_queue_sender("plain-numbers") as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    found = drained(client, "plain-numbers")
    assert [message.sequence_number for message in found] == [1, 2]


def test_t01_messages_survive_a_restart_in_all_stores() -> None:
    with Bus(stores=3) as bus:
        bus.create_queue("orders", enable_partitioning=True)
        sent = {str(number) for number in range(40)}
        with (
            ServiceBusClient.from_connection_string(bus.connection_string) as client,
            client.get_queue_sender("orders") as sender,
        ):
            for body in sorted(sent):
                sender.send_messages(ServiceBusMessage(body))
        bus.restart()
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            assert {str(one) for one in drained(client, "orders")} == sent
