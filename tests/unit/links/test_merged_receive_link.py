"""Receiving from all fragments of a queue on one link with one pool of credit."""

from collections import Counter

import pytest
from unit.amqp.endpoints import of_type

from twinbus.amqp.events import LinkFlow, MessageReceived
from twinbus.amqp.outcomes import ACCEPTED, Accepted
from twinbus.broker.message_lock import token_fragment
from twinbus.errors import MessagingEntityNotFound

from .world import PartitionedWorld


@pytest.fixture
def world() -> PartitionedWorld:
    return PartitionedWorld(3)


def fragments_of(deliveries: list[MessageReceived]) -> list[int]:
    return [token_fragment(bytes(one.delivery_tag)) for one in deliveries]


def test_messages_of_all_fragments_arrive_on_one_link(world: PartitionedWorld) -> None:
    for home in world.homes:
        home.enqueue(2)
    link, _ = world.merged()
    link.issue_credit(10)
    found = fragments_of(world.deliveries())
    assert Counter(found) == {0: 2, 1: 2, 2: 2}


def test_credit_is_one_pool(world: PartitionedWorld) -> None:
    for home in world.homes:
        home.enqueue(5)
    link, _ = world.merged()
    link.issue_credit(4)
    assert len(world.deliveries()) == 4
    locked = [len(home.fragment.locks) for home in world.homes]
    assert sum(locked) == 4, "no fragment holds messages for the link"


def test_each_credit_begins_with_another_fragment(world: PartitionedWorld) -> None:
    for home in world.homes:
        home.enqueue(5)
    link, _ = world.merged()
    found = []
    for _ in range(6):
        link.issue_credit(1)
        found += fragments_of(world.deliveries())
    assert found == [0, 1, 2, 0, 1, 2]


def test_waiting_link_gets_a_message_from_any_fragment(world: PartitionedWorld) -> None:
    link, _ = world.merged()
    link.issue_credit(2)
    world.pump()
    world.homes[2].enqueue()
    assert fragments_of(world.deliveries()) == [2]
    world.homes[1].enqueue()
    assert fragments_of(world.deliveries()) == [1]
    world.homes[0].enqueue()
    assert world.deliveries() == [], "there is no more credit"


def test_drain_is_answered_when_all_fragments_are_empty(
    world: PartitionedWorld,
) -> None:
    world.homes[1].enqueue(2)
    link, _ = world.merged()
    link.issue_credit(5, drain=True)
    seen = world.pump()
    assert len(of_type(seen, MessageReceived)) == 2
    [flow] = of_type(seen, LinkFlow)
    assert flow.link.credit == 0


def test_drain_does_not_wait_for_a_fragment_that_is_away(
    world: PartitionedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = world.homes[1]
    away.is_serving = False
    monkeypatch.setattr(away, "deliver", lambda: None)
    link, _ = world.merged()
    link.issue_credit(5, drain=True)
    assert len(of_type(world.pump(), LinkFlow)) == 1


def test_settlements_wake_every_store_that_they_concern(
    world: PartitionedWorld,
) -> None:
    for home in world.homes:
        home.enqueue()
    link, _ = world.merged()
    link.issue_credit(3)
    assert len(world.deliveries()) == 3
    before = [home.wake_count for home in world.homes]
    world.session.send_disposition(True, 0, 2, False, ACCEPTED)
    world.pump()
    woken = [home.wake_count - was for home, was in zip(world.homes, before, strict=1)]
    assert woken == [1, 1, 1]
    world.commit()
    verdicts = world.verdicts()
    assert sorted(number for first, _, _ in verdicts for number in [first]) == [0, 1, 2]
    assert {str(state) for _, _, state in verdicts} == {str(Accepted())}
    assert world.counts() == [0, 0, 0]


def test_what_was_removed_for_credit_taken_back_is_not_lost(
    world: PartitionedWorld,
) -> None:
    for home in world.homes:
        home.enqueue(3)
    link, _ = world.merged(peek_lock=False)
    link.issue_credit(4)
    world.pump()
    link.issue_credit(0)
    world.pump()
    world.commit()
    assert (world.deliveries(), sum(world.counts())) == ([], 5)
    link.issue_credit(3)
    assert len(world.deliveries()) == 3
    link.issue_credit(3)
    assert len(world.deliveries()) == 1, "the last one that was owed"
    world.commit()
    assert (len(world.deliveries()), sum(world.counts())) == (2, 3)


def test_receive_and_delete_promises_no_more_than_the_credit(
    world: PartitionedWorld,
) -> None:
    for home in world.homes:
        home.enqueue(3)
    link, _ = world.merged(peek_lock=False)
    link.issue_credit(4)
    world.pump()
    world.commit()
    assert len(world.deliveries()) == 4
    assert sum(world.counts()) == 5, "no message was removed and not delivered"


def test_deleted_entity_detaches_the_link_from_all_fragments(
    world: PartitionedWorld,
) -> None:
    link, made = world.merged()
    link.issue_credit(5)
    world.pump()
    made.detach(MessagingEntityNotFound(entity_path="orders"))
    world.pump()
    for home in world.homes:
        assert not home.dispatch.has_receivers()
