"""Sending to a partitioned queue: by key, in turns, and past a store that fails."""

from collections.abc import Callable

import pytest

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.outcomes import Accepted, Rejected
from twinbus.amqp.types import Symbol
from twinbus.errors import InternalError, StoreRefused
from twinbus.fragments.hashing import fragment_index

from .world import LocalHome, PartitionedWorld


@pytest.fixture
def world() -> PartitionedWorld:
    return PartitionedWorld(3)


def encoded(key: str | None = None, message_id: str | None = None) -> bytes:
    annotations = None if key is None else {Symbol("x-opt-partition-key"): key}
    return encode_message(
        Message(
            message_annotations=annotations,
            properties=Properties(message_id=message_id),
            body=Data((b"hi",)),
        )
    )


def send(link: Link, count: int = 1, key: str | None = None) -> None:
    for _ in range(count):
        link.send(encoded(key), b"tag", False)


def test_sends_without_a_key_share_a_commit_and_then_move_on(
    world: PartitionedWorld,
) -> None:
    link, _ = world.sender()
    send(link, 3)
    world.pump()
    assert world.counts() == [3, 0, 0]
    assert world.verdicts() == []
    world.commit()
    assert world.verdicts() == [(0, 2, Accepted())]
    send(link, 2)
    world.pump()
    assert world.counts() == [3, 2, 0]


def test_send_with_a_key_goes_to_its_fragment(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    index = fragment_index("k", 3)
    for _ in range(3):
        send(link, key="k")
        world.pump()
        world.commit()
    assert world.counts()[index] == 3 == sum(world.counts())


def test_each_store_answers_for_its_own_messages(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    index = fragment_index("k", 3)
    other = 0 if index else 1
    send(link, key="k")
    send(link)
    send(link, key="k")
    world.pump()
    world.homes[index].commit()
    done = {first for first, _, _ in world.verdicts()}
    assert {0, 2} <= done
    world.homes[other].commit()
    world.verdicts()
    assert sum(world.counts()) == 3


def test_what_a_store_did_not_take_goes_to_another(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    send(link, 2)
    world.pump()
    world.homes[0].fail(StoreRefused())
    assert world.counts() == [0, 2, 0]
    assert world.verdicts() == [], "the client notices nothing"
    world.homes[1].fail(StoreRefused())
    assert world.counts() == [0, 0, 2]
    world.commit()
    assert world.verdicts() == [(0, 1, Accepted())]


def test_send_fails_when_all_stores_have_refused(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    send(link)
    world.pump()
    for home in world.homes:
        home.fail(StoreRefused())
    [(first, last, state)] = world.verdicts()
    assert (first, last) == (0, 0)
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "com.microsoft:server-busy"
    assert world.counts() == [0, 0, 0]


def test_send_of_unknown_outcome_is_not_repeated(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    send(link)
    world.pump()
    world.homes[0].fail(InternalError())
    [(_, _, state)] = world.verdicts()
    assert isinstance(state, Rejected)
    assert world.counts() == [0, 0, 0]


def test_send_with_a_key_is_not_moved(world: PartitionedWorld) -> None:
    link, _ = world.sender()
    index = fragment_index("k", 3)
    send(link, key="k")
    world.pump()
    world.homes[index].fail(StoreRefused())
    [(_, _, state)] = world.verdicts()
    assert isinstance(state, Rejected)
    assert world.counts() == [0, 0, 0]


def test_full_store_is_passed_over(world: PartitionedWorld) -> None:
    world.homes[0].room_bytes = 0
    world.homes[1].refuses_until = 1 << 62
    link, _ = world.sender()
    send(link)
    world.pump()
    world.commit()
    assert world.counts() == [0, 0, 1]
    assert world.verdicts() == [(0, 0, Accepted())]


def throttled(home: LocalHome) -> None:
    home.refuses_until = 1 << 62


def over_quota(home: LocalHome) -> None:
    home.fragment._quota.used_bytes = home.fragment.settings.max_size_bytes


@pytest.mark.parametrize("refuse", [throttled, over_quota])
def test_store_that_is_committing_is_used_if_the_idle_ones_refuse(
    world: PartitionedWorld, refuse: Callable[[LocalHome], None]
) -> None:
    world.homes[0].is_committing = True
    for home in world.homes[1:]:
        refuse(home)
    link, _ = world.sender()
    send(link)
    world.pump()
    world.commit()
    assert world.counts() == [1, 0, 0]
    assert world.verdicts() == [(0, 0, Accepted())]


def test_send_is_refused_when_all_stores_are_full(world: PartitionedWorld) -> None:
    for home in world.homes:
        home.room_bytes = 0
    link, _ = world.sender()
    send(link)
    [(_, _, state)] = world.verdicts()
    assert isinstance(state, Rejected) and state.error is not None
    assert "store is full" in str(state.error.description)


def test_messages_with_one_key_keep_their_order_past_a_look_up() -> None:
    """The first needs a look-up, because it has a message id."""
    world = PartitionedWorld(3, duplicate_window_ms=60_000)
    link, _ = world.sender()
    index = fragment_index("k", 3)
    link.send(encoded("k", "first"), b"1", False)
    link.send(encoded("k"), b"2", False)
    world.pump()
    world.commit()
    assert world.counts()[index] == 2
    assert world.verdicts() == [(0, 1, Accepted())]


def test_duplicate_is_found_in_the_fragment_of_its_id() -> None:
    world = PartitionedWorld(3, duplicate_window_ms=60_000)
    link, _ = world.sender()
    for _ in range(3):
        link.send(encoded(message_id="same"), b"1", False)
        world.pump()
        world.commit()
    assert sum(world.counts()) == 1
