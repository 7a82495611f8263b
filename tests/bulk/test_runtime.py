"""Runtime information: first and next sequence number, number of messages."""

from datetime import timedelta

import pytest

from twinbus import limits
from twinbus.testing import Bus

from .caller import Caller
from .sdk import Sdk, receive


def test_an_empty_queue(bus: Bus, call: Caller, queue: str) -> None:
    runtime = call.runtime(queue)
    assert runtime["path"] == queue
    assert runtime["created_at"] == bus.clock.now()
    assert runtime["requires_session"] is False
    assert runtime["fragments"] == [
        {
            **{"index": 0, "first": None, "first_enqueued_at": None, "next": 1},
            **{"last_enqueued_at": None, "active_count": 0, "deferred_count": 0},
            **{"scheduled_count": 0, "size_bytes": 0, "lease": None},
        }
    ]


def test_bounds_follow_the_messages(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    began_at = bus.clock.now()
    sdk.send(queue, "a", "b")
    bus.advance(5)
    sdk.send(queue, "c")
    receiver = sdk.receiver(queue)
    first, second = receive(receiver, 2)
    receiver.complete_message(first)
    receiver.defer_message(second)
    sdk.schedule(queue, "later", bus.now() + timedelta(minutes=5))
    found = call.fragment(queue)
    # The one on the schedule has its number, and will get another one.
    assert (found["first"], found["next"]) == (3, 5)
    assert found["first_enqueued_at"] == began_at + 5_000
    assert found["last_enqueued_at"] >= began_at + 5_000
    counts = [found[f"{state}_count"] for state in ("active", "deferred", "scheduled")]
    assert counts == [1, 1, 1]
    assert found["size_bytes"] > 0


def test_a_generation_is_of_one_life(bus: Bus, call: Caller, queue: str) -> None:
    before = call.generation(queue)
    assert call.generation(queue) == before
    bus.restart()
    call.close()
    assert call.generation(queue) == before
    bus.delete_queue(queue)
    bus.create_queue(queue)
    assert call.generation(queue) != before


def test_what_is_missing_is_named(bus: Bus, call: Caller, queue: str) -> None:
    bus.create_topic("news")
    answer = call.post(
        "runtime", entities=["gone", queue, "news", "/Orders/", "orders/$management"]
    )
    assert [entity["path"] for entity in answer["entities"]] == [queue, queue]
    assert answer["missing"] == ["gone", "news", "orders/$management"]


def test_sub_queues_and_subscriptions(bus: Bus, call: Caller, sdk: Sdk) -> None:
    bus.create_topic("news")
    bus.create_subscription("news", "all", requires_session=True)
    path = "news/Subscriptions/all"
    assert call.runtime(path.upper())["requires_session"] is True
    for suffix in ("$DeadLetterQueue", "$Transfer/$DeadLetterQueue"):
        runtime = call.runtime(f"{path}/{suffix}")
        assert runtime["path"] == f"{path}/{suffix}"
        assert runtime["generation"] == call.generation(path)


def test_a_pattern_selects_entities(bus: Bus, call: Caller) -> None:
    for name in ("in-1", "in-2", "out-1", "x/in-1"):
        bus.create_queue(name)
    bus.create_topic("in-topic")
    bus.create_subscription("in-topic", "all")
    bus.create_queue("in-forward", forward_to="out-1")

    def found(pattern: str, *entities: str) -> list[str]:
        answer = call.post("runtime", pattern=pattern, entities=list(entities))
        assert answer["missing"] == []
        return [entity["path"] for entity in answer["entities"]]

    # What forwards keeps nothing to read.
    assert found("in-*") == ["in-1", "in-2", "in-topic/Subscriptions/all"]
    assert found("IN-?") == ["in-1", "in-2"]
    assert found("*/subscriptions/*") == ["in-topic/Subscriptions/all"]
    assert found("in-?/$DeadLetterQueue") == [
        "in-1/$DeadLetterQueue",
        "in-2/$DeadLetterQueue",
    ]
    assert found("in-?", "IN-1") == ["in-1", "in-2"]
    assert found("nothing*") == []
    assert found("*" * 50 + "x") == []


def test_a_pattern_may_fit_more_than_can_be_named(bus: Bus, call: Caller) -> None:
    paths = [f"many-{number:04}" for number in range(limits.BULK_ENTITIES + 1)]
    for path in paths:
        bus.create_queue(path)
    found = call.post("runtime", pattern="many-*")["entities"]
    assert [entity["path"] for entity in found] == paths


def test_a_lease_is_told(call: Caller, bus: Bus, queue: str) -> None:
    [epoch] = call.lease(queue, duration_ms=60_000)
    bus.advance(20)
    expected = {"reader": "reader-1", "epoch": epoch, "expires_in_ms": 40_000}
    assert call.fragment(queue)["lease"] == expected
    bus.advance(41)
    assert call.fragment(queue)["lease"] is None


@pytest.mark.parametrize("content", [{}, {"entities": []}, {"pattern": "none"}])
def test_nothing_asked_nothing_told(call: Caller, content: dict[str, str]) -> None:
    assert call.post("runtime", **content) == {"entities": [], "missing": []}
