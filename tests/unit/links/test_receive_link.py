"""Receiving: deliveries within credit, dispositions confirmed after the commit."""

from unit.amqp.endpoints import of_type

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import LinkDetached, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    Accepted,
    Modified,
    Rejected,
    Released,
    encode_rejected,
)
from twinbus.amqp.session import AmqpSession
from twinbus.broker.message_lock import token_fragment
from twinbus.errors import EntityDisabled, ServerBusy
from twinbus.limits import UNSETTLED_PER_SESSION
from twinbus.links.receive_link import ReceiveLink

from .world import BODY, World


def settle(
    session: AmqpSession,
    first: int,
    last: int,
    state: bytes = ACCEPTED,
    *,
    settled: bool = False,
) -> None:
    session.send_disposition(True, first, last, settled, state)


def condition(state: object) -> str:
    assert isinstance(state, Rejected) and isinstance(state.error, AmqpError)
    return state.error.condition


def received(world: World, count: int) -> tuple[Link, list[MessageReceived]]:
    """A link, and so many messages on it that are locked."""
    link, _ = world.receiver()
    world.home.enqueue(count)
    link.issue_credit(count)
    return link, world.deliveries()


# --- delivering -----------------------------------------------------------------


def test_messages_go_out_as_far_as_credit_goes(world: World) -> None:
    link, _ = world.receiver()
    world.home.enqueue(5)
    link.issue_credit(3)
    found = world.deliveries()
    assert [event.delivery_id for event in found] == [0, 1, 2]
    assert not any(event.settled for event in found)
    assert all(event.payload.endswith(BODY) for event in found)
    tags = [event.delivery_tag for event in found]
    assert [len(tag) for tag in tags] == [16] * 3 and len(set(tags)) == 3
    assert {token_fragment(tag) for tag in tags} == {world.fragment.number}


def test_nothing_goes_out_while_the_socket_is_full(world: World) -> None:
    link, made = world.receiver()
    world.home.enqueue(1)
    world.output.is_writable = False
    link.issue_credit(1)
    assert world.deliveries() == []
    world.output.is_writable = True
    made.offer_capacity()
    assert len(world.deliveries()) == 1


def test_nothing_goes_out_past_the_sessions_window(world: World) -> None:
    link, made = world.receiver()
    world.home.enqueue(5)
    world.bus_session.remote_incoming_window = 2
    world.bus_session.links[0].credit = 5
    assert made.capacity() == 2
    made.offer_capacity()
    assert world.fragment.window.ready_count() == 3
    assert made.capacity() == 0
    assert link.credit == 0


def test_credit_that_is_lowered_holds_back_what_comes_later(world: World) -> None:
    link, made = world.receiver()
    link.issue_credit(10)
    world.pump()
    link.issue_credit(0)
    world.pump()
    world.home.enqueue(3)
    assert (world.deliveries(), made.capacity()) == ([], 0)


def test_messages_of_big_fragment_numbers_have_visible_numbers(world: World) -> None:
    world.fragment.visible_base = 5 << 48
    _, [event] = received(world, 1)
    number = (5 << 48 | 1).to_bytes(8, "big")
    assert b"x-opt-sequence-number\x81" + number in event.payload


# --- receive and delete ---------------------------------------------------------


def test_removed_messages_go_out_settled_after_the_commit(world: World) -> None:
    link, made = world.receiver(peek_lock=False)
    world.home.enqueue(3)
    link.issue_credit(2)
    assert world.deliveries() == []
    assert made.promised_count == 2
    world.home.commit()
    found = world.deliveries()
    assert [event.settled for event in found] == [True, True]
    assert world.fragment.active_count == 1
    # No lock, no tag.
    assert [event.delivery_tag for event in found] == [b"", b""]


def test_failed_commit_gives_promised_messages_to_nobody(world: World) -> None:
    link, made = world.receiver(peek_lock=False)
    world.home.enqueue(2)
    link.issue_credit(2)
    world.pump()
    world.home.fail(ServerBusy())
    assert (world.deliveries(), made.promised_count) == ([], 0)
    assert world.fragment.active_count == 2


def test_credit_taken_back_meanwhile_is_respected(world: World) -> None:
    link, _ = world.receiver(peek_lock=False)
    world.home.enqueue(3)
    link.issue_credit(3)
    world.pump()
    link.issue_credit(1)
    world.pump()
    world.home.commit()
    assert len(world.deliveries()) == 1


def test_what_was_removed_for_credit_taken_back_comes_with_the_next(
    world: World,
) -> None:
    link, _ = world.receiver(peek_lock=False)
    world.home.enqueue(4)
    link.issue_credit(3)
    world.pump()
    link.issue_credit(0)
    world.pump()
    world.home.commit()
    assert (world.deliveries(), world.fragment.active_count) == ([], 1)
    link.issue_credit(2)
    assert [event.settled for event in world.deliveries()] == [True, True]
    assert world.fragment.active_count == 1, "nothing was removed for that credit"
    link.issue_credit(2)
    assert len(world.deliveries()) == 1, "the last one that was owed"
    world.home.commit()
    assert len(world.deliveries()) == 1
    assert world.fragment.active_count == 0


def test_link_that_went_away_meanwhile_gets_nothing(world: World) -> None:
    link, made = world.receiver(peek_lock=False)
    world.home.enqueue(3)
    link.issue_credit(3)
    world.pump()
    made.detach(EntityDisabled(entity_path="orders"))
    world.home.commit()
    assert world.deliveries() == []


# --- draining -------------------------------------------------------------------


def test_drain_of_an_empty_queue_is_answered_at_once(world: World) -> None:
    link, _ = world.receiver()
    link.issue_credit(5, drain=True)
    world.pump()
    assert link.credit == 0


def test_drain_is_answered_after_what_is_there(world: World) -> None:
    link, _ = world.receiver()
    world.home.enqueue(2)
    link.issue_credit(5, drain=True)
    assert len(world.deliveries()) == 2
    assert link.credit == 0


def test_drain_waits_for_what_only_the_disk_has(world: World) -> None:
    world.home.enqueue(20)
    link, _ = world.receiver()
    link.issue_credit(30, drain=True)
    assert len(world.deliveries()) == 16
    assert link.credit == 14
    window = world.fragment.window
    assert window.wants_refill()
    window.refill([], window.tail)
    world.home.deliver()
    world.pump()
    assert link.credit == 0


def test_drain_waits_for_promised_messages(world: World) -> None:
    link, _ = world.receiver(peek_lock=False)
    world.home.enqueue(2)
    link.issue_credit(5, drain=True)
    assert world.deliveries() == []
    assert link.credit == 5
    world.home.commit()
    assert len(world.deliveries()) == 2
    assert link.credit == 0


def test_drain_without_credit_is_answered_too(world: World) -> None:
    """The Python SDK closes a receiver this way."""
    link, _ = world.receiver()
    world.home.enqueue(1)
    link.issue_credit(0, drain=True)
    assert world.deliveries() == []


# --- settling -------------------------------------------------------------------


def test_settlements_of_a_turn_are_confirmed_in_one_frame(world: World) -> None:
    received(world, 4)
    settle(world.session, 0, 3)
    assert world.verdicts() == []
    world.home.commit()
    assert world.verdicts() == [(0, 3, Accepted())]
    assert world.fragment.active_count == 0


def test_runs_are_of_the_same_outcome(world: World) -> None:
    received(world, 6)
    settle(world.session, 0, 1)
    settle(world.session, 2, 2, MODIFIED)
    settle(world.session, 3, 3, REJECTED)
    settle(world.session, 4, 4, RELEASED)
    settle(world.session, 5, 5)
    world.pump()
    world.home.commit()
    assert [v for v in world.verdicts()] == [
        (0, 1, Accepted()),
        (2, 2, Modified()),
        (3, 3, Rejected()),
        (4, 4, Released()),
        (5, 5, Accepted()),
    ]


def test_ids_that_wrap_around_are_confirmed_in_two_runs(world: World) -> None:
    link, _ = world.receiver()
    world.bus_session.next_delivery_id = 0xFFFFFFFE
    world.home.enqueue(4)
    link.issue_credit(4)
    assert len(world.deliveries()) == 4
    settle(world.session, 0xFFFFFFFE, 1)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [
        (0xFFFFFFFE, 0xFFFFFFFF),
        (0, 1),
    ]
    assert world.fragment.active_count == 0


def test_order_of_settlement_is_the_order_of_confirmation(world: World) -> None:
    received(world, 3)
    for delivery_id in (2, 0, 1):
        settle(world.session, delivery_id, delivery_id)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [(2, 2), (0, 1)]


def test_unknown_ids_of_a_range_are_refused_and_the_others_settled(
    world: World,
) -> None:
    received(world, 6)
    settle(world.session, 1, 1)
    settle(world.session, 4, 4)
    world.pump()
    world.home.commit()
    world.pump()
    settle(world.session, 0, 8)
    told = world.verdicts()
    assert [(first, last) for first, last, _ in told] == [(1, 1), (4, 4), (6, 8)]
    assert {condition(state) for _, _, state in told} == {
        "com.microsoft:message-lock-lost"
    }
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [(0, 0), (2, 3), (5, 5)]


def test_range_of_billions_is_refused_in_two_frames(world: World) -> None:
    received(world, 1)
    settle(world.session, 0xFFFFFFF0, 0x7FFFFFEE)
    assert [verdict[:2] for verdict in world.verdicts()] == [
        (0xFFFFFFF0, 0xFFFFFFFF),
        (1, 0x7FFFFFEE),
    ]


def test_unknown_ids_that_are_settled_are_nobodys_business(world: World) -> None:
    received(world, 1)
    settle(world.session, 0, 9, settled=True)
    world.pump()
    world.home.commit()
    assert world.verdicts() == []
    assert world.fragment.active_count == 0


def test_settled_without_a_state_gives_back(world: World) -> None:
    received(world, 1)
    settle(world.session, 0, 0, b"\x40", settled=True)
    world.pump()
    world.home.commit()
    assert world.fragment.window.ready_count() == 1


def test_progress_is_no_settlement(world: World) -> None:
    received(world, 1)
    settle(world.session, 0, 0, b"\x00\x53\x23\xc0\x03\x02\x43\x44")
    assert world.verdicts() == []
    assert len(world.fragment.locks) == 1


def test_dispositions_of_a_sender_settle_nothing(world: World) -> None:
    received(world, 1)
    world.session.send_disposition(False, 0, 0, True, ACCEPTED)
    world.pump()
    assert len(world.fragment.locks) == 1


def test_lock_that_ran_out_is_lost(world: World) -> None:
    received(world, 2)
    world.home.now += world.fragment.settings.lock_duration_ms
    settle(world.session, 0, 0)
    settle(world.session, 1, 1, settled=True)
    [(first, last, state)] = world.verdicts()
    assert (first, last) == (0, 0)
    assert condition(state) == "com.microsoft:message-lock-lost"
    assert isinstance(state, Rejected) and "'orders'" in str(state.error)


def test_failed_commit_refuses_the_settlements(world: World) -> None:
    received(world, 2)
    settle(world.session, 0, 1)
    world.pump()
    world.home.fail(ServerBusy())
    told = world.verdicts()
    assert [(first, last) for first, last, _ in told] == [(0, 0), (1, 1)]
    assert {condition(state) for _, _, state in told} == {"com.microsoft:server-busy"}
    assert world.fragment.active_count == 2


def test_bad_outcome_is_refused(world: World) -> None:
    received(world, 1)
    error = AmqpError("x:y", "", {"DeadLetterReason": "x" * 5_000})
    settle(world.session, 0, 0, encode_rejected(error))
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:argument-out-of-range"


def test_one_disposition_may_settle_for_two_links(world: World) -> None:
    received(world, 1)
    second, _ = world.receiver(name="second")
    world.home.enqueue(1)
    second.issue_credit(1)
    world.pump()
    settle(world.session, 0, 1)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [(0, 0), (1, 1)]


def test_deliveries_are_settled_after_their_link_is_gone(world: World) -> None:
    link, _ = received(world, 1)
    link.detach()
    world.pump()
    settle(world.session, 0, 0)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [(0, 0)]
    assert world.fragment.active_count == 0


def test_answers_of_nodes_are_settled_beside_messages(world: World) -> None:
    """They are sent unsettled to clients that want it so, with no lock behind."""
    link = world.session.attach_receiver("answers", Source(address="$cbs"), Target())
    bus_link = world._attached()
    bus_link.accept()
    world.pump()
    link.issue_credit(2)
    world.pump()
    for tag in (b"1", b"2"):
        bus_link.send(BODY, tag, False, object())
    world.pump()
    settle(world.session, 0, 0)
    settle(world.session, 1, 1, settled=True)
    assert world.verdicts() == [(0, 0, Accepted())]
    assert world.bus_session.unsettled == {}


def test_deliveries_that_nobody_settles_do_not_pile_up(world: World) -> None:
    link, _ = world.receiver()
    world.fragment.settings.max_delivery_count = 1_000_000
    world.home.enqueue(100)
    for _ in range(40):
        link.issue_credit(100)
        world.pump()
        for lock in list(world.fragment.locks.values()):
            del world.fragment.locks[lock.message.row_id]
            world.fragment.come_back(lock.message, world.home.changes)
        world.home.commit()
    assert len(world.bus_session.unsettled) <= 1_124
    link.issue_credit(100)
    last = world.deliveries()[-1]
    settle(world.session, last.delivery_id, last.delivery_id)
    world.pump()
    world.home.commit()
    assert [verdict[:2] for verdict in world.verdicts()] == [
        (last.delivery_id, last.delivery_id)
    ]
    settle(world.session, 0, 0)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:message-lock-lost"


# --- ending ---------------------------------------------------------------------


def test_detached_link_says_why_and_takes_nothing_more(world: World) -> None:
    link, made = world.receiver()
    link.issue_credit(5)
    world.pump()
    made.detach(EntityDisabled(entity_path="orders"))
    world.home.enqueue(1)
    events = world.pump()
    [detached] = of_type(events, LinkDetached)
    assert detached.error is not None
    assert detached.error.condition == "com.microsoft:entity-disabled"
    assert of_type(events, MessageReceived) == []
    assert not world.home.dispatch.has_receivers()


def test_locks_outlive_their_link(world: World) -> None:
    link, _ = received(world, 1)
    made = world.bus_session.links[link.handle].context
    assert isinstance(made, ReceiveLink)
    made.close()
    made.close()
    assert len(world.fragment.locks) == 1


def test_confirmations_of_a_turn_are_one_write(
    world: World,
) -> None:
    received(world, 1)
    settle(world.session, 0, 0)
    world.pump()
    before = world.writes
    world.home.commit()
    world.outputs.flush()
    assert world.writes == before + 1
    assert [verdict[:2] for verdict in world.verdicts()] == [(0, 0)]


def test_client_may_hold_so_many_unsettled_and_no_more(world: World) -> None:
    link, receive_link = world.receiver()
    link.issue_credit(2 * UNSETTLED_PER_SESSION)
    world.pump()
    found: list[MessageReceived] = []
    for _ in range(UNSETTLED_PER_SESSION // 900 + 2):
        world.home.enqueue(900)
        found += world.deliveries()
    assert len(found) == UNSETTLED_PER_SESSION

    # Settling one makes room for one.
    settle(link.session, 0, 0)
    assert len(world.deliveries()) == 1

    # So does time, once locks have ended.
    world.home.fragment.locks.clear()
    receive_link.tick(set())
    assert len(world.deliveries()) > 1
