"""A batch of messages with twinbus ids, whose messages are in several fragments."""

import pytest

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.outcomes import Accepted, Rejected
from twinbus.amqp.types import Symbol
from twinbus.encoding.batch import BATCH_FORMAT
from twinbus.errors import InternalError
from twinbus.fragments.hashing import fragment_index

from .test_send_link import batch
from .world import PartitionedWorld


@pytest.fixture
def world() -> PartitionedWorld:
    return PartitionedWorld(3)


def message(
    number: int, *, key: str | None = None, sent: bool = True, restored: bool = False
) -> bytes:
    """A message with the ids of that number."""
    annotations: dict[object, object] = {}
    if sent:
        annotations[Symbol("x-opt-twinbus-send-id")] = number.to_bytes(16, "big")
    if restored:
        origin = f"{number}@1700000000000@site-b/transfer/0"
        annotations[Symbol("x-opt-twinbus-restored-from")] = origin
    if key is not None:
        annotations[Symbol("x-opt-partition-key")] = key
    return encode_message(Message(message_annotations=annotations, body=Data((b"hi",))))


def send(world: PartitionedWorld, link: Link, *messages: bytes) -> None:
    link.send(batch(*messages), b"tag", False, message_format=BATCH_FORMAT)
    world.pump()


def verdict(world: PartitionedWorld) -> object:
    [(_, _, state)] = world.verdicts()
    return state


def test_batch_goes_to_the_fragments_of_its_send_ids(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    send(world, link, *map(message, range(30)))
    world.commit()
    assert verdict(world) == Accepted()
    counts = world.counts()
    assert sum(counts) == 30 and min(counts) > 0
    # Other batches of the same messages: all of them are known.
    send(world, link, *map(message, range(0, 30, 2)))
    send(world, link, *map(message, range(1, 30, 2)))
    world.commit()
    assert world.counts() == counts


def test_restored_messages_are_found_in_other_company(world: PartitionedWorld) -> None:
    """The first attempt was a batch of the sender's, the second one is the syphon's."""
    link, _ = world.sender()
    send(world, link, *map(message, range(10)))
    world.commit()
    send(world, link, *(message(n, restored=True) for n in range(5, 15)))
    world.commit()
    assert sum(world.counts()) == 15


def test_batch_is_accepted_when_all_its_fragments_are_durable(
    world: PartitionedWorld,
) -> None:
    link, _ = world.sender()
    send(world, link, *map(message, range(30)))
    for home in world.homes[1:]:
        home.commit()
    assert world.verdicts() == []
    world.homes[0].commit()
    assert verdict(world) == Accepted()


def test_batch_fails_with_one_of_its_fragments(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    send(world, link, *map(message, range(30)))
    world.homes[1].apply_admissions()
    world.homes[1].fail(InternalError())
    assert world.verdicts() == []
    world.homes[0].commit()
    world.homes[2].commit()
    assert isinstance(verdict(world), Rejected)


def test_restored_messages_of_a_batch_may_have_different_keys(
    world: PartitionedWorld,
) -> None:
    link, _ = world.sender()
    keys = [f"key {number % 7}" for number in range(21)]
    found = [message(n, key=key, restored=True) for n, key in enumerate(keys)]
    send(world, link, *found)
    world.commit()
    assert verdict(world) == Accepted()
    expected = [fragment_index(key, 3) for key in keys]
    assert world.counts() == [expected.count(index) for index in range(3)]


def test_different_keys_of_one_sender_are_refused(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    keyed = batch(message(1, key="one"), message(2, key="two"))
    link.send(keyed, b"tag", False, message_format=BATCH_FORMAT)
    assert isinstance(verdict(world), Rejected)
    assert world.counts() == [0, 0, 0]


def test_batch_with_messages_without_ids_stays_whole(world: PartitionedWorld) -> None:
    """It could not be sent again without storing those twice."""
    link, _ = world.sender()
    send(world, link, *map(message, range(10)), message(10, sent=False))
    world.commit()
    assert verdict(world) == Accepted()
    assert sorted(world.counts()) == [0, 0, 11]
