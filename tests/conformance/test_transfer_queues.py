"""SB-P-02xx: backlog queues, created and used with the SDK."""

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from twinbus.limits import MESSAGE_BYTES, TRANSFER_HEADROOM_BYTES
from twinbus.testing import Bus

from .administration import AsyncAdministration, SyncAdministration
from .setups import own_size

FOR_EVER = timedelta(days=10_675_199)
LONGEST = "P10675199DT2H48M5.4775807S"
_FACES = {"sync": SyncAdministration, "async": AsyncAdministration}
_numbers = itertools.count()

BODY_BYTES = MESSAGE_BYTES - 200
"""With what the SDK writes around it, such a message is within the limit."""


@pytest.fixture(scope="module")
def bus(new_bus: Callable[..., Any]) -> Iterator[Bus]:
    with new_bus(tls=True) as running:
        yield running


@pytest.fixture(scope="module", params=["sync", "async"])
def administration(request: pytest.FixtureRequest, bus: Bus) -> Iterator[Any]:
    made = _FACES[request.param](bus)
    yield made
    made.close()


@pytest.fixture
def path() -> str:
    return f"primary-{next(_numbers)}/x-servicebus-transfer/0"


@pytest.fixture
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    text = bus.connection_string
    with ServiceBusClient.from_connection_string(text, retry_total=0) as made:
        yield made


@own_size
@pytest.mark.parametrize(
    "unlimited", [timedelta.max, LONGEST], ids=["timedelta", "text"]
)
def test_backlog_queue_is_made_as_it_should_be(
    administration: Any, path: str, unlimited: Any
) -> None:
    """SB-P-0201 with all of its settings, as they are written."""
    administration.create_queue(
        path,
        max_size_in_megabytes=5120,
        max_delivery_count=2_147_483_647,
        default_message_time_to_live=unlimited,
        auto_delete_on_idle=unlimited,
        lock_duration="PT1M",
        dead_lettering_on_message_expiration=True,
        enable_batched_operations=True,
    )
    found = administration.get_queue(path)
    assert found.name == path
    assert found.max_size_in_megabytes == 5120
    assert found.max_delivery_count == 2_147_483_647
    assert found.default_message_time_to_live >= FOR_EVER
    assert found.auto_delete_on_idle >= FOR_EVER
    assert found.lock_duration == timedelta(minutes=1)
    assert found.dead_lettering_on_message_expiration
    assert found.enable_batched_operations


def test_message_of_any_size_fits_with_what_the_detour_adds(
    administration: Any, client: ServiceBusClient, path: str
) -> None:
    """SB-P-0202 into the backlog, where it would not into another queue."""
    administration.create_queue(path)
    administration.create_queue(f"{path}/other")
    added = {"x-ms-path": "p" * 260, "x-ms-sessionid": "s" * 128}
    message = ServiceBusMessage(b"x" * BODY_BYTES, application_properties=added)
    with client.get_queue_sender(f"{path}/other") as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(message)
    with client.get_queue_sender(path) as sender:
        sender.send_messages(message)
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(
                ServiceBusMessage(b"x" * (MESSAGE_BYTES + TRANSFER_HEADROOM_BYTES))
            )
    with client.get_queue_receiver(path) as receiver:
        [found] = receiver.receive_messages(max_wait_time=20)
        assert b"".join(found.body) == b"x" * BODY_BYTES
        receiver.complete_message(found)


def test_batch_may_use_the_head_room(
    administration: Any, client: ServiceBusClient, path: str
) -> None:
    """SB-P-0203 the SDK makes batches as large as the link announces."""
    administration.create_queue(path)
    with client.get_queue_sender(path) as sender:
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == MESSAGE_BYTES + TRANSFER_HEADROOM_BYTES
        batch.add_message(ServiceBusMessage(b"x" * MESSAGE_BYTES))
        sender.send_messages(batch)


def test_restored_message_of_the_largest_size_is_taken(
    bus: Bus, client: ServiceBusClient, path: str
) -> None:
    """SB-P-0204 with the ids that whoever restores it adds."""
    queue = path.partition("/")[0]
    bus.create_queue(queue)
    message = ServiceBusMessage(b"x" * BODY_BYTES)
    message.raw_amqp_message.annotations = {
        "x-opt-twinbus-send-id": b"i" * 64,
        "x-opt-twinbus-restored-from": f"5@{queue}@{'s' * 500}",
    }
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(message)
        sender.send_messages(message)
    with client.get_queue_receiver(queue) as receiver:
        assert len(receiver.peek_messages(5)) == 1
