"""T12: peek may return fewer than asked for; all are reached by repeating."""

from collections.abc import Callable

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from .conftest import FRAGMENTS, fragment_of


def test_t12_all_messages_are_reached_by_repeating(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(50):
            sender.send_messages(
                ServiceBusMessage(str(number), partition_key=str(number))
            )
    with client.get_queue_receiver(queue) as receiver:
        for page_size in (1, 7, 100):
            found, start = [], 1
            while page := receiver.peek_messages(page_size, sequence_number=start):
                found += page
                start = (page[-1].sequence_number or 0) + 1
            assert {str(one) for one in found} == {str(n) for n in range(50)}
            numbers = [one.sequence_number or 0 for one in found]
            assert numbers == sorted(numbers)
            assert len({fragment_of(one) for one in found}) > FRAGMENTS // 2


def test_t12_page_holds_a_quarter_of_a_megabyte(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(8):
            sender.send_messages(
                ServiceBusMessage("x" * 100_000, partition_key=str(number))
            )
    with client.get_queue_receiver(queue) as receiver:
        page = receiver.peek_messages(8, sequence_number=1)
        assert 1 <= len(page) < 8
        found, start = list(page), (page[-1].sequence_number or 0) + 1
        while page := receiver.peek_messages(8, sequence_number=start):
            found += page
            start = (page[-1].sequence_number or 0) + 1
    assert len({one.sequence_number for one in found}) == 8


def test_t13_session_is_peeked_in_its_fragment(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    with client.get_queue_sender(queue) as sender:
        for number in range(24):
            sender.send_messages(
                ServiceBusMessage(str(number), session_id=str(number % 8))
            )
    for session_id in range(8):
        with client.get_queue_receiver(queue, session_id=str(session_id)) as receiver:
            found = receiver.peek_messages(10)
            expected = [str(session_id + more) for more in (0, 8, 16)]
            assert [str(one) for one in found] == expected
