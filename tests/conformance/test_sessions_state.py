"""SB-S-3xx: the state of a session, the list of sessions, peeking in a session."""

from datetime import timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
)
from azure.servicebus.exceptions import ServiceBusError, SessionLockLostError

from .sdk import receive, receive_one, send_by_session, texts_of


@pytest.fixture
def queue(make_queue):
    """A queue that requires sessions."""
    return make_queue(requires_session=True)


def _send(sdk, queue, *session_ids):
    send_by_session(
        sdk.sender(queue),
        [
            ServiceBusMessage(f"{number}", session_id=session_id)
            for number, session_id in enumerate(session_ids)
        ],
    )


def test_state_is_none_until_it_is_set(sdk, queue):
    """SB-S-301 set, read, replaced, cleared."""
    session = sdk.session_receiver(queue, "a").session
    assert session.get_state() is None
    session.set_state("first")
    assert session.get_state() == b"first"
    session.set_state(b"\x00\xff")
    assert session.get_state() == b"\x00\xff"
    session.set_state(b"")
    assert session.get_state() is None
    session.set_state(None)
    assert session.get_state() is None


def test_state_outlives_the_messages_and_the_holder(sdk, queue):
    """SB-S-302 an empty session keeps its state."""
    _send(sdk, queue, "a")
    receiver = sdk.session_receiver(queue, "a")
    receiver.session.set_state("kept")
    receiver.complete_message(receive_one(receiver))
    receiver.close()
    assert sdk.session_receiver(queue, "a").session.get_state() == b"kept"
    assert sdk.session_receiver(queue, "b").session.get_state() is None


def test_state_needs_the_lock_of_the_session(sdk, bus, make_queue):
    """SB-S-303 reading and writing raise `SessionLockLostError` after it was lost."""
    queue = make_queue(requires_session=True, lock_duration=timedelta(seconds=30))
    session = sdk.session_receiver(queue, "a").session
    session.set_state("before")
    bus.advance(31)
    with pytest.raises(SessionLockLostError):
        session.set_state("after")
    with pytest.raises(SessionLockLostError):
        session.get_state()
    assert sdk.session_receiver(queue, "a").session.get_state() == b"before"


def test_state_that_is_too_large_is_refused(sdk, queue):
    """SB-S-304 it may be as large as a message; the old one stays."""
    session = sdk.session_receiver(queue, "a").session
    session.set_state(bytes(262_144))
    with pytest.raises(ServiceBusError, match="262145 bytes is larger"):
        session.set_state(bytes(262_145))
    assert session.get_state() == bytes(262_144)


def test_list_has_sessions_with_messages_or_state(sdk, queue):
    """SB-S-305 and no others, each once, held or not."""
    _send(sdk, queue, "with messages", "with both", "with both", "emptied")
    for session_id in ("with both", "with state"):
        sdk.session_receiver(queue, session_id).session.set_state("x")
    receiver = sdk.session_receiver(queue, "emptied")
    receiver.complete_message(receive_one(receiver))
    assert sorted(sdk.session_ids(queue)) == [
        "with both",
        "with messages",
        "with state",
    ]


def test_list_of_many_sessions_comes_in_pages(sdk, queue):
    """SB-S-306 a hundred at a time, none twice, none left out."""
    session_ids = [f"s{number:03}" for number in range(250)]
    _send(sdk, queue, *session_ids)
    assert sorted(sdk.session_ids(queue)) == session_ids


def test_list_of_sessions_whose_state_was_set_since(sdk, bus, queue):
    """SB-S-307 `state_updated_after` asks for states, not for messages."""
    _send(sdk, queue, "only messages")
    sdk.session_receiver(queue, "old").session.set_state("x")
    bus.advance(10)
    since = bus.now()
    bus.advance(1)
    sdk.session_receiver(queue, "new").session.set_state("x")
    assert sdk.session_ids(queue, state_updated_after=since) == ["new"]
    before = since - timedelta(seconds=30)
    found = sdk.session_ids(queue, state_updated_after=before)
    assert sorted(found) == ["new", "old"]


def test_list_of_a_queue_without_sessions(sdk, make_queue):
    """SB-S-308 an empty list where there are none, an error where there can't be."""
    assert sdk.session_ids(make_queue(requires_session=True)) == []
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        sdk.session_ids(make_queue())


def test_peek_within_a_session(sdk, queue):
    """SB-S-309 its messages of every state, and of no other session."""
    _send(sdk, queue, "a", "b", "a", "b", "a")
    receiver = sdk.session_receiver(queue, "a")
    receiver.defer_message(receive_one(receiver))
    peeked = receiver.peek_messages(10, sequence_number=1)
    assert texts_of(peeked) == ["0", "2", "4"]
    assert peeked[0].state == ServiceBusMessageState.DEFERRED
    assert texts_of(receiver.peek_messages(1, sequence_number=2)) == ["2"]


def test_restart_keeps_sessions(own):
    """SB-S-310 messages by session in order, deferred ones, states, counts."""
    own.bus.create_queue("kept", requires_session=True)
    _send(own, "kept", "a", "b", "a", "a")
    receiver = own.session_receiver("kept", "a")
    first, second, _ = receive(receiver, 3)
    receiver.defer_message(first)
    receiver.abandon_message(second)
    receiver.session.set_state("state of a")
    own.session_receiver("kept", "empty").session.set_state("state of empty")
    own.close_handlers()
    own.bus.restart()
    assert own.session_ids("kept") == ["a", "b", "empty"]
    receiver = own.session_receiver("kept", NEXT_AVAILABLE_SESSION)
    assert receiver.session.session_id == "a"
    messages = receive(receiver, 2)
    assert texts_of(messages) == ["2", "3"]
    assert [message.delivery_count for message in messages] == [1, 0]
    [deferred] = receiver.receive_deferred_messages(first.sequence_number)
    assert texts_of([deferred]) == ["0"]
    assert receiver.session.get_state() == b"state of a"
    empty = own.session_receiver("kept", "empty")
    assert empty.session.get_state() == b"state of empty"
