"""SB-S-1xx: sessions: accepting one, the order within it, its one holder."""

import threading

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
)

from .sdk import (
    assert_nothing_to_receive,
    eventually,
    receive,
    receive_one,
    send_by_session,
    text_of,
    texts_of,
)
from .setups import everywhere


@pytest.fixture
def queue(make_queue):
    """A queue that requires sessions."""
    return make_queue(requires_session=True)


def send(sdk, queue, session_id, *texts):
    send_all(sdk, queue, [(session_id, text) for text in texts])


def send_all(sdk, queue, sendings):
    """Messages given by session and text."""
    send_by_session(
        sdk.sender(queue),
        [
            ServiceBusMessage(text, session_id=session_id)
            for session_id, text in sendings
        ],
    )


@everywhere
def test_named_session_gets_its_own_messages_in_order(sdk, queue):
    """SB-S-101 those of the session, as they were sent, and of no other."""
    texts = [f"a{n}" for n in range(20)]
    send_all(sdk, queue, [(of, text) for text in texts for of in ("a", "b")])
    receiver = sdk.session_receiver(queue, "a")
    messages = receive(receiver, 20)
    assert texts_of(messages) == texts
    assert {message.session_id for message in messages} == {"a"}
    assert_nothing_to_receive(receiver)


def test_accepted_session_says_its_name_and_the_end_of_its_lock(sdk, bus, queue):
    """SB-S-102 `session_id`, and `locked_until_utc` a lock duration from now."""
    send(sdk, queue, "a", "x")
    session = sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION).session
    assert session.session_id == "a"
    left = (session.locked_until_utc - bus.now()).total_seconds()
    assert 290 < left <= 300


def test_empty_session_is_granted_by_name(sdk, queue):
    """SB-S-103 a session without messages can be held, and waited at."""
    receiver = sdk.session_receiver(queue, "nobody sent to it yet")
    assert_nothing_to_receive(receiver)
    send(sdk, queue, "nobody sent to it yet", "x")
    receiver.complete_message(receive_one(receiver))


@pytest.mark.parametrize("session_id", ["", "x" * 128, "\N{SNOWMAN}/ %~"])
def test_odd_session_ids(sdk, queue, session_id):
    """SB-S-104 the empty string, the longest, and any characters."""
    send(sdk, queue, session_id, "x")
    receiver = sdk.session_receiver(queue, session_id)
    assert receive_one(receiver).session_id == session_id


def test_session_id_that_is_too_long_is_refused(sdk, queue):
    """SB-S-105 129 characters: neither sent nor accepted."""
    with pytest.raises(ServiceBusError, match="129 characters; at most 128"):
        sdk.receiver(queue, session_id="x" * 129)


def test_session_that_is_held_cannot_be_accepted(sdk, queue):
    """SB-S-106 `SessionCannotBeLockedError`, and the holder keeps it."""
    send(sdk, queue, "a", "x")
    holder = sdk.session_receiver(queue, "a")
    with pytest.raises(SessionCannotBeLockedError):
        sdk.session_receiver(queue, "a")
    holder.complete_message(receive_one(holder))


@everywhere
def test_next_sessions_are_different_ones(sdk, queue):
    """SB-S-107 each receiver gets one that nobody holds."""
    send_all(sdk, queue, [(session_id, f"of {session_id}") for session_id in "abc"])
    receivers = [sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION) for _ in "abc"]
    held = [receiver.session.session_id for receiver in receivers]
    assert sorted(held) == ["a", "b", "c"]
    for session_id, receiver in zip(held, receivers, strict=True):
        assert text_of(receive_one(receiver)) == f"of {session_id}"


def test_next_session_times_out_where_there_is_none(sdk, queue):
    """SB-S-108 `OperationTimeoutError`: empty, or all are held."""
    with pytest.raises(OperationTimeoutError):
        sdk.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.2)
    send(sdk, queue, "a", "x")
    sdk.session_receiver(queue, "a")
    with pytest.raises(OperationTimeoutError):
        sdk.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.2)


def test_next_session_is_waited_for(sdk, queue):
    """SB-S-109 the attach is answered when a message makes a session available."""
    accepted = []

    def accept():
        accepted.append(sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION))

    waiting = threading.Thread(target=accept)
    waiting.start()
    sdk.sender(queue)
    assert accepted == []
    send(sdk, queue, "late", "x")
    waiting.join(20)
    assert accepted[0].session.session_id == "late"
    assert text_of(receive_one(accepted[0])) == "x"


def test_closed_session_is_free_at_once(sdk, queue):
    """SB-S-110 what was not settled is there for the next, with its count."""
    send(sdk, queue, "a", "x", "y")
    receiver = sdk.session_receiver(queue, "a")
    assert texts_of(receive(receiver, 2)) == ["x", "y"]
    receiver.close()
    receiver = sdk.session_receiver(queue, "a")
    messages = receive(receiver, 2)
    assert texts_of(messages) == ["x", "y"]
    assert [message.delivery_count for message in messages] == [0, 0]


def test_session_of_a_lost_connection_is_free(sdk, queue):
    """SB-S-111 as if it had been closed."""
    send(sdk, queue, "a", "x")
    client = sdk.client(logging_enable=False)
    receive_one(sdk.session_receiver(queue, "a", client=client))
    client.close()
    receiver = sdk.session_receiver(queue, "a")
    assert receive_one(receiver).delivery_count == 0


def test_abandoned_message_comes_first_again(sdk, queue):
    """SB-S-112 order holds: the abandoned one, then those behind it."""
    send(sdk, queue, "a", "1", "2", "3")
    receiver = sdk.session_receiver(queue, "a")
    first = receive_one(receiver)
    receiver.abandon_message(first)
    messages = receive(receiver, 3)
    assert texts_of(messages) == ["1", "2", "3"]
    assert [message.delivery_count for message in messages] == [1, 0, 0]


def test_receive_and_delete_in_a_session(sdk, queue):
    """SB-S-113 messages are gone once received, in order."""
    send(sdk, queue, "a", *"12345")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sdk.session_receiver(queue, "a", receive_mode=mode)
    assert texts_of(receive(receiver, 5)) == list("12345")
    assert receiver.peek_messages() == []


def test_prefetch_in_a_session(sdk, queue):
    """SB-S-114 with prefetch the order is the same."""
    send(sdk, queue, "a", *(f"{n}" for n in range(30)))
    receiver = sdk.session_receiver(queue, "a", prefetch_count=10)
    got = []
    while len(got) < 30:
        message = receive_one(receiver)
        got.append(text_of(message))
        receiver.complete_message(message)
    assert got == [f"{n}" for n in range(30)]


def test_session_needs_a_session_receiver_and_a_session_id(sdk, queue):
    """SB-S-115 a plain receiver and a message without session id are refused."""
    with pytest.raises(ServiceBusError, match="requires sessions"):
        sdk.receiver(queue)
    with pytest.raises(ServiceBusError, match="requires sessions"):
        sdk.sender(queue).send_messages(ServiceBusMessage("x"))


def test_queue_without_sessions_takes_session_ids_as_data(sdk, make_queue):
    """SB-S-116 they come through, the order is the queue's, and there is nothing to
    accept."""
    queue = make_queue()
    send_all(sdk, queue, [(f"s{number % 2}", f"{number}") for number in range(4)])
    messages = receive(sdk.receiver(queue), 4)
    assert texts_of(messages) == ["0", "1", "2", "3"]
    assert [message.session_id for message in messages] == ["s0", "s1", "s0", "s1"]
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        sdk.session_receiver(queue, "s0")


def test_dead_letters_of_a_session_queue_need_no_session(sdk, queue):
    """SB-S-117 a plain receiver reads them, with their session ids."""
    send_all(sdk, queue, [("a", "x"), ("b", "y")])
    for session_id in ("a", "b"):
        receiver = sdk.session_receiver(queue, session_id)
        receiver.dead_letter_message(receive_one(receiver), reason="bad")
    letters = receive(sdk.dead_letter_receiver(queue), 2)
    assert [(text_of(m), m.session_id) for m in letters] == [("x", "a"), ("y", "b")]
    assert letters[0].dead_letter_reason == "bad"


def test_message_that_fails_too_often_is_dead_lettered(sdk, make_queue):
    """SB-S-118 MaxDeliveryCount holds within a session; the next message follows."""
    queue = make_queue(requires_session=True, max_delivery_count=2)
    send(sdk, queue, "a", "bad", "good")
    receiver = sdk.session_receiver(queue, "a")
    for count in (0, 1):
        message = receive_one(receiver)
        assert (text_of(message), message.delivery_count) == ("bad", count)
        receiver.abandon_message(message)
    assert text_of(receive_one(receiver)) == "good"
    letter = receive_one(sdk.dead_letter_receiver(queue))
    assert letter.dead_letter_reason == "MaxDeliveryCountExceeded"


def test_scheduled_message_belongs_to_its_session(sdk, bus, queue):
    """SB-S-119 when its time has come it is the session's next message."""
    send(sdk, queue, "a", "now")
    later = bus.now().replace(microsecond=0)
    sdk.sender(queue).schedule_messages(
        ServiceBusMessage("later", session_id="a"), later.replace(year=later.year + 1)
    )
    due = ServiceBusMessage("due", session_id="a")
    sdk.sender(queue).schedule_messages(due, later)
    receiver = sdk.session_receiver(queue, "a")
    assert texts_of(receive(receiver, 2)) == ["now", "due"]
    with pytest.raises(ServiceBusError, match="requires sessions"):
        sdk.sender(queue).schedule_messages(ServiceBusMessage("none"), later)


def test_many_sessions_are_shared_out_to_competing_receivers(sdk, queue):
    """SB-S-120 every session once, each by one receiver, each in order."""
    session_ids = [f"s{number}" for number in range(8)]
    for text in ("first", "second"):
        send_all(sdk, queue, [(session_id, text) for session_id in session_ids])
    seen = {}
    while len(seen) < 8:
        receiver = sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION)
        messages = receive(receiver, 2)
        seen[receiver.session.session_id] = texts_of(messages)
        for message in messages:
            receiver.complete_message(message)
    assert sorted(seen) == session_ids
    assert all(texts == ["first", "second"] for texts in seen.values())
    eventually(lambda: sdk.session_ids(queue) == [], "all sessions are empty")
