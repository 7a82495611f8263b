"""Sending to a partitioned entity whose stores fail."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import Fault
from unit.outbox.world import World

from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.errors import StoreRefused
from twinbus.operations.sending import send
from twinbus.store.base import CommitFailed

from .callers import opened

KEY = "a session id, which is a key without sessions, too"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    await world.namespace.create_queue("all", {"enable_partitioning": True})
    yield world
    await world.stop()


def encoded(session_id: str | None) -> bytes:
    return encode_message(
        Message(properties=Properties(group_id=session_id), body=AmqpValue("x"))
    )


async def test_keyed_message_of_a_failed_commit_goes_to_no_other_fragment(
    world: World,
) -> None:
    routing = world.namespace.queue("all").routing()
    index = routing.index_of(KEY)
    home = world.namespace.queue("all").home(index)
    [owner] = [one for one in world.owners if one is home]
    world.store_of(owner).faults.append(Fault(CommitFailed("an error of the disk")))
    with pytest.raises(StoreRefused):
        await send(opened(world, "all"), [encoded(KEY)])
    assert world.namespace.queue("all").counts().active == 0
    # The next attempt is at the fragment of its key.
    [number] = await send(opened(world, "all"), [encoded(KEY)])
    assert number >> 48 == index
