"""SB-W-19xx: `twinbus:cancel-sent`: cancels messages that were not delivered yet."""

import itertools

import pytest

from .codec import Array, Symbol, Timestamp
from .frames import ACCEPTED, outcome
from .management import Management
from .message import data_message
from .own_annotations import identified

_numbers = itertools.count(1)


@pytest.fixture
def backlog(bus):
    path = f"away/x-servicebus-transfer/{next(_numbers)}"
    bus.create_queue(path)
    return path


@pytest.fixture
def management(peer, backlog):
    return Management(peer, backlog)


def request(management, send_ids):
    body = {"send-ids": send_ids}
    return management.request({"operation": "twinbus:cancel-sent"}, body)


def cancel(management, *send_ids):
    """Which of them were cancelled."""
    answer = request(management, list(send_ids))
    assert answer.status == 200
    return answer.body["cancelled"]


def scheduled(bus, text, send_id):
    due = Timestamp(bus.clock.now() + 60_000)
    annotations = {"x-opt-scheduled-enqueue-time": due}
    return identified(text, send_id, annotations=annotations)


def test_scheduled_messages_are_taken_back(bus, peer, queue):
    """SB-W-1901 those that are named, in the order of the request."""
    sender = peer.sender(queue)
    for number in range(3):
        sender.send(scheduled(bus, str(number), bytes([number + 1])))
    management = Management(peer, queue)
    cancelled = cancel(management, b"\x03", b"?", b"\x01", b"\x03")
    assert cancelled == [True, False, True, True]
    assert management.peek_texts() == ["1"]
    bus.advance(61)
    assert management.peek_texts() == ["1"]


def test_active_messages_of_an_ordinary_queue_stay(peer, queue):
    """SB-W-1902 receivers may have them."""
    management = Management(peer, queue)
    peer.sender(queue).send(identified("x", b"1"))
    assert cancel(management, b"1") == [False]
    assert management.peek_texts() == ["x"]


def test_backlog_queue_gives_back_active_and_scheduled_ones(
    bus, peer, backlog, management
):
    """SB-W-1903 they have not reached anybody there."""
    sender = peer.sender(backlog)
    sender.send(identified("active", b"1"))
    sender.send(scheduled(bus, "scheduled", b"2"))
    sender.send(identified("other", b"3"))
    sender.send(data_message("plain"))
    assert cancel(management, b"1", b"2") == [True, True]
    assert management.peek_texts() == ["other", "plain"]
    assert bus.server.namespace.entity(backlog).counts().active == 2


def test_what_a_receiver_holds_stays(peer, backlog, management):
    """SB-W-1904 it may be on its way to the primary."""
    sender, receiver = peer.sender(backlog), peer.receiver(backlog)
    sender.send(identified("held", b"1"))
    sender.send(identified("ready", b"2"))
    [delivery] = receiver.take()
    assert cancel(management, b"1", b"2") == [False, True]
    receiver.settle(delivery.delivery_id, outcome(ACCEPTED))
    assert receiver.verdict_of(delivery.delivery_id) == (ACCEPTED, None)
    assert management.peek_texts() == []


def test_cancelled_message_is_not_delivered(peer, backlog, management):
    """SB-W-1905 also if it was in memory, ready."""
    sender, receiver = peer.sender(backlog), peer.receiver(backlog)
    sender.send(identified("x", b"1"))
    assert cancel(management, b"1") == [True]
    receiver.nothing_comes()


def test_copy_of_a_cancelled_message_is_dropped(peer, backlog, management):
    """SB-W-1906 it may still be on its way."""
    sender = peer.sender(backlog)
    sender.send(identified("x", b"1"))
    assert cancel(management, b"1") == [True]
    sender.send(identified("late", b"1"))
    assert management.peek_texts() == []
    assert cancel(management, b"1") == [False]


def test_message_is_found_behind_many_others(peer, backlog, management):
    """SB-W-1907 the queue is read in pages."""
    sender = peer.sender(backlog)
    posted = [sender.post(data_message("x" * 900)) for _ in range(700)]
    posted.append(sender.post(identified("last", b"last")))
    assert {sender.outcome_of(at)[0] for at in posted} == {ACCEPTED}
    assert cancel(management, b"last") == [True]


def test_cancelling_survives_a_restart(bus, connect, backlog):
    """SB-W-1908 it is durable before it is answered."""
    peer = connect()
    peer.sender(backlog).send(identified("x", b"1"))
    assert cancel(Management(peer, backlog), b"1") == [True]
    bus.restart()
    assert Management(connect(), backlog).peek_texts() == []


@pytest.mark.parametrize(
    "send_ids",
    [
        *([], ["text"], [b""], [b"x" * 65], [None], [b"1"] * 101, b"1"),
        Array(0xA3, [Symbol("1")]),
    ],
    ids=["none", "text", "empty", "long", "null", "many", "alone", "symbols"],
)
def test_what_is_no_list_of_ids_is_refused(peer, backlog, management, send_ids):
    """SB-W-1909 and nothing is removed."""
    peer.sender(backlog).send(identified("x", b"1"))
    assert request(management, send_ids).status == 400
    assert management.peek_texts() == ["x"]


def test_array_and_most_ids_are_taken(peer, backlog, management):
    """SB-W-1910 a hundred."""
    send_ids = [bytes([number]) for number in range(100)]
    answer = request(management, Array(0xA0, send_ids))
    assert (answer.status, answer.body["cancelled"]) == (200, [False] * 100)


def test_the_right_to_send_is_needed(bus, dial, backlog):
    """SB-W-1911 as to cancel what is scheduled."""
    statuses = []
    for claims in (("Listen",), ("Send",)):
        rule = bus._rules[claims]
        peer = dial()
        assert peer.sasl_plain(rule.key_name, rule.primary_key) == 0
        peer.start()
        statuses.append(request(Management(peer, backlog), [b"1"]).status)
    assert statuses == [401, 200]


def test_dead_letters_cannot_be_cancelled(peer, queue):
    """SB-W-1912 nobody sent them there."""
    answer = request(Management(peer, f"{queue}/$DeadLetterQueue"), [b"1"])
    assert (answer.status, answer.condition) == (400, "amqp:not-allowed")


def test_it_has_no_other_name(peer, queue):
    """SB-W-1913 it is not the vendor's."""
    management = Management(peer, queue)
    answer = management.call("twinbus:cancel-sent", {"send-ids": [b"1"]})
    assert answer.status == 501
