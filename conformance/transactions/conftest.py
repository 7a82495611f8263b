"""Fixtures: a bus with a clock to move, queues, clients, and a witness."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from azure.servicebus import ServiceBusClient

pytest.importorskip("proton")

from twinbus.testing import Bus

from .client import TransactionClient

_numbers = itertools.count(1)


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus() as running:
        yield running


@pytest.fixture
def make_queue(bus: Bus) -> Callable[[], str]:
    """Creates a queue with a lock of five minutes; gives its name."""

    def make() -> str:
        name = f"queue-{next(_numbers)}"
        bus.create_queue(name, lock_duration="PT5M")
        return name

    return make


@pytest.fixture
def queue(make_queue: Callable[[], str]) -> str:
    return make_queue()


@pytest.fixture
def other_queue(make_queue: Callable[[], str]) -> str:
    return make_queue()


@pytest.fixture
def dial(bus: Bus) -> Iterator[Callable[[], TransactionClient]]:
    """Opens clients, and closes those that the test did not close."""
    opened: list[TransactionClient] = []

    def make() -> TransactionClient:
        opened.append(TransactionClient(bus))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def client(dial: Callable[[], TransactionClient]) -> TransactionClient:
    return dial()


@pytest.fixture
def visible(bus: Bus) -> Iterator[Callable[[str], list[str]]]:
    """The bodies that the SDK peeks in a queue, in order, locked ones too.

    Proton sends them as AMQP strings, which the SDK hands over as their bytes.
    """
    with ServiceBusClient.from_connection_string(bus.connection_string) as sdk:

        def peek(queue: str) -> list[str]:
            with sdk.get_queue_receiver(queue) as receiver:
                peeked = receiver.peek_messages(max_message_count=250)
                return [message.body.decode() for message in peeked]

        yield peek
