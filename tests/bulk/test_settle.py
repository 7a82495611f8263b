"""Settling: only planned messages are removed, and repeating it has no effect."""

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from wire.codec import Int, Timestamp
from wire.management import Management
from wire.peer import Peer

from twinbus.testing import Bus

from .caller import READER, Caller
from .sdk import Sdk, receive, texts_of

DEAD = ServiceBusSubQueue.DEAD_LETTER
# What only the disk knows expires when it is swept, once a minute.
SWEEPS_SECONDS = 130


def planned_queue(call: Caller, sdk: Sdk, queue: str, *texts: str) -> str:
    """A queue with messages from 1 on, all of them planned; gives the epoch."""
    sdk.send(queue, *texts)
    [epoch] = call.lease(queue)
    assert call.plan(queue, epoch=epoch)["messages"] == len(texts)
    return epoch


# --- by range -----------------------------------------------------------------


def test_all_before_an_end_is_completed(call: Caller, sdk: Sdk, queue: str) -> None:
    epoch = planned_queue(call, sdk, queue, *"abcde")
    assert call.settle(queue, epoch, to=4) == {
        **{"path": queue, "completed": 3, "deferred": 0, "dead_lettered": 0},
    }
    assert sdk.texts(queue) == ["d", "e"]
    assert call.settle(queue, epoch, to=4)["completed"] == 0
    assert call.settle(queue, epoch, to=6)["completed"] == 2
    assert call.fragment(queue)["active_count"] == 0


def test_what_was_not_planned_stays(call: Caller, sdk: Sdk, queue: str) -> None:
    epoch = planned_queue(call, sdk, queue, *"abc")
    sdk.send(queue, "d")
    assert call.settle(queue, epoch, to=1_000)["completed"] == 3
    assert sdk.texts(queue) == ["d"]


def test_what_lies_before_the_plan_stays(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abc")
    [epoch] = call.lease(queue)
    call.plan(queue, epoch=epoch, first=3)
    assert call.settle(queue, epoch, to=4)["completed"] == 1
    assert sdk.texts(queue) == ["a", "b"]


def test_without_a_plan_nothing_is_settled(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abc")
    [epoch] = call.lease(queue)
    # Told, and not noted: it has no epoch.
    assert call.plan(queue)["messages"] == 3
    assert call.settle(queue, epoch, to=4)["completed"] == 0
    assert sdk.texts(queue) == ["a", "b", "c"]


def test_deferred_and_scheduled_messages_stay(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.schedule(queue, "later", bus.now() + timedelta(minutes=30))
    sdk.send(queue, "deferred", "active")
    receiver = sdk.receiver(queue)
    first, _ = receive(receiver, 2)
    receiver.defer_message(first)
    [epoch] = call.lease(queue)
    planned = call.plan(queue, epoch=epoch)
    assert planned["messages"] == 1
    assert call.settle(queue, epoch, to=planned["to"])["completed"] == 1
    assert sorted(sdk.texts(queue)) == ["deferred", "later"]


def test_more_than_one_portion(call: Caller, sdk: Sdk, queue: str) -> None:
    epoch = planned_queue(call, sdk, queue, *(str(n) for n in range(1_234)))
    assert call.settle(queue, epoch, to=1_235)["completed"] == 1_234
    assert call.fragment(queue)["active_count"] == 0
    assert call.fragment(queue)["size_bytes"] == 0


def test_copies_of_other_subscriptions_stay(bus: Bus, call: Caller, sdk: Sdk) -> None:
    """Their bytes are shared."""
    bus.create_topic("news")
    paths = []
    for name in ("one", "two"):
        bus.create_subscription("news", name)
        paths.append(f"news/Subscriptions/{name}")
    sdk.send("news", *(text * 3_000 for text in "abc"))
    for path in paths:
        assert len(sdk.texts(path)) == 3
        [epoch] = call.lease(path)
        planned = call.plan(path, epoch=epoch)
        assert (planned["messages"], planned["bytes"] > 9_000) == (3, True)
        assert call.settle(path, epoch, to=planned["to"])["completed"] == 3
        assert sdk.texts(path) == []
    bus.restart()
    call.close()
    assert [call.fragment(path)["active_count"] for path in paths] == [0, 0]


def test_dead_letters_and_sessions(bus: Bus, call: Caller, sdk: Sdk) -> None:
    bus.create_queue("sessions", requires_session=True)
    sdk.send(
        "sessions",
        *(ServiceBusMessage(text, session_id=text) for text in ("s", "t", "u")),
    )
    [epoch] = call.lease("sessions")
    call.plan("sessions", epoch=epoch)
    poison = [{"sequence_number": 2, "reason": "bad"}]
    settled = call.settle("sessions", epoch, dead_letter=poison, to=4)
    assert (settled["completed"], settled["dead_lettered"]) == (2, 1)
    dead = "sessions/$DeadLetterQueue"
    [epoch] = call.lease(dead)
    planned = call.plan(dead, epoch=epoch)
    assert call.bodies(dead) == ["t"]
    assert call.settle(dead, epoch, to=planned["to"])["completed"] == 1
    assert call.fragment(dead)["active_count"] == 0


# --- one by one ---------------------------------------------------------------


def test_poison_goes_to_the_dead_letters(call: Caller, sdk: Sdk, queue: str) -> None:
    epoch = planned_queue(call, sdk, queue, *"abc")
    poison = {"sequence_number": 2, "reason": "Bad\nLine", "description": "über"}
    for count in (1, 0):
        settled = call.settle(queue, epoch, dead_letter=[poison])
        assert settled["dead_lettered"] == count
    [dead] = sdk.peek(queue, sub_queue=DEAD)
    assert (str(dead), dead.dead_letter_reason) == ("b", "Bad\nLine")
    assert dead.dead_letter_error_description == "über"
    assert call.settle(queue, epoch, to=4)["completed"] == 2


def test_a_deferred_message_waits_and_is_completed(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, *"abc")
    assert call.settle(queue, epoch, defer=[1, 3], to=4) == {
        **{"path": queue, "completed": 1, "deferred": 2, "dead_lettered": 0},
    }
    rows = call.rows(queue, columns=["body", "state"], states=["deferred"])
    assert [(row["body"], row["state"]) for row in rows] == [
        (b"a", "deferred"),
        (b"c", "deferred"),
    ]
    assert call.settle(queue, epoch, complete=[1])["completed"] == 1
    receiver = sdk.receiver(queue)
    [message] = receiver.receive_deferred_messages(3)
    # Somebody has it now.
    assert call.settle(queue, epoch, complete=[3])["completed"] == 0
    receiver.complete_message(message)
    assert sdk.texts(queue) == []


def test_a_deferred_message_may_turn_out_to_be_poison(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, "a")
    call.settle(queue, epoch, defer=[1])
    poison = [{"sequence_number": 1, "reason": "bad"}]
    assert call.settle(queue, epoch, dead_letter=poison)["dead_lettered"] == 1
    assert sdk.texts(queue, sub_queue=DEAD) == ["a"]


@pytest.mark.parametrize(
    "sub_queue", ["$DeadLetterQueue", "$Transfer/$DeadLetterQueue"]
)
def test_a_dead_letter_is_not_dead_lettered_again(
    call: Caller, queue: str, sub_queue: str
) -> None:
    """It would come back as the last of its own queue, and its reader with it."""
    path = f"{queue}/{sub_queue}"
    [epoch] = call.lease(path)
    poison = [{"sequence_number": 1, "reason": "worse"}]
    entity = {"path": path, "epoch": epoch, "dead_letter": poison, "defer": [1]}
    answer = call.ask("settle", {"reader": READER, "entities": [entity]})
    assert answer.refusal == (400, "amqp:not-allowed")
    assert answer.error["entity"] == path
    assert f"'{path}' is a dead-letter queue" in answer.error["message"]
    assert "Complete or defer them." in answer.error["message"]


def test_a_refused_dead_letter_stays_where_it_is(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, "a")
    poison = [{"sequence_number": 1, "reason": "bad"}]
    call.settle(queue, epoch, dead_letter=poison)
    dead = f"{queue}/$DeadLetterQueue"
    [epoch] = call.lease(dead)
    entity = {"path": dead, "epoch": epoch, "dead_letter": poison, "defer": [1]}
    call.ask("settle", {"reader": READER, "entities": [entity]})
    [row] = call.rows(dead, states=["active", "deferred"])
    assert (row["sequence_number"], row["state"]) == (1, "active")
    assert row["dead_letter_reason"] == "bad"


def test_numbers_that_are_not_there_are_no_matter(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    """An earlier attempt may have settled them."""
    epoch = planned_queue(call, sdk, queue, "a")
    poison = [{"sequence_number": 98, "reason": "bad"}]
    settled = call.settle(
        queue, epoch, defer=[99], complete=[97, 1], dead_letter=poison
    )
    assert settled == {
        **{"path": queue, "completed": 0, "deferred": 0, "dead_lettered": 0},
    }
    assert sdk.texts(queue) == ["a"]


# --- who may ------------------------------------------------------------------


@pytest.mark.parametrize(
    "what", [{"to": 4}, {"defer": [1]}, {"complete": [1]}, {"dead_letter": "1"}]
)
def test_a_stale_epoch_settles_nothing(
    call: Caller, sdk: Sdk, queue: str, what: dict[str, Any]
) -> None:
    old = planned_queue(call, sdk, queue, *"abc")
    call.lease(queue)
    if "dead_letter" in what:
        what = {"dead_letter": [{"sequence_number": 1, "reason": "bad"}]}
    if "to" in what:
        what = {"to": {"0": 4}}
    for epoch in (old, "3", "x"):
        content = {
            "reader": READER,
            "entities": [{"path": queue, "epoch": epoch, **what}],
        }
        answer = call.ask("settle", content)
        assert answer.refusal == (410, "twinbus:reader-lease-lost")
        assert answer.error["entity"] == queue
    assert sdk.texts(queue) == ["a", "b", "c"]


def test_another_reader_settles_nothing(call: Caller, sdk: Sdk, queue: str) -> None:
    epoch = planned_queue(call, sdk, queue, "a")
    entity = {"path": queue, "epoch": epoch, "to": {"0": 2}}
    answer = call.ask("settle", {"reader": "reader-2", "entities": [entity]})
    assert answer.status == 410
    assert sdk.texts(queue) == ["a"]


def test_a_lease_that_ended_settles_nothing(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, "a")
    bus.advance(61)
    entity = {"path": queue, "epoch": epoch, "to": {"0": 2}}
    answer = call.ask("settle", {"reader": READER, "entities": [entity]})
    assert answer.status == 410
    assert texts_of(receive(sdk.receiver(queue), 1)) == ["a"]


def test_who_comes_back_finds_its_plan(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    """A reader that was killed settles what its log names, under a new epoch."""
    planned_queue(call, sdk, queue, *"abc")
    sdk.send(queue, "d")
    [epoch] = call.lease(queue)
    assert call.settle(queue, epoch, to=1_000)["completed"] == 3
    assert sdk.texts(queue) == ["d"]


def test_who_takes_over_finds_no_plan(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    planned_queue(call, sdk, queue, *"abc")
    bus.advance(61)
    [epoch] = call.lease(queue, reader="reader-2")
    settled = call.settle(queue, epoch, reader="reader-2", to=4)
    assert settled["completed"] == 0
    assert sdk.texts(queue) == ["a", "b", "c"]


def test_a_queue_made_again_is_not_settled(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, "a")
    bus.delete_queue(queue)
    bus.create_queue(queue)
    sdk.send(queue, "new")
    entity = {"path": queue, "epoch": epoch, "to": {"0": 2}}
    answer = call.ask("settle", {"reader": READER, "entities": [entity]})
    assert answer.status == 410
    assert sdk.texts(queue) == ["new"]


def test_several_entities_at_once(bus: Bus, call: Caller, sdk: Sdk) -> None:
    paths = ["one", "two"]
    entities = []
    for path in paths:
        bus.create_queue(path)
        epoch = planned_queue(call, sdk, path, "a")
        entities.append({"path": path, "epoch": epoch, "to": {"0": 2}})
    settled = call.post("settle", reader=READER, entities=entities)["entities"]
    assert [(part["path"], part["completed"]) for part in settled] == [
        ("one", 1),
        ("two", 1),
    ]


# --- what a plan keeps --------------------------------------------------------


def test_what_was_planned_does_not_expire(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    mortal = timedelta(seconds=10)
    sdk.send(queue, *(ServiceBusMessage(t, time_to_live=mortal) for t in "ab"))
    [epoch] = call.lease(queue, duration_ms=600_000)
    call.plan(queue, epoch=epoch)
    sdk.send(queue, ServiceBusMessage("c", time_to_live=mortal))
    bus.advance(SWEEPS_SECONDS)
    assert call.bodies(queue) == ["a", "b"]
    assert call.fragment(queue)["active_count"] == 2
    assert call.settle(queue, epoch, to=3)["completed"] == 2


def test_it_expires_when_the_lease_has_ended(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    bus.update_queue(queue, dead_lettering_on_message_expiration=True)
    sdk.send(queue, ServiceBusMessage("a", time_to_live=timedelta(seconds=10)))
    [epoch] = call.lease(queue)
    call.plan(queue, epoch=epoch)
    bus.advance(20)
    assert call.bodies(queue) == ["a"]
    # The lease ends after 40 seconds, and the next sweep is at most 60 away.
    bus.advance(101)
    assert call.fragment(queue)["active_count"] == 0
    assert sdk.texts(queue, sub_queue=DEAD) == ["a"]


def test_a_plan_that_failed_keeps_nothing(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    """Of two entities one is gone: of the other only what was planned before."""
    bus.create_queue("gone")
    mortal = timedelta(seconds=10)
    sdk.send(queue, ServiceBusMessage("a", time_to_live=mortal))
    epoch, lost = call.lease(queue, "gone", duration_ms=600_000)
    call.plan(queue, epoch=epoch)
    sdk.send(queue, ServiceBusMessage("b", time_to_live=mortal))
    call.lease("gone")
    entities = [
        {"path": path, "generation": call.generation(path), "epoch": shown}
        for path, shown in ((queue, epoch), ("gone", lost))
    ]
    answer = call.ask("plan", {"reader": READER, "entities": entities})
    assert answer.refusal == (410, "twinbus:reader-lease-lost")
    bus.advance(SWEEPS_SECONDS)
    assert call.bodies(queue) == ["a"]


def test_batch_deletion_leaves_what_was_planned(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, *"abc")
    sdk.send(queue, "d")
    with Peer(bus.port) as peer:
        assert peer.sasl_plain(bus.key_name, bus.key) == 0
        peer.start()
        body = {
            "message-count": Int(100),
            "enqueued-time-utc": Timestamp(bus.clock.now() + 60_000),
        }
        answer = Management(peer, queue).call("batch-delete-messages", body)
    assert (answer.status, int(answer.body["message-count"])) == (200, 1)
    assert sdk.texts(queue) == ["a", "b", "c"]
    assert call.settle(queue, epoch, to=4)["completed"] == 3


def test_a_plan_outlives_a_restart(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    epoch = planned_queue(call, sdk, queue, *"abc")
    sdk.send(queue, "d")
    bus.restart()
    call.close()
    assert call.settle(queue, epoch, to=1_000)["completed"] == 3
    assert call.bodies(queue) == ["d"]
