"""SB-W-13xx: requests to `$management`, and sessions, in transactions."""

import itertools
from uuid import UUID

import pytest

from .codec import Described, Int, Long, Symbol, Uint, Ulong
from .frames import DISPOSITION, RECEIVER, REJECTED
from .management import Management, longs, uuids
from .message import data_message, scheduled_message, value_message
from .transactions import (
    ROLLBACK,
    TRANSACTIONAL,
    UNKNOWN,
    Controller,
    post_in,
    send_in,
    settle_in,
)

_ids = itertools.count(1)


def call_in(txn_id, management, operation, body):
    """A request in a transaction: code of the transfer's outcome, and the answer."""
    message_id = f"in-transaction-{next(_ids)}"
    request = value_message(
        body,
        properties={"message_id": message_id, "reply_to": "replies-here"},
        application_properties={"operation": f"com.microsoft:{operation}"},
    )
    at = post_in(txn_id, management.sender, request)
    frame = management.sender.peer.find(
        DISPOSITION, lambda frame: frame.role is RECEIVER and frame.first == at
    )
    return int(frame.state.descriptor), management.answer_to(message_id)


@pytest.fixture
def controller(peer):
    return Controller(peer)


@pytest.fixture
def management(peer, queue):
    return Management(peer, queue)


@pytest.fixture
def far(bus):
    """A time that the tests do not see."""
    return int(bus.server.clock.now()) + 3_600_000


def completion(*deliveries):
    tokens = uuids(*(UUID(bytes_le=delivery.tag) for delivery in deliveries))
    return {"disposition-status": "completed", "lock-tokens": tokens}


def test_settlement_by_token(peer, queue, controller, management):
    """SB-W-1301 both transfer and answer say yes, and nothing has happened yet."""
    peer.sender(queue).send(data_message("x"))
    [delivery] = peer.receiver(queue).take()
    for discharge, left in ((controller.roll_back, ["x"]), (controller.commit, [])):
        txn_id = controller.declare()
        body = completion(delivery)
        code, answer = call_in(txn_id, management, "update-disposition", body)
        assert (code, answer.status) == (TRANSACTIONAL, 200)
        assert management.peek_texts() == ["x"]
        assert discharge(txn_id) is None
        assert management.peek_texts() == left


def test_enlisted_token_is_refused_elsewhere_and_nothing_beside_it_is_done(
    peer, queue, controller, management
):
    """SB-W-1302 a request with several tokens is carried out whole or not at all."""
    sender = peer.sender(queue)
    sender.send(data_message("a"))
    sender.send(data_message("b"))
    free, enlisted = peer.receiver(queue).take(2)
    txn_id = controller.declare()
    call_in(txn_id, management, "update-disposition", completion(enlisted))
    answer = management.call("update-disposition", completion(free, enlisted))
    assert (answer.status, answer.condition) == (400, "amqp:not-allowed")
    assert management.peek_texts() == ["a", "b"]
    assert controller.commit(txn_id) is None
    assert management.peek_texts() == ["a"]


def schedule(far, *texts):
    messages = [{"message": scheduled_message(text, far)} for text in texts]
    return {"messages": messages}


def test_scheduled_messages_have_their_numbers_before_the_commit(
    peer, queue, controller, management, far
):
    """SB-W-1303 and they are the ones under which they are cancelled later."""
    txn_id = controller.declare()
    body = schedule(far, "a", "b")
    code, answer = call_in(txn_id, management, "schedule-message", body)
    assert (code, answer.status) == (TRANSACTIONAL, 200)
    numbers = list(answer.body["sequence-numbers"])
    assert len(set(numbers)) == 2
    assert management.peek_texts() == []
    peer.sender(queue).send(data_message("between"))
    assert controller.commit(txn_id) is None
    assert sorted(management.peek_texts()) == ["a", "b", "between"]
    cancelled = {"sequence-numbers": longs(*numbers)}
    assert management.call("cancel-scheduled-message", cancelled).status == 200
    assert management.peek_texts() == ["between"]


def test_message_that_is_due_at_the_commit_becomes_active(
    bus, peer, queue, controller, management
):
    """SB-W-1304 as .NET's own test wants it."""
    txn_id = controller.declare()
    body = schedule(int(bus.server.clock.now()), "now")
    call_in(txn_id, management, "schedule-message", body)
    assert controller.commit(txn_id) is None
    [delivery] = peer.receiver(queue).take()
    assert delivery.message.text == "now"
    # Sent without an id, as by any other way in.
    assert len(delivery.message.properties["message_id"]) == 32


def test_cancellation_is_rolled_back(controller, management, far):
    """SB-W-1305 the message is still scheduled, and can be cancelled again."""
    scheduled = management.call("schedule-message", schedule(far, "x"))
    numbers = scheduled.body["sequence-numbers"]
    body = {"sequence-numbers": longs(*numbers)}
    for discharge, left in ((controller.roll_back, ["x"]), (controller.commit, [])):
        txn_id = controller.declare()
        code, answer = call_in(txn_id, management, "cancel-scheduled-message", body)
        assert (code, answer.status) == (TRANSACTIONAL, 200)
        assert management.peek_texts() == ["x"]
        assert discharge(txn_id) is None
        assert management.peek_texts() == left


def test_cancelled_by_somebody_else_before_the_commit(controller, management, far):
    """SB-W-1306 then the transaction cannot have it."""
    scheduled = management.call("schedule-message", schedule(far, "x"))
    body = {"sequence-numbers": longs(*scheduled.body["sequence-numbers"])}
    txn_id = controller.declare()
    call_in(txn_id, management, "cancel-scheduled-message", body)
    assert management.call("cancel-scheduled-message", body).status == 200
    assert controller.commit(txn_id).condition == ROLLBACK


def test_what_cannot_be_undone_is_refused(peer, queue, controller, management):
    """SB-W-1307 and the transaction that asked for it is rolled back."""
    peer.sender(queue).send(data_message("x"))
    txn_id = controller.declare()
    body = {"message-count": Int(1), "enqueued-time-utc": Long(1 << 60)}
    _, answer = call_in(txn_id, management, "batch-delete-messages", body)
    assert (answer.status, answer.condition) == (400, "amqp:not-allowed")
    assert management.peek_texts() == ["x"]
    assert controller.commit(txn_id).condition == ROLLBACK


def test_looking_is_answered_as_outside(peer, queue, controller, management):
    """SB-W-1308 .NET marks everything that is asked inside of a scope."""
    peer.sender(queue).send(data_message("x"))
    txn_id = controller.declare()
    body = {"from-sequence-number": Long(0), "message-count": Int(1)}
    code, answer = call_in(txn_id, management, "peek-message", body)
    assert (code, answer.status) == (TRANSACTIONAL, 200)
    assert controller.commit(txn_id) is None


def test_request_in_an_unknown_transaction(peer, queue, management):
    """SB-W-1309 is refused twice: some clients look at one, some at the other."""
    peer.sender(queue).send(data_message("x"))
    [delivery] = peer.receiver(queue).take()
    code, answer = call_in(
        b"nobody's", management, "update-disposition", completion(delivery)
    )
    assert code == REJECTED
    assert (answer.status, answer.condition) == (404, UNKNOWN)
    assert management.peek_texts() == ["x"]


# --- sessions -------------------------------------------------------------------


@pytest.fixture
def session_queue(make_queue):
    return make_queue(requires_session=True)


def accept(peer, queue, session_id):
    filters = {Symbol("com.microsoft:session-filter"): session_id}
    source = Described(Ulong(0x28), [queue, *[None] * 6, filters])
    return peer.receiver(queue, source=source)


def in_session(session_id, text):
    return data_message(text, properties={"group_id": session_id})


def test_several_sessions_in_one_transaction(peer, session_queue, controller):
    """SB-W-1310 settled in one, sent to others."""
    sender = peer.sender(session_queue)
    sender.send(in_session("a", "in"))
    receiver = accept(peer, session_queue, "a")
    [delivery] = receiver.take()
    txn_id = controller.declare()
    assert settle_in(txn_id, receiver, delivery.delivery_id) is None
    for session_id in ("b", "c"):
        message = in_session(session_id, f"to {session_id}")
        assert send_in(txn_id, sender, message) is None
    assert controller.commit(txn_id) is None
    texts = Management(peer, session_queue).peek_texts()
    assert texts == ["to b", "to c"]


def test_message_without_a_session_id_is_refused(peer, session_queue, controller):
    """SB-W-1311 at once, and it dooms the transaction."""
    txn_id = controller.declare()
    sender = peer.sender(session_queue)
    assert send_in(txn_id, sender, data_message("x")).condition == "amqp:not-allowed"
    assert controller.commit(txn_id).condition == ROLLBACK


def test_session_that_is_given_up_makes_the_commit_fail(
    peer, session_queue, controller
):
    """SB-W-1312 the locks of its messages have ended with it."""
    peer.sender(session_queue).send(in_session("a", "x"))
    receiver = accept(peer, session_queue, "a")
    [delivery] = receiver.take()
    txn_id = controller.declare()
    settle_in(txn_id, receiver, delivery.delivery_id)
    receiver.detach()
    refusal = controller.commit(txn_id)
    assert refusal.condition == ROLLBACK and "session" in refusal.description
    [delivery] = accept(peer, session_queue, "a").take()
    assert delivery.message.header["delivery_count"] == Uint(0)


def test_session_state_is_set_by_the_commit(bus, peer, session_queue, controller):
    """SB-W-1313 with its size; a rollback leaves both."""
    accept(peer, session_queue, "a")
    management = Management(peer, session_queue)
    entity = bus.server.namespace.entity(session_queue)
    named = {"session-id": "a"}
    for discharge, state, size in (
        (controller.roll_back, None, 0),
        (controller.commit, b"later", 5),
    ):
        txn_id = controller.declare()
        for value in (b"first", b"later"):
            body = {**named, "session-state": value}
            _, answer = call_in(txn_id, management, "set-session-state", body)
            assert answer.status == 200
        answer = management.call("get-session-state", named)
        assert answer.body == {"session-state": None}
        assert discharge(txn_id) is None
        answer = management.call("get-session-state", named)
        assert answer.body == {"session-state": state}
        assert entity.size_bytes() == size


@pytest.mark.parametrize("operation", ["add-rule", "remove-rule"])
def test_rule_of_a_subscription_that_is_deleted_makes_the_commit_fail(
    bus, peer, controller, operation
):
    """SB-W-1314 and nothing else: the bus goes on."""
    topic = f"topic-{next(_ids)}"
    bus.create_topic(topic)
    bus.create_subscription(topic, "s")
    body = {"rule-name": "$Default"}
    if operation == "add-rule":
        body = {"rule-name": "new", "rule-description": {"true-filter": {}}}
    txn_id = controller.declare()
    management = Management(peer, f"{topic}/Subscriptions/s")
    assert call_in(txn_id, management, operation, body)[1].status == 200
    bus.delete_subscription(topic, "s")
    refusal = controller.commit(txn_id)
    assert refusal.condition == ROLLBACK and f"{topic}/" in refusal.description
    assert controller.commit(controller.declare()) is None


def test_rules_of_a_transaction_count_towards_its_size(bus, peer, controller):
    """SB-W-1315 they are held in memory until the commit."""
    topic = f"topic-{next(_ids)}"
    bus.create_topic(topic)
    bus.create_subscription(topic, "s")
    management = Management(peer, f"{topic}/Subscriptions/s")
    filter = {"expression": f"a = '{'x' * 900}'"}
    body = {"rule-name": "new", "rule-description": {"sql-filter": filter}}
    txn_id = controller.declare()
    held_bytes = bus.server.transaction_limits.held_bytes
    assert call_in(txn_id, management, "add-rule", body)[1].status == 200
    assert bus.server.transaction_limits.held_bytes > held_bytes + 900
    assert controller.roll_back(txn_id) is None
    assert bus.server.transaction_limits.held_bytes == held_bytes
