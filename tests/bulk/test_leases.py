"""Reader leases: granting, waiting, losing them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, SessionLockLostError

from twinbus.testing import Bus

from .caller import READER, Answer, Caller
from .sdk import (
    ARRIVAL_SECONDS,
    QUIET_SECONDS,
    Sdk,
    assert_nothing_comes,
    receive,
    texts_of,
)

MINUTE_MS = 60_000


def ask(call: Caller, path: str, reader: str, epoch: str | None = None) -> Answer:
    entity: dict[str, Any] = {"path": path}
    if epoch is not None:
        entity["epoch"] = epoch
    content = {"reader": reader, "duration_ms": MINUTE_MS, "entities": [entity]}
    return call.ask("lease", content)


def release(call: Caller, path: str, epoch: str, reader: str = READER) -> int:
    entities = [{"path": path, "epoch": epoch}]
    answer = call.post("lease", reader=reader, release=True, entities=entities)
    return int(answer["released"])


# --- who holds it -------------------------------------------------------------


def test_a_lease_is_granted_and_renewed(bus: Bus, call: Caller, queue: str) -> None:
    [granted] = ask(call, queue, READER).json["leases"]
    epoch = granted["epoch"]
    assert granted == {"path": queue, "epoch": epoch, "expires_in_ms": MINUTE_MS}
    bus.advance(50)
    assert call.fragment(queue)["lease"]["expires_in_ms"] == 10_000
    [renewed] = ask(call, queue, READER, epoch).json["leases"]
    assert renewed == granted
    assert call.fragment(queue)["lease"]["expires_in_ms"] == MINUTE_MS


def test_somebody_else_is_told_who_reads(bus: Bus, call: Caller, queue: str) -> None:
    call.lease(queue)
    bus.advance(20)
    answer = ask(call, queue, "reader-2")
    assert answer.refusal == (409, "twinbus:reader-lease-held")
    assert answer.error["entity"] == queue
    assert f"'{READER}'" in answer.error["message"]
    assert "40" in answer.error["message"]
    assert call.fragment(queue)["lease"]["reader"] == READER


def test_another_reader_follows_one_that_ended(
    bus: Bus, call: Caller, queue: str
) -> None:
    [first] = call.lease(queue)
    bus.advance(61)
    assert ask(call, queue, READER, first).refusal == (
        410,
        "twinbus:reader-lease-lost",
    )
    [second] = call.lease(queue, reader="reader-2")
    assert int(second) > int(first)


def test_the_same_reader_may_take_it_again(call: Caller, queue: str) -> None:
    """After a restart; its predecessor is fenced off."""
    [first], [second] = call.lease(queue), call.lease(queue)
    assert int(second) > int(first)
    assert ask(call, queue, READER, first).refusal[0] == 410
    assert ask(call, queue, READER, second).status == 200


@pytest.mark.parametrize("epoch", ["0", "2", "x", "-1", "1.0", "9" * 30, "\u0661"])
def test_an_epoch_that_is_not_the_last_one(
    call: Caller, queue: str, epoch: str
) -> None:
    [granted] = call.lease(queue)
    assert ask(call, queue, READER, epoch).refusal == (
        410,
        "twinbus:reader-lease-lost",
    )
    assert release(call, queue, epoch) == 0
    assert call.fragment(queue)["lease"]["epoch"] == granted


def test_all_of_them_or_none(bus: Bus, call: Caller, queue: str) -> None:
    bus.create_queue("taken")
    call.lease("taken", reader="reader-2")
    entities = [{"path": queue}, {"path": "taken"}]
    content = {"reader": READER, "duration_ms": MINUTE_MS, "entities": entities}
    assert call.ask("lease", content).status == 409
    assert call.fragment(queue)["lease"] is None
    content["entities"] = [{"path": queue}, {"path": "nothing"}]
    assert call.ask("lease", content).status == 404
    assert call.fragment(queue)["lease"] is None


def test_two_readers_of_two_queues(bus: Bus, call: Caller, queue: str) -> None:
    bus.create_queue("other")
    call.lease(queue)
    call.lease("other", reader="reader-2")
    assert call.fragment(queue)["lease"]["reader"] == READER
    assert call.fragment("other")["lease"]["reader"] == "reader-2"


def test_what_is_given_back_is_free(call: Caller, queue: str) -> None:
    [epoch] = call.lease(queue)
    assert release(call, queue, epoch, reader="reader-2") == 0
    assert release(call, queue, epoch) == 1
    assert release(call, queue, epoch) == 0
    assert call.lease(queue, reader="reader-2") != [epoch]


def test_what_is_gone_need_not_be_given_back(
    bus: Bus, call: Caller, queue: str
) -> None:
    [epoch] = call.lease(queue)
    bus.create_queue("other")
    [other] = call.lease("other")
    bus.delete_queue(queue)
    entities = [{"path": queue, "epoch": epoch}, {"path": "other", "epoch": other}]
    answer = call.post("lease", reader=READER, release=True, entities=entities)
    assert answer == {"released": 1}


def test_a_queue_made_again_is_nobodys(bus: Bus, call: Caller, queue: str) -> None:
    [epoch] = call.lease(queue)
    bus.delete_queue(queue)
    bus.create_queue(queue)
    assert ask(call, queue, READER, epoch).refusal == (
        410,
        "twinbus:reader-lease-lost",
    )
    assert ask(call, queue, "reader-2").status == 200


@pytest.mark.parametrize("status", ["Disabled", "ReceiveDisabled"])
def test_a_queue_that_gives_nothing_away(
    bus: Bus, call: Caller, queue: str, status: str
) -> None:
    bus.update_queue(queue, status=status)
    assert ask(call, queue, READER).refusal == (400, "entity-disabled")


def test_what_forwards_and_topics_are_not_leased(bus: Bus, call: Caller) -> None:
    bus.create_topic("news")
    bus.create_queue("target")
    bus.create_queue("source", forward_to="target")
    for path in ("news", "source"):
        assert ask(call, path, READER).refusal == (400, "amqp:not-allowed")


def test_a_lease_outlives_a_restart(bus: Bus, call: Caller, queue: str) -> None:
    """And has its whole time again: nobody could renew it."""
    [epoch] = call.lease(queue)
    bus.advance(50)
    bus.restart()
    call.close()
    lease = call.fragment(queue)["lease"]
    assert lease == {"reader": READER, "epoch": epoch, "expires_in_ms": MINUTE_MS}


# --- receivers ----------------------------------------------------------------


def test_receivers_get_nothing_until_it_ends(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    receiver = sdk.receiver(queue)
    call.lease(queue)
    sdk.send(queue, "a", "b")
    assert_nothing_comes(receiver)
    bus.advance(61)
    assert texts_of(receive(receiver, 2)) == ["a", "b"]


def test_receivers_go_on_when_it_is_given_back(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    [epoch] = call.lease(queue)
    sdk.send(queue, "a")
    receiver = sdk.receiver(queue)
    assert_nothing_comes(receiver)
    release(call, queue, epoch)
    [message] = receive(receiver, 1)
    assert message.delivery_count == 0
    receiver.complete_message(message)


def test_senders_and_peekers_notice_nothing(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, "a")
    call.lease(queue)
    sdk.send(queue, "b")
    assert sdk.texts(queue) == ["a", "b"]


def test_locks_are_revoked(bus: Bus, call: Caller, sdk: Sdk, queue: str) -> None:
    """Without a delivery more: the reader sees the message as it was."""
    sdk.send(queue, "a", "b")
    receiver = sdk.receiver(queue)
    first, second = receive(receiver, 2)
    [epoch] = call.lease(queue)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(first)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(second)
    rows = call.rows(queue, columns=["body", "delivery_count"])
    assert [row["delivery_count"] for row in rows] == [0, 0]
    planned = call.plan(queue, epoch=epoch)
    assert planned["messages"] == 2
    assert call.settle(queue, epoch, to=planned["to"])["completed"] == 2


def test_a_message_abandoned_too_late_stays_in_its_place(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.send(queue, "a", "b")
    receiver = sdk.receiver(queue)
    [first] = receive(receiver, 1)
    call.lease(queue)
    with pytest.raises(MessageLockLostError):
        receiver.abandon_message(first)
    assert call.bodies(queue) == ["a", "b"]


def test_sessions_are_revoked_too(bus: Bus, call: Caller, sdk: Sdk) -> None:
    bus.create_queue("sessions", requires_session=True)
    sdk.send("sessions", ServiceBusMessage("a", session_id="s"))
    receiver = sdk.receiver("sessions", session_id="s")
    [message] = receive(receiver, 1)
    [epoch] = call.lease("sessions")
    with pytest.raises((SessionLockLostError, MessageLockLostError)):
        receiver.complete_message(message)
    assert [row["session_id"] for row in call.rows("sessions")] == ["s"]
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(sdk.receiver, "sessions", session_id="s")
        with pytest.raises(TimeoutError):
            opening.result(QUIET_SECONDS)
        release(call, "sessions", epoch)
        again = opening.result(ARRIVAL_SECONDS)
    assert texts_of(receive(again, 1)) == ["a"]


def test_a_deferred_message_can_still_be_asked_for(
    call: Caller, sdk: Sdk, queue: str
) -> None:
    """By its number: it is in no range."""
    sdk.send(queue, "a")
    receiver = sdk.receiver(queue)
    [message] = receive(receiver, 1)
    receiver.defer_message(message)
    call.lease(queue)
    [deferred] = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(deferred)
    assert call.fragment(queue)["deferred_count"] == 0
