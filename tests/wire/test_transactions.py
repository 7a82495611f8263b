"""SB-W-10xx: transactions frame by frame: the control link, work, its end."""

import pytest

from .codec import Described, Symbol, Ulong
from .frames import ACCEPTED, DETACH, DISPOSITION, MODIFIED, SENDER, outcome
from .management import Management
from .message import data_message
from .transactions import (
    COORDINATOR,
    DECLARE,
    DISCHARGE,
    ROLLBACK,
    TIMEOUT,
    TRANSACTIONAL,
    UNKNOWN,
    Controller,
    post_in,
    send_in,
    settle_in,
)


@pytest.fixture
def controller(peer):
    return Controller(peer)


@pytest.fixture
def texts(connect, queue):
    """The bodies that a queue holds, as another connection sees them."""
    nodes = {}

    def peek(name=queue):
        if name not in nodes:
            nodes[name] = Management(connect(), name)
        return nodes[name].peek_texts()

    return peek


@pytest.fixture
def held(peer, queue):
    """Sends messages and gives a receiver that holds them, and their deliveries."""

    def make(*bodies):
        sender = peer.sender(queue)
        for body in bodies:
            sender.send(data_message(body))
        receiver = peer.receiver(queue)
        return receiver, receiver.take(len(bodies))

    return make


def test_control_link_is_answered_with_its_coordinator(peer):
    """SB-W-1001 the target comes back as it was asked for, and there is credit."""
    capabilities = [Symbol("amqp:local-transactions")]
    target = Described(Ulong(COORDINATOR), capabilities)
    link = Controller(peer, target=target).link
    assert link.attached.target.descriptor == COORDINATOR
    assert link.attached.target.value == capabilities
    assert link.credit > 0


def test_coordinator_without_a_field_stays_one(controller):
    """SB-W-1043 and has one, null: Python's client takes an empty list for nothing."""
    target = controller.link.attached.target
    assert (target.descriptor, target.value) == (COORDINATOR, [None])


def test_declared_ids_differ(controller):
    """SB-W-1002 declared carries an id of its own for each transaction."""
    assert len({controller.declare() for _ in range(10)}) == 10


def test_commit_over_two_queues(peer, queue, make_queue, controller, held, texts):
    """SB-W-1003 receive from one, send to the other."""
    other = make_queue()
    receiver, [delivery] = held("in")
    sender = peer.sender(other)
    txn_id = controller.declare()
    assert settle_in(txn_id, receiver, delivery.delivery_id) is None
    assert send_in(txn_id, sender, data_message("out")) is None
    assert (texts(), texts(other)) == (["in"], [])
    assert controller.commit(txn_id) is None
    assert (texts(), texts(other)) == ([], ["out"])


def test_commit_settles_its_deliveries(peer, controller, held):
    """SB-W-1004 with their outcomes, before the answer to the discharge."""
    receiver, [first, second] = held("a", "b")
    txn_id = controller.declare()
    settle_in(txn_id, receiver, first.delivery_id)
    settle_in(txn_id, receiver, second.delivery_id, outcome(MODIFIED))
    controller.commit(txn_id)
    settled = [
        (frame.first, int(frame.state.descriptor))
        for frame in peer.frames
        if frame.code == DISPOSITION and frame.role is SENDER and frame.settled
    ]
    assert settled == [
        (first.delivery_id, ACCEPTED),
        (second.delivery_id, MODIFIED),
    ]


def test_rollback_leaves_locks_and_deliveries(controller, held, texts):
    """SB-W-1005 the same delivery is settled again, without a transaction."""
    receiver, [delivery] = held("x")
    txn_id = controller.declare()
    settle_in(txn_id, receiver, delivery.delivery_id)
    assert controller.roll_back(txn_id) is None
    receiver.peer.frames.clear()
    receiver.settle(delivery.delivery_id, outcome(ACCEPTED))
    assert receiver.verdict_of(delivery.delivery_id) == (ACCEPTED, None)
    assert texts() == []


def test_settling_twice_is_refused(controller, held, texts):
    """SB-W-1006 in another transaction, and outside of any."""
    receiver, [first, second] = held("a", "b")
    one, other = controller.declare(), controller.declare()
    settle_in(one, receiver, first.delivery_id)
    settle_in(one, receiver, second.delivery_id)
    refusal = settle_in(other, receiver, first.delivery_id)
    assert refusal.condition == "amqp:not-allowed"
    receiver.peer.frames.clear()
    receiver.settle(second.delivery_id, outcome(ACCEPTED))
    _, refusal = receiver.verdict_of(second.delivery_id)
    assert refusal.condition == "amqp:not-allowed"
    assert controller.commit(other).condition == ROLLBACK
    assert controller.commit(one) is None
    assert texts() == []


def test_one_refusal_rolls_back_all(peer, queue, controller, texts):
    """SB-W-1007 a client that ignores it does not get half of what it wanted."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, data_message("good")) is None
    assert send_in(txn_id, sender, b"\x00\x53\x99") is not None
    refusal = controller.commit(txn_id)
    assert refusal.condition == ROLLBACK
    assert "none of its work was done" in refusal.description
    assert texts() == []


def test_settled_transfers_take_part(peer, queue, controller, texts):
    """SB-W-1008 and nobody is answered."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    post_in(txn_id, sender, data_message("x"), settled=True)
    assert controller.commit(txn_id) is None
    assert texts() == ["x"]


def test_settled_rubbish_rolls_back(peer, queue, controller, texts):
    """SB-W-1009 the discharge is the only place to tell of it."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    post_in(txn_id, sender, data_message("x"), settled=True)
    post_in(txn_id, sender, b"\x00\x53\x99", settled=True)
    assert controller.commit(txn_id).condition == ROLLBACK
    assert texts() == []


def test_transaction_of_another_connection_is_unknown(
    connect, peer, queue, controller, texts
):
    """SB-W-1010 ids mean nothing elsewhere."""
    txn_id = controller.declare()
    stranger = connect()
    refusal = send_in(txn_id, stranger.sender(queue), data_message("x"))
    assert refusal.condition == UNKNOWN
    assert Controller(stranger).commit(txn_id).condition == UNKNOWN
    assert send_in(txn_id, peer.sender(queue), data_message("mine")) is None
    assert controller.commit(txn_id) is None
    assert texts() == ["mine"]


def test_closed_control_link_rolls_back(peer, queue, controller, texts):
    """SB-W-1011 and its ids are unknown."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    send_in(txn_id, sender, data_message("x"))
    link = controller.link
    peer.send(DETACH, [link.attached.handle, True])
    peer.expect(DETACH)
    assert Controller(peer).commit(txn_id).condition == UNKNOWN
    assert texts() == []


def test_message_101_is_refused(peer, queue, controller, texts):
    """SB-W-1012 the documented number, and what to do about it."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    for number in range(100):
        assert send_in(txn_id, sender, data_message(f"{number}")) is None
    refusal = send_in(txn_id, sender, data_message("100"))
    assert refusal.condition == "amqp:resource-limit-exceeded"
    assert "100 messages" in refusal.description
    assert controller.commit(txn_id).condition == ROLLBACK
    assert texts() == []


def test_transaction_has_two_minutes(bus, peer, queue, controller, texts):
    """SB-W-1013 after that it is rolled back, and its id says so."""
    sender = peer.sender(queue)
    txn_id = controller.declare()
    send_in(txn_id, sender, data_message("x"))
    bus.advance(121)
    assert send_in(txn_id, sender, data_message("y")).condition == TIMEOUT
    assert controller.commit(txn_id).condition == TIMEOUT
    assert texts() == []


@pytest.mark.parametrize("txn_id", [b"", b"x", bytes(64), b"\xff" * 1000])
def test_ids_that_nobody_gave_are_unknown(peer, queue, controller, held, txn_id):
    """SB-W-1014 for a discharge, a message and a settlement."""
    receiver, [delivery] = held("x")
    assert controller.commit(txn_id).condition == UNKNOWN
    assert send_in(txn_id, peer.sender(queue), data_message("y")).condition == UNKNOWN
    refusal = settle_in(txn_id, receiver, delivery.delivery_id)
    assert refusal.condition == UNKNOWN


@pytest.mark.parametrize(
    ("code", "fields", "condition"),
    [
        (DECLARE, [b"global"], "amqp:not-implemented"),
        (DISCHARGE, [], "com.microsoft:argument-error"),
        (DISCHARGE, ["text", False], "com.microsoft:argument-error"),
        (0x99, [], "com.microsoft:argument-error"),
    ],
)
def test_bad_requests_are_refused(controller, code, fields, condition):
    """SB-W-1015 and the link goes on."""
    _, [error] = controller.ask(code, *fields)
    assert error.value[0] == condition
    controller.declare()


def test_transfer_and_disposition_of_a_malformed_state_end_nothing_else(
    connect, queue, texts
):
    """SB-W-1016 a state without an id is a malformed frame."""
    peer = connect()
    sender = peer.sender(queue)
    sender.send(data_message("before"))
    receiver = peer.receiver(queue)
    [delivery] = receiver.take()
    receiver.settle(delivery.delivery_id, outcome(TRANSACTIONAL))
    peer.wait_closed()
    assert texts() == ["before"]
