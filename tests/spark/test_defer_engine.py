"""S1: a stream that defers, call by call: Spark's calls, and their results."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)

from twinbus.doors.amqp import management
from twinbus.errors import ServerBusy
from twinbus.sdk_internals import blocking_links
from twinbus.spark.data_loss import DataLoss
from twinbus.spark.offsets import OffsetError, read_offset
from twinbus.spark.option_reader import OptionError
from twinbus.spark.portable import deferring, taking, watching
from twinbus.spark.portable.delivered import MARK
from twinbus.spark.portable.errors import EntityMissing

from .engine_world import Engines
from .harness import Namespace, numbered

# The SDK forgets the sockets of links that are refused.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def engines(strict: Namespace) -> Iterator[Engines]:
    made = Engines(strict)
    yield made
    made.close()


def deferred_bodies(namespace: Namespace, entity: str) -> list[str]:
    return [
        str(message)
        for message in namespace.peek(entity)
        if message.state == ServiceBusMessageState.DEFERRED
    ]


def defer_one(namespace: Namespace, entity: str) -> str:
    """Somebody else receives a message, and defers it."""
    with namespace.receiver(entity) as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.defer_message(message)
        return str(message)


def every_refusal(
    monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception, times: int
) -> list[str]:
    """The bus refuses so many requests of a kind; returns the list of them."""
    claim, answer = management._OPERATIONS[operation]
    refused: list[str] = []

    async def refusing(queue: Any, request: Any) -> Any:
        if len(refused) < times:
            refused.append(operation)
            raise error
        return await answer(queue, request)

    monkeypatch.setitem(management._OPERATIONS, operation, (claim, refusing))
    return refused


# --- batches --------------------------------------------------------------------


def test_the_first_batch_is_empty_and_tells_the_reader(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["first"])
    run = engines("orders")
    initial = run.engine.initial()
    begun = run.engine.advance(initial, 10)
    assert begun != initial and begun["reader"]
    assert run.engine.partitions(initial, begun) == []
    assert deferred_bodies(strict, "orders") == []


def test_a_reader_that_is_named_needs_no_first_batch(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["first"])
    run = engines("orders", readerId="etl")
    initial = run.engine.initial()
    end = run.engine.advance(initial, 10)
    assert end["reader"] == "etl"
    assert run.bodies(initial, end) == ["first"]


def test_a_batch_is_deferred_until_it_is_processed(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(5)))
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 3)
    assert end["entities"]["orders"]["numbers"] == [[1, 3]]
    assert deferred_bodies(strict, "orders") == ["o0", "o1", "o2"]
    # As often as Spark likes: a task may be tried again.
    assert run.bodies(start, end) == run.bodies(start, end) == ["o0", "o1", "o2"]
    following = run.engine.advance(end, 3)
    assert strict.bodies("orders") == ["o3", "o4"]
    assert run.bodies(end, following) == ["o3", "o4"]


def test_a_quiet_queue_is_settled_by_the_next_call(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(5)))
    run = engines("orders")
    end = run.engine.advance(run.begun(), 10)
    assert run.engine.advance(end, 10) == end
    assert strict.peek("orders") == []
    assert run.engine.advance(end, 10) == end


def test_bytes_bound_a_batch(strict: Namespace, engines: Engines) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", [f"{number}{'x' * 10_000}" for number in range(20)])
    run = engines("orders", maxBytesPerBatch="100k")
    sizes = [len(bodies) for _, bodies in run.batches(run.begun(), 1000)]
    assert sum(sizes) == 20
    assert len(sizes) >= 2 and max(sizes) <= 12


@pytest.mark.parametrize("settlement", ["defer", "browse"])
def test_all_that_is_available_is_all(
    strict: Namespace, engines: Engines, settlement: str
) -> None:
    """Spark asks for it with trigger(once=True): no limit counts then."""
    strict.bus.create_queue("orders")
    strict.send("orders", [f"{number:02}{'x' * 10_000}" for number in range(20)])
    run = engines("orders", settlement=settlement, maxBytesPerBatch="10k")
    start = run.engine.initial()
    if settlement == "defer":
        start = run.engine.advance(start, None)
    end = run.engine.advance(start, None)
    assert [body[:2] for body in run.bodies(start, end)] == [
        f"{number:02}" for number in range(20)
    ]


def test_all_that_is_available_is_not_what_comes_meanwhile(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(3)))
    run = engines("orders")
    start = run.begun()
    received = ServiceBusReceiver.receive_messages

    def while_more_comes(receiver: ServiceBusReceiver, *limits: Any) -> Any:
        strict.send("orders", ["late"])
        return received(receiver, *limits)

    monkeypatch.setattr(ServiceBusReceiver, "receive_messages", while_more_comes)
    end = run.engine.advance(start, None)
    assert run.bodies(start, end) == numbered("o", range(3))


def test_entities_share_a_batch_and_no_room_is_left(
    strict: Namespace, engines: Engines
) -> None:
    for name in ("a", "b", "c"):
        strict.bus.create_queue(name)
    strict.send("a", numbered("a", range(30)))
    strict.send("b", numbered("b", range(2)))
    run = engines("a,b,c")
    start = run.begun()
    end = run.engine.advance(start, 20)
    bodies = run.bodies(start, end)
    assert len(bodies) == 20
    assert {"b0", "b1"} < set(bodies)


def test_dead_letters_and_subscriptions_are_read_alike(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.bus.create_topic("news")
    strict.bus.create_subscription("news", "audit")
    strict.send("orders", ["poison"])
    strict.send("news", ["story"])
    with strict.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.dead_letter_message(message, reason="Bad", error_description="Very")
    run = engines("orders/$DeadLetterQueue,news/subscriptions/audit")
    start = run.begun()
    end = run.engine.advance(start, 10)
    dead, story = sorted(
        run.rows(start, end), key=lambda row: str(row["entity"]), reverse=True
    )
    assert (dead["entity"], dead["subqueue"]) == ("orders", "deadletter")
    assert (dead["dead_letter_reason"], dead["dead_letter_description"]) == (
        "Bad",
        "Very",
    )
    assert (story["entity"], story["subqueue"]) == ("news/subscriptions/audit", None)
    assert run.engine.advance(end, 10) == end
    assert strict.peek("orders", sub_queue="deadletter") == []


def test_available_now_ends_with_what_was_there(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(10)))
    run = engines("orders")
    run.engine.end_with_what_is_there()
    start = run.begun()
    strict.send("orders", numbered("late", range(10)))
    read = run.read_all(start, 4)
    assert read == numbered("o", range(10))
    assert strict.bodies("orders") == numbered("late", range(10))


def test_messages_that_others_hold_are_left_to_them(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_FIRST_WAIT_SECONDS", 0.5)
    strict.bus.create_queue("orders")
    strict.send("orders", ["held"])
    with strict.receiver("orders") as receiver:
        [held] = receiver.receive_messages(1, max_wait_time=5)
        run = engines("orders")
        start = run.begun()
        assert run.engine.advance(start, 10) == start
        receiver.abandon_message(held)
    end = run.engine.advance(start, 10)
    assert run.bodies(start, end) == ["held"]


def test_available_now_does_not_end_before_what_is_held_comes(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_FIRST_WAIT_SECONDS", 0.5)
    strict.bus.create_queue("orders")
    strict.send("orders", ["held"])
    run = engines("orders")
    run.engine.end_with_what_is_there()
    start = run.begun()
    with strict.receiver("orders") as receiver, ThreadPoolExecutor(1) as thread:
        assert receiver.receive_messages(1, max_wait_time=5)
        planned = thread.submit(run.engine.advance, start, 10)
        # The lock runs out.
        strict.bus.advance(61)
        end = planned.result()
    assert run.bodies(start, end) == ["held"]


def test_available_now_leaves_what_others_keep(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_FIRST_WAIT_SECONDS", 0.5)
    monkeypatch.setattr(deferring, "_HELD_SECONDS", 1.0)
    strict.bus.create_queue("orders")
    strict.send("orders", ["held"])
    run = engines("orders")
    run.engine.end_with_what_is_there()
    start = run.begun()
    with strict.receiver("orders") as receiver:
        [held] = receiver.receive_messages(1, max_wait_time=5)
        assert run.engine.advance(start, 10) == start
        receiver.complete_message(held)


# --- crashes --------------------------------------------------------------------


def test_what_was_deferred_and_not_logged_is_taken_up_again(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(6)))
    start = engines("orders").begun()
    # Killed after this: the end never comes into Spark's log.
    engines("orders").engine.advance(start, 4)
    assert len(deferred_bodies(strict, "orders")) == 4
    run = engines("orders")
    read = run.read_all(start, 10)
    assert sorted(read) == numbered("o", range(6))
    assert strict.peek("orders") == []


def test_orphans_behind_a_long_queue_are_found_in_the_end(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PAGES_A_BATCH", 1)
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(600)))
    start = engines("orders").begun()
    with strict.receiver("orders") as receiver:
        held: list[ServiceBusReceivedMessage] = []
        while len(held) < 599:
            held += receiver.receive_messages(599 - len(held), max_wait_time=5)
        engines("orders").engine.advance(start, 10)
        for message in held:
            receiver.abandon_message(message)
    assert deferred_bodies(strict, "orders") == ["o599"]
    run = engines("orders")
    read = run.read_all(start, 300)
    assert sorted(read) == sorted(numbered("o", range(600)))


def test_what_others_deferred_is_theirs(strict: Namespace, engines: Engines) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(3)))
    before = defer_one(strict, "orders")
    run = engines("orders")
    start = run.begun()
    during = defer_one(strict, "orders")
    read = run.read_all(start, 10)
    assert sorted([*read, before, during]) == numbered("o", range(3))
    assert deferred_bodies(strict, "orders") == [before, during]
    again = engines("orders")
    assert list(again.batches(start, 10)) == []


def test_what_others_deferred_can_be_adopted(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(3)))
    defer_one(strict, "orders")
    run = engines("orders", adoptDeferred="all")
    read = run.read_all(run.begun(), 10)
    assert sorted(read) == numbered("o", range(3))
    assert strict.peek("orders") == []


def test_a_batch_that_was_settled_before_the_crash_costs_nothing(
    strict: Namespace,
    engines: Engines,
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(5)))
    run = engines("orders")
    end = run.engine.advance(run.begun(), 10)
    assert run.engine.advance(end, 10) == end
    again = engines("orders")
    assert again.engine.advance(end, 10) == end


def test_a_batch_that_was_half_settled_is_settled(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(8)))
    run = engines("orders")
    end = run.engine.advance(run.begun(), 10)
    with strict.receiver("orders") as receiver:
        for message in receiver.receive_deferred_messages([2, 5, 6]):
            receiver.complete_message(message)
    assert run.engine.advance(end, 10) == end
    assert strict.peek("orders") == []


def test_an_entity_that_was_made_again_keeps_what_it_has(
    strict: Namespace, engines: Engines
) -> None:
    """Its messages have the numbers of those that the batch before had."""
    strict.bus.create_queue("orders")
    strict.send("orders", ["old"])
    end = engines("orders").engine.advance(engines("orders").begun(), 10)
    assert end["entities"]["orders"]["numbers"] == [[1, 1]]
    strict.bus.delete_queue("orders")
    strict.bus.create_queue("orders")
    strict.send("orders", ["new"])
    defer_one(strict, "orders")
    assert engines("orders").engine.advance(end, 10) == end
    assert deferred_bodies(strict, "orders") == ["new"]


# --- marks ----------------------------------------------------------------------


def test_rows_are_as_they_were_sent(strict: Namespace, engines: Engines) -> None:
    strict.bus.create_queue("orders")
    sent = ServiceBusMessage(b"body", application_properties={"kind": "a"})
    strict.send("orders", [sent, ServiceBusMessage(b"bare")])
    run = engines("orders", includeRaw=True)
    start = run.begun()
    end = run.engine.advance(start, 10)
    marks = [message.application_properties for message in strict.peek("orders")]
    assert all(mark and mark[MARK.encode()] for mark in marks)
    rows = run.rows(start, end)
    assert [dict(row["application_properties"]) for row in rows] == [{"kind": "a"}, {}]
    assert not any(MARK.encode() in row["raw"] for row in rows)


# --- what goes wrong ------------------------------------------------------------


def test_a_lock_that_is_lost_does_not_hold_up_the_others(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(9)))
    locked, lost = taking._locked, []

    def losing(message: Any) -> taking.Locked:
        """One message goes back between its receipt and its deferral."""
        known = locked(message)
        if str(message) == "o4" and not lost:
            lost.append(known)
            message._receiver.abandon_message(message)
        return known

    monkeypatch.setattr(taking, "_locked", losing)
    run = engines("orders")
    assert sorted(run.read_all(run.begun(), 100)) == numbered("o", range(9))
    assert lost
    assert strict.peek("orders") == []


def test_an_answer_that_is_not_heard_is_made_good(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(4)))
    claim, update = management._OPERATIONS["update-disposition"]
    heard: list[bool] = []

    async def unheard(queue: Any, request: Any) -> Any:
        answer = await update(queue, request)
        if not heard:
            heard.append(True)
            raise ConnectionResetError("the answer is lost")
        return answer

    monkeypatch.setitem(management._OPERATIONS, "update-disposition", (claim, unheard))
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 10)
    assert heard
    assert run.bodies(start, end) == numbered("o", range(4))


def test_a_busy_namespace_is_waited_for(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["patience"])
    run = engines("orders")
    start = run.begun()
    refused = every_refusal(monkeypatch, "peek-message", ServerBusy("busy"), 1)
    began_at = time.monotonic()
    end = run.engine.advance(start, 10)
    # A2: what is busy wants ten seconds.
    assert time.monotonic() - began_at >= 10
    assert refused
    assert run.bodies(start, end) == ["patience"]


def test_a_namespace_that_restarts_is_waited_for(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(3)))
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 10)
    strict.bus.restart()
    assert run.bodies(start, end) == numbered("o", range(3))
    assert run.engine.advance(end, 10) == end
    assert strict.peek("orders") == []


def test_a_request_that_is_cut_off_is_made_again(
    strict: Namespace, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["o"])
    run = engines("orders")
    start = run.begun()
    cut_off = ValueError("Management Operation error occurred.")
    ask, failed = blocking_links.ask, []

    def failing(*arguments: Any) -> Any:
        if not failed:
            failed.append(arguments)
            raise cut_off
        return ask(*arguments)

    monkeypatch.setattr(blocking_links, "ask", failing)
    end = run.engine.advance(start, 10)
    assert failed and run.bodies(start, end) == ["o"]


def test_a_name_that_does_not_exist_is_an_error_at_once(
    strict: Namespace, engines: Engines
) -> None:
    run = engines("nowhere")
    with pytest.raises(EntityMissing, match="'nowhere' does not exist"):
        run.engine.initial()


def test_an_entity_that_vanishes_is_data_loss(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.bus.create_queue("billing")
    strict.send("billing", ["b"])
    start = engines("orders,billing").begun()
    strict.bus.delete_queue("orders")
    with pytest.raises(DataLoss, match=r"'orders'.*failOnDataLoss"):
        engines("orders,billing").engine.advance(start, 10)
    lenient = engines("orders,billing", failOnDataLoss="false")
    read = lenient.read_all(start, 10)
    assert read == ["b"]


def test_an_entity_that_vanishes_with_a_batch_is_data_loss(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["o"])
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 10)
    strict.bus.delete_queue("orders")
    with pytest.raises(DataLoss, match="'orders'"):
        run.rows(start, end)
    lenient = engines("orders", failOnDataLoss="false")
    assert lenient.rows(start, end) == []
    assert lenient.engine.advance(end, 10) == end


def test_messages_that_are_gone_are_data_loss(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(4)))
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 10)
    with strict.receiver("orders") as receiver:
        for message in receiver.receive_deferred_messages([2, 3]):
            receiver.complete_message(message)
    with pytest.raises(DataLoss, match="2 of 4 messages of 'orders'"):
        run.rows(start, end)
    lenient = engines("orders", failOnDataLoss="false")
    assert lenient.bodies(start, end) == ["o0", "o3"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingPosition", "latest"),
        ("fromSequence", "5"),
        ("startTime", "2026-01-01T00:00:00Z"),
        ("alignment", "time"),
    ],
)
def test_options_that_make_no_sense_are_named(
    strict: Namespace, engines: Engines, name: str, value: str
) -> None:
    with pytest.raises(OptionError, match=f"'{name}'.*settlement=defer"):
        engines("orders", **{name: value})


def test_checkpoints_of_other_modes_are_told_apart(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders")
    deferring = engines("orders")
    with pytest.raises(OffsetError, match="settlement=defer"):
        read_offset(deferring.begun())
    browsing = engines("orders", settlement="browse")
    with pytest.raises(OffsetError, match="does not defer"):
        deferring.engine.advance(browsing.engine.initial(), 10)


# --- sessions -------------------------------------------------------------------


def in_sessions(count: int, sessions: int) -> list[ServiceBusMessage]:
    return [
        ServiceBusMessage(f"s{number}", session_id=f"session {number % sessions}")
        for number in range(count)
    ]


def test_sessions_are_read_and_settled(strict: Namespace, engines: Engines) -> None:
    strict.bus.create_queue("orders", requires_session=True)
    strict.send("orders", in_sessions(30, 3))
    run = engines("orders")
    start = run.begun()
    end = run.engine.advance(start, 100)
    rows = run.rows(start, end)
    assert [row["body"].decode() for row in rows] == numbered("s", range(30))
    assert {row["session_id"] for row in rows} == {f"session {n}" for n in range(3)}
    assert run.engine.advance(end, 100) == end
    assert left_in(engines, "orders") == []


def test_a_session_that_another_holds_is_left_to_it(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders", requires_session=True)
    strict.send("orders", in_sessions(10, 2))
    run = engines("orders")
    start = run.begun()
    with strict.receiver("orders", session_id="session 0"):
        end = run.engine.advance(start, 100)
    assert run.bodies(start, end) == numbered("s", range(1, 10, 2))


def test_orphans_of_sessions_are_taken_up_again(
    strict: Namespace, engines: Engines
) -> None:
    strict.bus.create_queue("orders", requires_session=True)
    strict.send("orders", in_sessions(12, 3))
    start = engines("orders").begun()
    engines("orders").engine.advance(start, 100)
    run = engines("orders")
    read = run.read_all(start, 100)
    assert sorted(read) == sorted(numbered("s", range(12)))
    assert left_in(engines, "orders") == []


def left_in(engines: Engines, entity: str) -> list[str]:
    """Messages of every session, as a stream that only browses sees them."""
    run = engines(entity, settlement="browse")
    start = run.engine.initial()
    return run.read_all(start)
