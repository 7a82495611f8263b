"""SB-B-01xx: what a restart keeps of entities, rules, sessions and histories.

Each case has its own bus, restarts it while no client is connected, and continues with
new clients. Messages of plain queues have cases of their own; what a kill leaves is
tested with processes.
"""

from datetime import timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
)
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    sql_action,
    sql_filter,
)

from .inspection import inside
from .sdk import eventually, receive, receive_one, send_by_session, text_of, texts_of

LONG_LOCK = timedelta(minutes=5)


@pytest.fixture
def kept(own_sync):
    """A bus with a topic and its subscription `s`."""
    own_sync.bus.create_topic("t")
    own_sync.bus.create_subscription("t", "s", lock_duration=LONG_LOCK)
    return own_sync


def _restart(sdk):
    sdk.close_handlers()
    sdk.bus.restart()


def _publish(sdk, *texts, **options):
    messages = [ServiceBusMessage(text, **options) for text in texts]
    sdk.topic_sender("t").send_messages(messages)


def _held(sdk, subscription="s"):
    receiver = sdk.subscription_receiver("t", subscription)
    return texts_of(receiver.peek_messages(50))


# --- topics, subscriptions, rules -------------------------------------------------


def test_restart_keeps_messages_of_subscriptions(kept):
    """SB-B-0101 copies stay in order, settled ones stay away, counts are kept."""
    kept.bus.create_subscription("t", "other")
    _publish(kept, "done", "again", "stays")
    receiver = kept.subscription_receiver("t", "s")
    done, again, _ = receive(receiver, 3)
    receiver.complete_message(done)
    receiver.abandon_message(again)
    _restart(kept)
    messages = receive(kept.subscription_receiver("t", "s"), 2)
    assert texts_of(messages) == ["again", "stays"]
    assert [message.delivery_count for message in messages] == [1, 0]
    assert [message.sequence_number for message in messages] == [2, 3]
    assert _held(kept, "other") == ["done", "again", "stays"]


def test_restart_keeps_rules(kept):
    """SB-B-0102 rules of every kind select, and act, as before."""
    bus = kept.bus
    rules = {
        "sql": sql_filter("n > @least", {"@least": 1}),
        "correlation": correlation_filter({"label": "l"}, {"n": 1}),
    }
    for name, chosen in rules.items():
        bus.create_subscription("t", name, [check_rule("r", chosen, None, 0)])
    action = sql_action("SET n = n + @more", {"@more": 10})
    acting = check_rule("acts", sql_filter("1 = 1"), action, 0)
    bus.create_subscription("t", "action", [acting])
    bus.create_subscription("t", "nothing", [])
    bus.add_rule("t", "s", check_rule("later", sql_filter("1 = 0"), None, 0))
    bus.remove_rule("t", "s", "$Default")
    _restart(kept)
    for n in (1, 2):
        _publish(kept, str(n), subject="l", application_properties={"n": n})
    assert _held(kept, "sql") == ["2"]
    assert _held(kept, "correlation") == ["1"]
    assert (_held(kept, "nothing"), _held(kept)) == ([], [])
    changed = kept.subscription_receiver("t", "action").peek_messages(5)
    assert [m.application_properties[b"n"] for m in changed] == [11, 12]
    assert changed[0].application_properties[b"RuleName"] == b"acts"


def test_restart_keeps_shared_bodies_of_those_who_need_them(kept):
    """SB-B-0103 a body lives as long as one subscription has it."""
    for name in ("a", "b"):
        kept.bus.create_subscription("t", name, lock_duration=LONG_LOCK)
    body = "x" * 50_000
    _publish(kept, body)
    receiver = kept.subscription_receiver("t", "a")
    receiver.complete_message(receive_one(receiver))
    kept.bus.delete_subscription("t", "s")
    _restart(kept)
    receiver = kept.subscription_receiver("t", "b")
    message = receive_one(receiver)
    assert text_of(message) == body
    receiver.dead_letter_message(message, reason="r")
    _restart(kept)
    assert text_of(receive_one(kept.subscription_dead_letters("t", "b"))) == body


def test_restart_does_not_bring_back_what_was_deleted(kept):
    """SB-B-0104 deleted subscriptions, topics and queues stay away."""
    bus = kept.bus
    bus.create_queue("q")
    bus.create_topic("gone")
    bus.create_subscription("gone", "s")
    _publish(kept, "x")
    bus.delete_queue("q")
    bus.delete_topic("gone")
    bus.delete_subscription("t", "s")
    _restart(kept)
    for missing in (
        lambda: kept.sender("q"),
        lambda: kept.topic_sender("gone"),
        lambda: kept.subscription_receiver("t", "s"),
    ):
        with pytest.raises(ServiceBusAuthenticationError):
            missing()
    bus.create_subscription("t", "s")
    assert _held(kept) == []


def test_restart_keeps_dead_letters_and_deferred_of_subscriptions(kept):
    """SB-B-0105 with reason and number; filter failures too."""
    failing = check_rule("f", sql_filter("sys.Nothing = 1"), None, 0)
    kept.bus.create_subscription("t", "failing", [failing])
    _publish(kept, "dead", "deferred")
    receiver = kept.subscription_receiver("t", "s")
    dead, deferred = receive(receiver, 2)
    receiver.dead_letter_message(dead, reason="r", error_description="d")
    receiver.defer_message(deferred)
    _restart(kept)
    letter = receive_one(kept.subscription_dead_letters("t", "s"))
    assert (text_of(letter), letter.dead_letter_reason) == ("dead", "r")
    assert letter.dead_letter_error_description == "d"
    receiver = kept.subscription_receiver("t", "s")
    (again,) = receiver.receive_deferred_messages(deferred.sequence_number)
    receiver.complete_message(again)
    assert _held(kept) == []
    assert len(receive(kept.subscription_dead_letters("t", "failing"), 2)) == 2


def test_restart_keeps_scheduled_messages_of_a_topic(kept):
    """SB-B-0106 they come to subscriptions in time, or are cancelled."""
    due = kept.bus.now() + timedelta(seconds=60)
    messages = [ServiceBusMessage("stays"), ServiceBusMessage("goes")]
    numbers = kept.topic_sender("t").schedule_messages(messages, due)
    _restart(kept)
    kept.topic_sender("t").cancel_scheduled_messages(numbers[1])
    assert _held(kept) == []
    kept.bus.advance(61)
    assert _held(kept) == ["stays"]


def test_scheduled_message_that_fell_due_while_the_bus_was_down(kept):
    """SB-B-0107 it comes with the start."""
    kept.bus.create_queue("q")
    due = kept.bus.now() + timedelta(seconds=30)
    kept.sender("q").schedule_messages(ServiceBusMessage("queue"), due)
    kept.topic_sender("t").schedule_messages(ServiceBusMessage("topic"), due)
    kept.close_handlers()
    kept.bus.stop()
    kept.bus.clock.advance(60_000)
    kept.bus.start()
    assert text_of(receive_one(kept.receiver("q"))) == "queue"
    assert text_of(receive_one(kept.subscription_receiver("t", "s"))) == "topic"


def test_time_to_live_goes_on_while_the_bus_is_down(kept):
    """SB-B-0108 what expired meanwhile is not delivered."""
    _publish(kept, "short", time_to_live=timedelta(seconds=30))
    _publish(kept, "long")
    kept.close_handlers()
    kept.bus.stop()
    kept.bus.clock.advance(60_000)
    kept.bus.start()
    assert text_of(receive_one(kept.subscription_receiver("t", "s"))) == "long"


# --- sessions ---------------------------------------------------------------------


def test_restart_keeps_sessions_and_their_states(own):
    """SB-B-0111 state and order of every session; locks are free."""
    own.bus.create_queue("q", requires_session=True, lock_duration=LONG_LOCK)
    send_by_session(
        own.sender("q"),
        [
            ServiceBusMessage(f"{session}{number}", session_id=session)
            for number in range(3)
            for session in ("a", "b")
        ],
    )
    receiver = own.receiver("q", session_id="a")
    receiver.session.set_state(b"half way")
    receiver.complete_message(receive_one(receiver))
    empty = own.receiver("q", session_id="no messages")
    empty.session.set_state(b"alone")
    _restart(own)
    receiver = own.receiver("q", session_id="a")
    assert receiver.session.get_state() == b"half way"
    assert texts_of(receive(receiver, 2)) == ["a1", "a2"]
    other = own.receiver("q", session_id=NEXT_AVAILABLE_SESSION)
    assert other.session.session_id == "b"
    assert texts_of(receive(other, 3)) == ["b0", "b1", "b2"]
    empty = own.receiver("q", session_id="no messages")
    assert empty.session.get_state() == b"alone"


def test_restart_keeps_that_a_state_was_cleared(own_sync):
    """SB-B-0112 a cleared state does not come back."""
    own_sync.bus.create_queue("q", requires_session=True)
    session = own_sync.receiver("q", session_id="a").session
    session.set_state(b"old")
    session.set_state(None)
    _restart(own_sync)
    assert not own_sync.receiver("q", session_id="a").session.get_state()


def test_restart_keeps_deferred_messages_of_a_session(own_sync):
    """SB-B-0113 received by number within their session."""
    own_sync.bus.create_queue("q", requires_session=True)
    own_sync.sender("q").send_messages(ServiceBusMessage("x", session_id="a"))
    receiver = own_sync.receiver("q", session_id="a")
    message = receive_one(receiver)
    receiver.defer_message(message)
    _restart(own_sync)
    receiver = own_sync.receiver("q", session_id="a")
    (again,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(again)


# --- duplicates -------------------------------------------------------------------


def test_restart_keeps_the_history_of_ids(own):
    """SB-B-0121 an id is known after a restart, until its window has passed."""
    own.bus.create_queue(
        "q",
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=5),
    )
    own.sender("q").send_messages(ServiceBusMessage("first", message_id="id"))
    receiver = own.receiver("q")
    receiver.complete_message(receive_one(receiver))
    _restart(own)
    own.bus.advance(120)
    own.sender("q").send_messages(ServiceBusMessage("second", message_id="id"))
    assert own.receiver("q").peek_messages() == []
    _restart(own)
    own.bus.advance(200)
    own.sender("q").send_messages(ServiceBusMessage("third", message_id="id"))
    assert texts_of(own.receiver("q").peek_messages()) == ["third"]


# --- settings ---------------------------------------------------------------------


def test_restart_keeps_forwarding(kept):
    """SB-B-0131 chains work as before, and settings of dead letters too."""
    bus = kept.bus
    bus.create_queue("letters")
    bus.create_queue("target", forward_dead_lettered_messages_to="letters")
    bus.create_queue("source", forward_to="target")
    bus.create_subscription("t", "forwards", forward_to="source")
    _restart(kept)
    _publish(kept, "x")
    receiver = kept.receiver("target")
    message = receive_one(receiver)
    assert text_of(message) == "x"
    receiver.dead_letter_message(message)
    assert text_of(receive_one(kept.receiver("letters"))) == "x"
    with pytest.raises(ServiceBusError):
        kept.receiver("source")


def test_restart_keeps_where_a_message_was_forwarded_from(kept):
    """SB-B-0132 the number it had first, and the source of a dead letter."""
    bus = kept.bus
    bus.create_queue("letters")
    bus.create_queue("target")
    bus.create_queue(
        "source", forward_to="target", forward_dead_lettered_messages_to="letters"
    )
    kept.sender("source").send_messages(ServiceBusMessage("first"))
    bus.update_queue("target", status="Disabled")
    kept.sender("source").send_messages(ServiceBusMessage("second"))
    peeking = kept.receiver("letters")
    eventually(lambda: bool(peeking.peek_messages(1)), "the dead letter was forwarded")
    bus.update_queue("target", status="Active")
    _restart(kept)
    (first,) = receive(kept.receiver("target"), 1)
    assert first.enqueued_sequence_number == 1
    (second,) = receive(kept.receiver("letters"), 1)
    assert second.dead_letter_source == "source"


def test_restart_keeps_the_status(kept):
    """SB-B-0133 what was disabled is disabled."""
    kept.bus.create_queue("q")
    kept.bus.update_queue("q", status="SendDisabled")
    kept.bus.update_topic("t", status="Disabled")
    kept.bus.update_subscription("t", "s", status="ReceiveDisabled")
    _restart(kept)
    for refused in (
        lambda: kept.sender("q"),
        lambda: kept.topic_sender("t"),
        lambda: kept.subscription_receiver("t", "s"),
    ):
        with pytest.raises(MessagingEntityDisabledError):
            refused()
    kept.receiver("q")


@inside
def test_restart_keeps_settings_of_every_entity(kept):
    """SB-B-0134 all that was set at creation or by an update."""
    bus = kept.bus
    bus.create_queue(
        "q",
        requires_session=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=3),
        max_size_in_megabytes=2048,
        default_message_time_to_live=timedelta(days=2),
        dead_lettering_on_message_expiration=True,
        user_metadata="m",
    )
    bus.update_queue("q", lock_duration=timedelta(seconds=45), max_delivery_count=7)
    bus.create_topic("u", requires_duplicate_detection=True, user_metadata="topic")
    bus.create_subscription(
        "u", "s", dead_lettering_on_filter_evaluation_exceptions=False
    )
    before = _settings(bus)
    _restart(kept)
    assert _settings(bus) == before
    namespace = bus.server.namespace
    queue = namespace.queue("q").description
    assert (queue.lock_duration_ms, queue.max_delivery_count) == (45_000, 7)


def _settings(bus):
    """Every entity's record and description."""
    entities = bus.server.namespace.entities()
    return {entity.path: (entity.record, entity.description) for entity in entities}


def test_scheduled_message_stays_scheduled_through_restarts(own_sync):
    """SB-B-0135 three restarts before its time; its number still cancels it."""
    own_sync.bus.create_queue("q")
    due = own_sync.bus.now() + timedelta(seconds=100)
    sender = own_sync.sender("q")
    numbers = sender.schedule_messages(
        [ServiceBusMessage("a"), ServiceBusMessage("b")], due
    )
    for _ in range(3):
        _restart(own_sync)
        own_sync.bus.advance(20)
    (first, second) = own_sync.receiver("q").peek_messages(5)
    assert first.state == second.state == ServiceBusMessageState.SCHEDULED
    own_sync.sender("q").cancel_scheduled_messages(numbers[0])
    own_sync.bus.advance(50)
    assert texts_of(own_sync.receiver("q").peek_messages(5)) == ["b"]
