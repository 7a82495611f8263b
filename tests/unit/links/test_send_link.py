"""Sending: accepted after the commit, refused at once, in as few frames as possible."""

import pytest
from unit.amqp.endpoints import of_type

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import LinkDetached
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME, Accepted, Rejected
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.encoding.batch import BATCH_FORMAT
from twinbus.errors import MessagingEntityNotFound, ServerBusy

from .world import BODY, NOW, World


def send(link: Link, *payloads: bytes, settled: bool = False) -> None:
    for payload in payloads:
        link.send(payload, b"tag", settled)


def condition(state: object) -> str:
    assert isinstance(state, Rejected) and isinstance(state.error, AmqpError)
    return state.error.condition


def test_sends_of_a_turn_are_accepted_in_one_frame_after_the_commit(
    world: World,
) -> None:
    link, _ = world.sender()
    send(link, BODY, BODY, BODY)
    assert world.verdicts() == []
    assert world.home.wake_count == 3
    world.home.commit()
    assert world.verdicts() == [(0, 2, Accepted())]
    assert world.fragment.active_count == 3


def test_ids_that_wrap_around_are_accepted_in_two_runs(world: World) -> None:
    link, _ = world.sender()
    world.session.next_delivery_id = 0xFFFFFFFE
    send(link, BODY, BODY, BODY, BODY)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [
        (0xFFFFFFFE, 0xFFFFFFFF),
        (0, 1),
    ]


def test_runs_leave_out_what_was_refused(world: World) -> None:
    link, _ = world.sender()
    send(link, BODY, b"rubbish", BODY, BODY)
    [(first, last, state)] = world.verdicts()
    assert (first, last, condition(state)) == (1, 1, "com.microsoft:argument-error")
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [(0, 0), (2, 3)]
    assert world.fragment.active_count == 3


def test_failed_commit_refuses_all_that_waited(world: World) -> None:
    link, _ = world.sender()
    send(link, BODY, BODY)
    world.pump()
    world.home.fail(ServerBusy())
    told = world.verdicts()
    assert [(first, last) for first, last, _ in told] == [(0, 0), (1, 1)]
    assert {condition(state) for _, _, state in told} == {"com.microsoft:server-busy"}
    assert world.fragment.active_count == 0


def test_settled_sends_are_not_answered(world: World) -> None:
    link, _ = world.sender()
    send(link, BODY, b"rubbish", settled=True)
    world.pump()
    world.home.commit()
    assert world.verdicts() == []
    assert world.fragment.active_count == 1


def test_messages_that_are_too_large_are_refused_with_the_limit(world: World) -> None:
    link, _ = world.sender(limit=50)
    send(link, encode_message(Message(body=Data((bytes(100),)))))
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "amqp:link:message-size-exceeded"
    assert isinstance(state, Rejected) and "50 bytes" in str(state.error)


def test_message_of_an_unknown_transaction_is_refused(world: World) -> None:
    link, _ = world.sender()
    link.send(BODY, b"tag", False, state=b"\x00\x53\x34\xc0\x04\x01\xa0\x01t")
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "amqp:transaction:unknown-id"


def test_full_queues_refuse_and_say_so() -> None:
    named = b"\x00\x53\x73\xc0\x04\x01\xa1\x01m" + BODY
    world = World(max_size_bytes=2 * len(named))
    link, _ = world.sender()
    send(link, named, named, named)
    [(first, _, state)] = world.verdicts()
    assert (first, condition(state)) == (2, "amqp:resource-limit-exceeded")


def test_deleted_queues_refuse(world: World) -> None:
    link, _ = world.sender()
    world.fragment.drop()
    send(link, BODY)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "amqp:not-found"


def batch(*messages: bytes) -> bytes:
    return encode_message(Message(body=Data(messages)))


def test_batches_are_taken_whole(world: World) -> None:
    link, _ = world.sender()
    link.send(batch(BODY, BODY, BODY), b"tag", False, message_format=BATCH_FORMAT)
    world.pump()
    world.home.commit()
    assert world.verdicts() == [(0, 0, ACCEPTED_OUTCOME)]
    assert world.fragment.active_count == 3


def test_batches_with_one_bad_message_are_not_taken_at_all(world: World) -> None:
    link, _ = world.sender()
    link.send(batch(BODY, b"rubbish"), b"tag", False, message_format=BATCH_FORMAT)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:argument-error"
    assert world.fragment.active_count == 0


@pytest.mark.parametrize(("due", "is_scheduled"), [(NOW + 1, True), (NOW, False)])
def test_scheduled_messages_wait_for_their_time(
    world: World, due: int, is_scheduled: bool
) -> None:
    link, _ = world.sender()
    annotations = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(due)}
    send(link, encode_message(Message(message_annotations=annotations)))
    world.pump()
    assert world.fragment.scheduled_count == is_scheduled
    assert world.fragment.active_count == (not is_scheduled)
    assert world.home.expected == ([due] if is_scheduled else [])


def test_credit_is_topped_up_before_it_runs_out(world: World) -> None:
    link, _ = world.sender()
    assert link.credit == 1_000
    send(link, *[BODY] * 499)
    world.pump()
    assert link.credit == 501
    send(link, BODY)
    world.pump()
    assert link.credit == 1_000


def test_link_is_detached_with_the_reason(world: World) -> None:
    link, made = world.sender()
    made.detach(MessagingEntityNotFound(entity_path="orders"))
    [detached] = of_type(world.pump(), LinkDetached)
    assert detached.link is link and detached.error is not None
    assert detached.error.condition == "amqp:not-found"


def test_client_that_does_not_heed_its_credit_is_cut_off(world: World) -> None:
    link, _ = world.sender()
    world.bus_session.links[link.handle].credit = 0
    link.credit = 2
    send(link, BODY, BODY)
    [detached] = of_type(world.pump(), LinkDetached)
    assert detached.error is not None
    assert detached.error.condition == "amqp:link:transfer-limit-exceeded"


def test_full_store_refuses_at_the_door(world: World) -> None:
    link, _ = world.sender()
    world.pump()
    world.home.refuses_until = world.home.now + 1
    link.send(BODY, b"tag", False)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:server-busy"
    assert world.home.changes.is_empty()
