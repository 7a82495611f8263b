"""SB-W-8xx: `$management`: settling and renewing by token, deleting in batches."""

import uuid
from datetime import timedelta

import pytest

from .codec import Array, Int, Symbol, Timestamp
from .management import Management, uuids
from .message import data_message

LOCK_LOST = (410, "com.microsoft:message-lock-lost")


@pytest.fixture
def management(peer, queue):
    """The `$management` node of the queue."""
    return Management(peer, queue)


@pytest.fixture
def tokens(peer, queue):
    """Sends and locks messages; gives their lock tokens."""

    def make(*texts):
        sender = peer.sender(queue)
        for text in texts:
            sender.send(data_message(text))
        deliveries = peer.receiver(queue).take(len(texts))
        return [uuid.UUID(bytes_le=delivery.tag) for delivery in deliveries]

    return make


def _settle(management, status, *lock_tokens, **more):
    body = {"disposition-status": status, "lock-tokens": uuids(*lock_tokens), **more}
    answer = management.call("update-disposition", body)
    return answer.status, answer.condition


def test_completed_by_token(management, tokens):
    """SB-W-801 `completed`: gone; the token is lost then."""
    (token,) = tokens("x")
    assert _settle(management, "completed", token) == (200, None)
    assert management.peek_texts() == []
    assert _settle(management, "completed", token) == LOCK_LOST


def test_abandoned_by_token(peer, queue, management, tokens):
    """SB-W-802 `abandoned`: delivered again with count 1."""
    (token,) = tokens("x")
    assert _settle(management, "abandoned", token) == (200, None)
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.header["delivery_count"] == 1


def test_deferred_by_token(management, tokens):
    """SB-W-803 `defered`, spelt like this: state 1."""
    (token,) = tokens("x")
    assert _settle(management, "defered", token) == (200, None)
    (peeked,) = management.peek(1, 5)
    assert peeked.annotations[Symbol("x-opt-message-state")] == 1


def test_dead_lettered_by_token(peer, queue, management, tokens):
    """SB-W-804 `suspended` with reason and description: in the sub-queue."""
    (token,) = tokens("x")
    details = {"deadletter-reason": "r", "deadletter-description": "d"}
    assert _settle(management, "suspended", token, **details) == (200, None)
    (dead,) = peer.receiver(f"{queue}/$DeadLetterQueue").take()
    properties = dead.message.application_properties
    assert properties["DeadLetterReason"] == "r"
    assert properties["DeadLetterErrorDescription"] == "d"


def test_dead_lettered_by_token_without_reason(peer, queue, management, tokens):
    """SB-W-805 `suspended` without reason is accepted."""
    (token,) = tokens("x")
    assert _settle(management, "suspended", token) == (200, None)
    (dead,) = peer.receiver(f"{queue}/$DeadLetterQueue").take()
    assert dead.message.text == "x"


def test_several_tokens_are_settled_at_once(management, tokens):
    """SB-W-806 one request completes three messages."""
    assert _settle(management, "completed", *tokens("a", "b", "c")) == (200, None)
    assert management.peek_texts() == []


def test_properties_are_modified_by_token(peer, queue, management, tokens):
    """SB-W-807 `properties-to-modify` ends up in the application properties."""
    (token,) = tokens("x")
    changes = {"properties-to-modify": {"attempt": "first"}}
    assert _settle(management, "abandoned", token, **changes) == (200, None)
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.application_properties["attempt"] == "first"


def test_unknown_token_is_lock_lost(management):
    """SB-W-808 a token nobody gave out: 410 lock lost, for settling and renewing."""
    token = uuid.uuid4()
    assert _settle(management, "completed", token) == LOCK_LOST
    answer = management.call("renew-lock", {"lock-tokens": uuids(token)})
    assert (answer.status, answer.condition) == LOCK_LOST


def test_unknown_disposition_status_is_refused(management, tokens):
    """SB-W-809 a status that does not exist is 400, and the message stays."""
    (token,) = tokens("x")
    status, _ = _settle(management, "exploded", token)
    assert status == 400
    assert _settle(management, "completed", token) == (200, None)


def test_settling_by_token_from_another_connection(connect, queue, tokens):
    """SB-W-810 the token is all that is needed, on any connection."""
    (token,) = tokens("x")
    elsewhere = Management(connect(), queue)
    assert _settle(elsewhere, "completed", token) == (200, None)
    assert elsewhere.peek_texts() == []


def test_token_of_another_queue_is_lock_lost(peer, make_queue, tokens):
    """SB-W-811 a token settles nothing through the node of another queue."""
    (token,) = tokens("x")
    other = Management(peer, make_queue())
    assert _settle(other, "completed", token) == LOCK_LOST


def test_renewing_several_locks_answers_an_array(bus, management, tokens):
    """SB-W-812 `expirations`: an array of timestamps, one for each token."""
    answer = management.call("renew-lock", {"lock-tokens": uuids(*tokens(*"abc"))})
    assert answer.status == 200
    expirations = answer.body["expirations"]
    assert isinstance(expirations, Array) and expirations.constructor == 0x83
    assert len(expirations) == 3
    now = int(bus.now().timestamp() * 1000)
    lock_ms = timedelta(minutes=5) // timedelta(milliseconds=1)
    assert all(type(one) is Timestamp for one in expirations)
    assert all(now + lock_ms - 10_000 < one <= now + lock_ms for one in expirations)


def _delete(management, bus, count, *, older_by_seconds=-60):
    """Delete up to `count` messages enqueued before now minus some seconds."""
    before = int((bus.now().timestamp() - older_by_seconds) * 1000)
    body = {"message-count": Int(count), "enqueued-time-utc": Timestamp(before)}
    answer = management.call("batch-delete-messages", body)
    if answer.status == 204:
        return 0
    assert answer.status == 200
    assert type(answer.body["message-count"]) is Int
    return int(answer.body["message-count"])


def _send(peer, queue, *texts):
    sender = peer.sender(queue)
    for text in texts:
        sender.send(data_message(text))


def test_batch_delete_removes_messages(bus, peer, queue, management):
    """SB-W-821 deletes up to the count, oldest first, and says how many."""
    _send(peer, queue, *"abcde")
    assert _delete(management, bus, 3) == 3
    assert management.peek_texts() == ["d", "e"]
    assert _delete(management, bus, 100) == 2
    assert management.peek_texts() == []


def test_batch_delete_of_nothing_is_zero(bus, management):
    """SB-W-822 an empty queue: 204, or 200 with count 0."""
    assert _delete(management, bus, 10) == 0


def test_batch_delete_keeps_newer_messages(bus, peer, queue, management):
    """SB-W-823 messages enqueued after the given time stay."""
    _send(peer, queue, "old")
    bus.advance(10)
    _send(peer, queue, "new")
    assert _delete(management, bus, 10, older_by_seconds=5) == 1
    assert management.peek_texts() == ["new"]


def test_batch_delete_skips_locked_messages(bus, peer, queue, management, tokens):
    """SB-W-824 a locked message is not deleted and can be completed."""
    (token,) = tokens("locked")
    _send(peer, queue, "free")
    assert _delete(management, bus, 10) == 1
    assert _settle(management, "completed", token) == (200, None)
    assert management.peek_texts() == []


def test_batch_delete_on_the_dead_letters(bus, peer, queue, management, tokens):
    """SB-W-825 the sub-queue is emptied in the same way."""
    (token,) = tokens("x")
    _settle(management, "suspended", token)
    dead_letters = Management(peer, f"{queue}/$DeadLetterQueue")
    assert _delete(dead_letters, bus, 10) == 1
    assert dead_letters.peek_texts() == []
