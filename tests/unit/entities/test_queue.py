"""A queue detaches links that its status or its deletion no longer allows."""

import pytest

from twinbus.entities.queue import Queue
from twinbus.errors import EntityDisabled, MessagingEntityNotFound, ServiceBusError

from .world import World


class FakeLink:
    def __init__(self) -> None:
        self.errors: list[ServiceBusError] = []

    def detach(self, error: ServiceBusError) -> None:
        self.errors.append(error)


@pytest.fixture
async def queue(world: World) -> Queue:
    return await world.namespace.create_queue("Orders", {})


@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        ("Active", True, True),
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ],
)
async def test_update_of_the_status_detaches_what_it_disables(
    world: World, queue: Queue, status: str, sends: bool, receives: bool
) -> None:
    sender, receiver = FakeLink(), FakeLink()
    queue.send_links().add(sender)
    queue.receive_links().add(receiver)
    await world.namespace.update_queue("orders", {"status": status})
    for link, stays, check in (
        (sender, sends, queue.check_may_send),
        (receiver, receives, queue.check_may_receive),
    ):
        assert [type(error) for error in link.errors] == [EntityDisabled] * (not stays)
        if stays:
            check()
        else:
            with pytest.raises(EntityDisabled, match=f"'Orders' has status {status}"):
                check()


async def test_deleted_queue_detaches_everybody(world: World, queue: Queue) -> None:
    links = [FakeLink(), FakeLink()]
    queue.send_links().add(links[0])
    queue.receive_links().add(links[1])
    await world.namespace.delete_queue("orders")
    for link in links:
        [error] = link.errors
        assert isinstance(error, MessagingEntityNotFound)
        assert "'Orders' could not be found" in error.text
