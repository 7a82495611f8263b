"""SB-I-01xx: AutoDeleteOnIdle: unused entities are deleted.

A queue is idle without sends, receives and updates; a topic without sends and updates;
a subscription without receives, updates and new rules. Each case has its own bus and
moves the clock in steps below the idle time.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from twinbus.errors import ServiceBusError as Refusal
from twinbus.rules.sql.rule_checks import check_rule, sql_filter

from .inspection import exists
from .sdk import receive_one, text_of

IDLE = timedelta(minutes=5)
STEP = timedelta(minutes=4)


@pytest.fixture
def idle(own_sync):
    """A queue, and a topic with a subscription; all end after five idle minutes."""
    bus = own_sync.bus
    bus.create_queue("q", auto_delete_on_idle=IDLE, lock_duration=IDLE)
    bus.create_topic("t", auto_delete_on_idle=IDLE)
    bus.create_subscription("t", "s", auto_delete_on_idle=IDLE)
    return own_sync


def _queue_exists(sdk):
    try:
        sdk.sender("q")
    except ServiceBusAuthenticationError:
        return False
    return True


def test_idle_queue_is_deleted(idle):
    """SB-I-0101 not before its time, and then for senders and receivers alike."""
    idle.bus.advance(STEP)
    idle.bus.update_queue("q", max_delivery_count=5)
    idle.bus.advance(STEP)
    assert exists(idle.bus, "q")
    idle.bus.advance(timedelta(minutes=2))
    with pytest.raises(ServiceBusAuthenticationError):
        idle.sender("q")
    with pytest.raises(ServiceBusAuthenticationError):
        idle.receiver("q")


@pytest.mark.setups("one", "brokers")
def test_idle_partitioned_queue_is_deleted(own_sync):
    """SB-I-0117 wherever its fragments are, and not while it is used."""
    bus = own_sync.bus
    bus.create_queue("q", auto_delete_on_idle=IDLE, enable_partitioning=True)
    sender = own_sync.sender("q")
    for _ in range(2):
        sender.send_messages(ServiceBusMessage("x"))
        bus.advance(STEP)
    assert exists(bus, "q")
    sender.close()
    bus.advance(STEP)
    bus.advance(timedelta(minutes=2))
    assert not exists(bus, "q")


def test_sending_keeps_a_queue(idle):
    """SB-I-0102 every send begins the idle time anew."""
    sender = idle.sender("q")
    for _ in range(3):
        sender.send_messages(ServiceBusMessage("x"))
        idle.bus.advance(STEP)
    assert _queue_exists(idle)


def test_receiving_keeps_a_queue(idle):
    """SB-I-0103 a receive that finds a message counts."""
    idle.sender("q").send_messages([ServiceBusMessage("x")] * 3)
    receiver = idle.receiver("q")
    for _ in range(3):
        idle.bus.advance(STEP)
        receiver.receive_messages(1, max_wait_time=5)
    assert _queue_exists(idle)


def test_peeking_keeps_a_queue(idle):
    """SB-I-0104 looking counts as well."""
    receiver = idle.receiver("q")
    for _ in range(3):
        idle.bus.advance(STEP)
        receiver.peek_messages()
    assert _queue_exists(idle)


def test_queue_is_deleted_with_its_messages(idle):
    """SB-I-0105 idle is who is not used, empty or not; made again it is empty."""
    idle.sender("q").send_messages(ServiceBusMessage("x"))
    idle.close_handlers()
    idle.bus.advance(IDLE + timedelta(minutes=1))
    assert not _queue_exists(idle)
    idle.bus.create_queue("q")
    assert idle.receiver("q").peek_messages() == []


def test_queue_without_the_setting_stays(own_sync):
    """SB-I-0106 by default nothing is deleted."""
    own_sync.bus.create_queue("q")
    own_sync.bus.advance(timedelta(minutes=30))
    assert _queue_exists(own_sync)


def test_idle_topic_is_deleted_with_its_subscriptions(own_sync):
    """SB-I-0107 its subscriptions go along, though they have no idle time."""
    bus = own_sync.bus
    bus.create_topic("t", auto_delete_on_idle=IDLE)
    bus.create_subscription("t", "s")
    bus.advance(IDLE + timedelta(minutes=1))
    with pytest.raises(ServiceBusAuthenticationError):
        own_sync.topic_sender("t")
    with pytest.raises(ServiceBusAuthenticationError):
        own_sync.subscription_receiver("t", "s")


def test_idle_time_begins_when_the_last_receiver_has_gone(idle):
    """SB-I-0114 a queue that was received from for long is not idle at once."""
    receiver = idle.receiver("q")
    for _ in range(3):
        idle.bus.advance(STEP)
    receiver.close()
    idle.bus.advance(STEP)
    assert exists(idle.bus, "q")
    idle.bus.advance(STEP)
    assert not _queue_exists(idle)


def test_use_of_a_subscription_keeps_its_topic(idle):
    """SB-I-0115 a topic is in use as long as one of its subscriptions is."""
    idle.bus.create_subscription("t", "other")
    for _ in range(3):
        idle.bus.advance(STEP)
        idle.bus.update_subscription("t", "other", max_delivery_count=5)
    idle.topic_sender("t")
    with pytest.raises(ServiceBusAuthenticationError):
        idle.subscription_receiver("t", "s")


def test_sending_keeps_a_topic_and_not_its_subscription(idle):
    """SB-I-0108 a subscription that nobody receives from is idle."""
    sender = idle.topic_sender("t")
    for _ in range(2):
        sender.send_messages(ServiceBusMessage("x"))
        idle.bus.advance(STEP)
    idle.topic_sender("t")
    with pytest.raises(ServiceBusAuthenticationError):
        idle.subscription_receiver("t", "s")


def test_receiving_keeps_a_subscription(idle):
    """SB-I-0109 while the topic is sent to, receiving keeps the subscription."""
    sender = idle.topic_sender("t")
    receiver = idle.subscription_receiver("t", "s")
    for number in range(3):
        sender.send_messages(ServiceBusMessage(str(number)))
        message = receive_one(receiver)
        assert text_of(message) == str(number)
        receiver.complete_message(message)
        idle.bus.advance(STEP)
    idle.subscription_receiver("t", "s")


def test_new_rule_keeps_a_subscription(idle):
    """SB-I-0110 a new rule is a use of the subscription."""
    idle.bus.update_topic("t", auto_delete_on_idle=timedelta(days=1))
    idle.bus.advance(STEP)
    rule = check_rule("r", sql_filter("1 = 1"), None, 0)
    idle.bus.add_rule("t", "s", rule)
    idle.bus.advance(STEP)
    assert exists(idle.bus, "t/Subscriptions/s")


def test_scheduled_message_keeps_a_queue(idle):
    """SB-I-0111 a queue that waits for a scheduled message is not idle."""
    due = idle.bus.now() + timedelta(minutes=20)
    idle.sender("q").schedule_messages(ServiceBusMessage("x"), due)
    idle.close_handlers()
    for _ in range(6):
        idle.bus.advance(STEP)
    assert text_of(receive_one(idle.receiver("q"))) == "x"


def test_queue_that_forwards_is_in_use(idle):
    """SB-I-0116 forwarding is like a receiver: the source stays, and works."""
    bus = idle.bus
    bus.create_queue("target")
    bus.create_queue("source", forward_to="target", auto_delete_on_idle=IDLE)
    for _ in range(3):
        bus.advance(STEP)
    idle.sender("source").send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(idle.receiver("target"))) == "x"


def test_idle_time_has_a_least(own_sync):
    """SB-I-0112 less than five minutes is refused, with the limit."""
    with pytest.raises(Refusal, match="300000 ms"):
        own_sync.bus.create_queue("q", auto_delete_on_idle=timedelta(minutes=4))


def test_idle_time_goes_on_after_a_restart(idle):
    """SB-I-0113 the setting survives, and an unused queue ends after a restart."""
    idle.bus.restart()
    idle.bus.advance(IDLE + timedelta(minutes=1))
    assert not exists(idle.bus, "q")
    idle.bus.restart()
    assert not _queue_exists(idle)
