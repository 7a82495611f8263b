"""What every client is asked to do, by the SDK for Python, whatever its version.

It runs in an environment that has nothing but the SDK.
"""

import json
import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

WAIT_SECONDS = 10
LONG_LIFE = timedelta(days=60)

_CASES: list[tuple[str, Callable[[], None]]] = []


def case(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def note(function: Callable[[], None]) -> Callable[[], None]:
        _CASES.append((name, function))
        return function

    return note


def tell(name: str, ok: bool | None, text: str = "") -> None:
    print(json.dumps({"case": name, "ok": ok, "text": text}), flush=True)


class NotOffered(Exception):
    """The SDK has no call for it."""


def client_of(transport: str) -> ServiceBusClient:
    options: dict[str, Any] = {"retry_total": 1}
    if transport in ("tls", "wss"):
        options["connection_verify"] = os.environ["SB_CA_FILE"]
    if transport in ("ws", "wss"):
        options["transport_type"] = TransportType.AmqpOverWebsocket
    return ServiceBusClient.from_connection_string(
        os.environ["SB_CONNECTION_STRING"], **options
    )


TRANSPORT = os.environ["SB_TRANSPORT"]
# Older administration clients do not pass `connection_verify` on.
os.environ["REQUESTS_CA_BUNDLE"] = os.environ["SB_CA_FILE"]
CLIENT = client_of(TRANSPORT)
ADMIN = ServiceBusAdministrationClient.from_connection_string(
    # The administration client takes TLS only, whatever the messages go over.
    os.environ["SB_TLS_CONNECTION_STRING"].replace(
        "localhost", f"localhost:{os.environ['SB_PORT']}"
    ),
    connection_verify=os.environ["SB_CA_FILE"],
)


def send(*messages: ServiceBusMessage, queue: str = "work") -> None:
    with CLIENT.get_queue_sender(queue) as sender:
        for message in messages:
            sender.send_messages(message)


def receive(receiver: Any, count: int = 1) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        found += receiver.receive_messages(count - len(found), max_wait_time=2)
    return found


def text_of(message: Any) -> str:
    return str(message)


def work(**options: Any) -> Any:
    return CLIENT.get_queue_receiver("work", **options)


def nothing_in(receiver: Any) -> None:
    assert receiver.peek_messages(10, sequence_number=1) == []


@case("send")
def _() -> None:
    sent = ServiceBusMessage(
        "hello", message_id="one", subject="s", application_properties={"n": 7}
    )
    send(sent)
    with work() as receiver:
        [message] = receive(receiver)
        receiver.complete_message(message)
    assert (text_of(message), message.message_id, message.subject) == (
        "hello",
        "one",
        "s",
    )
    assert message.application_properties == {b"n": 7}


@case("send-batch")
def _() -> None:
    with CLIENT.get_queue_sender("work") as sender:
        batch = sender.create_message_batch()
        for number in range(5):
            batch.add_message(ServiceBusMessage(str(number)))
        sender.send_messages(batch)
    with work() as receiver:
        messages = receive(receiver, 5)
        for message in messages:
            receiver.complete_message(message)
    assert [text_of(message) for message in messages] == list("01234")


@case("no-id")
def _() -> None:
    message = ServiceBusMessage("nameless")
    message.message_id = None
    send(message)
    with work() as receiver:
        [received] = receive(receiver)
        assert received.message_id
        receiver.complete_message(received)
        nothing_in(receiver)


@case("receive-and-delete")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        [message] = receive(receiver)
        assert text_of(message) == "x"
        nothing_in(receiver)


@case("prefetch")
def _() -> None:
    for number in range(3):
        send(ServiceBusMessage(str(number)), queue="ahead")
    with CLIENT.get_queue_receiver("ahead", prefetch_count=10) as receiver:
        for message in receive(receiver, 3):
            receiver.complete_message(message)


@case("complete")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work() as receiver:
        receiver.complete_message(receive(receiver)[0])
        nothing_in(receiver)


@case("abandon")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work() as receiver:
        [message] = receive(receiver)
        assert message.delivery_count == 0
        receiver.abandon_message(message)
        [again] = receive(receiver)
        assert again.delivery_count == 1
        receiver.complete_message(again)


@case("defer")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work() as receiver:
        [message] = receive(receiver)
        receiver.defer_message(message)
        [deferred] = receiver.receive_deferred_messages([message.sequence_number])
        assert text_of(deferred) == "x"
        receiver.complete_message(deferred)
        nothing_in(receiver)


@case("dead-letter")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work() as receiver:
        [message] = receive(receiver)
        receiver.dead_letter_message(message, reason="why", error_description="what")
    with work(sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [letter] = receive(receiver)
        assert (letter.dead_letter_reason, letter.dead_letter_error_description) == (
            "why",
            "what",
        )
        receiver.complete_message(letter)


@case("renew")
def _() -> None:
    send(ServiceBusMessage("x"))
    with work() as receiver:
        [message] = receive(receiver)
        before = message.locked_until_utc
        time.sleep(1.1)
        assert receiver.renew_message_lock(message) > before
        receiver.complete_message(message)


@case("peek")
def _() -> None:
    send(ServiceBusMessage("a"), ServiceBusMessage("b"))
    with work() as receiver:
        peeked = receiver.peek_messages(5, sequence_number=1)
        assert [text_of(message) for message in peeked] == ["a", "b"]
        for message in receive(receiver, 2):
            receiver.complete_message(message)


@case("schedule")
def _() -> None:
    due = datetime.now(UTC) + timedelta(seconds=2)
    life = timedelta(minutes=5)
    with CLIENT.get_queue_sender("work") as sender:
        [number] = sender.schedule_messages(
            ServiceBusMessage("later", time_to_live=life), due
        )
        assert number > 0
    with work() as receiver:
        [message] = receive(receiver)
        assert message.enqueued_time_utc >= due - timedelta(milliseconds=1)
        assert message.time_to_live == life
        receiver.complete_message(message)


@case("cancel")
def _() -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    with CLIENT.get_queue_sender("work") as sender:
        sender.cancel_scheduled_messages(
            sender.schedule_messages(ServiceBusMessage("never"), due)
        )
    with work() as receiver:
        nothing_in(receiver)


@case("time-to-live")
def _() -> None:
    send(ServiceBusMessage("x", time_to_live=timedelta(hours=1)))
    with work() as receiver:
        [message] = receive(receiver)
        assert message.time_to_live == timedelta(hours=1)
        raw = message.raw_amqp_message.properties
        assert raw.absolute_expiry_time - raw.creation_time == 3_600_000
        receiver.complete_message(message)
    # The SDK cannot encode more than 49 days; the entity's own life is told.
    ADMIN.create_queue("lasting", default_message_time_to_live=LONG_LIFE)
    send(ServiceBusMessage("x"), queue="lasting")
    with CLIENT.get_queue_receiver("lasting") as receiver:
        [message] = receive(receiver)
        raw = message.raw_amqp_message.properties
        assert raw.absolute_expiry_time - raw.creation_time == (
            LONG_LIFE.total_seconds() * 1000
        )
        receiver.complete_message(message)
    ADMIN.delete_queue("lasting")


def in_session(session_id: str, *texts: str) -> None:
    send(
        *(ServiceBusMessage(text, session_id=session_id) for text in texts),
        queue="sessions",
    )


@case("session-named")
def _() -> None:
    in_session("a", "1", "2")
    in_session("b", "3")
    with CLIENT.get_queue_receiver("sessions", session_id="b") as receiver:
        [message] = receive(receiver)
        assert (text_of(message), message.session_id) == ("3", "b")
        receiver.complete_message(message)
    with CLIENT.get_queue_receiver("sessions", session_id="a") as receiver:
        messages = receive(receiver, 2)
        assert [text_of(message) for message in messages] == ["1", "2"]
        for message in messages:
            receiver.complete_message(message)


@case("session-next")
def _() -> None:
    in_session("next", "x")
    with CLIENT.get_queue_receiver(
        "sessions", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT_SECONDS
    ) as receiver:
        [message] = receive(receiver)
        assert receiver.session.session_id == message.session_id == "next"
        receiver.complete_message(message)


@case("session-state")
def _() -> None:
    with CLIENT.get_queue_receiver("sessions", session_id="kept") as receiver:
        session = receiver.session
        assert session.get_state() is None
        session.set_state(b"half done")
        assert session.get_state() == b"half done"
        session.set_state(None)
        assert session.get_state() is None


@case("session-renew")
def _() -> None:
    with CLIENT.get_queue_receiver("sessions", session_id="long") as receiver:
        before = receiver.session.locked_until_utc
        time.sleep(1.1)
        assert receiver.session.renew_lock() > before


def publish(*messages: ServiceBusMessage) -> None:
    with CLIENT.get_topic_sender("news") as sender:
        for message in messages:
            sender.send_messages(message)


def subscribed(name: str) -> list[Any]:
    """All that the subscription has; nothing more is on its way."""
    found = []
    with CLIENT.get_subscription_receiver("news", name) as receiver:
        for message in receiver.receive_messages(10, max_wait_time=2):
            receiver.complete_message(message)
            found.append(message)
    return found


@case("topic")
def _() -> None:
    publish(ServiceBusMessage("x", subject="s"))
    [message] = subscribed("all")
    assert (text_of(message), message.subject) == ("x", "s")
    assert len(subscribed("ruled")) == 1


def only_rule(name: str, **settings: Any) -> None:
    for rule in list(ADMIN.list_rules("news", "ruled")):
        ADMIN.delete_rule("news", "ruled", rule.name)
    ADMIN.create_rule("news", "ruled", name, **settings)


@case("rule-sql")
def _() -> None:
    only_rule("large", filter=SqlRuleFilter("amount > 100 AND sys.Label LIKE 'o%'"))
    for amount in (50, 500):
        publish(
            ServiceBusMessage(
                str(amount), subject="order", application_properties={"amount": amount}
            )
        )
    assert [text_of(message) for message in subscribed("ruled")] == ["500"]


@case("rule-correlation")
def _() -> None:
    only_rule("paid", filter=CorrelationRuleFilter(label="paid"))
    publish(
        ServiceBusMessage("yes", subject="paid"), ServiceBusMessage("no", subject="due")
    )
    assert [text_of(message) for message in subscribed("ruled")] == ["yes"]


@case("rule-action")
def _() -> None:
    only_rule(
        "mark", filter=SqlRuleFilter("1=1"), action=SqlRuleAction("SET marked = 'yes'")
    )
    publish(ServiceBusMessage("x"))
    [message] = subscribed("ruled")
    assert message.application_properties[b"marked"] == b"yes"


@case("admin-queue")
def _() -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    ADMIN.create_queue(name, max_delivery_count=4)
    properties = ADMIN.get_queue(name)
    assert properties.max_delivery_count == 4
    assert name in [queue.name for queue in ADMIN.list_queues()]
    properties.max_delivery_count = 6
    ADMIN.update_queue(properties)
    assert ADMIN.get_queue(name).max_delivery_count == 6
    send(ServiceBusMessage("x"), queue=name)
    assert ADMIN.get_queue_runtime_properties(name).active_message_count == 1
    ADMIN.delete_queue(name)
    assert name not in [queue.name for queue in ADMIN.list_queues()]


@case("admin-topic")
def _() -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    ADMIN.create_topic(name)
    properties = ADMIN.get_topic(name)
    assert name in [topic.name for topic in ADMIN.list_topics()]
    properties.default_message_time_to_live = timedelta(hours=3)
    ADMIN.update_topic(properties)
    assert ADMIN.get_topic(name).default_message_time_to_live == timedelta(hours=3)
    ADMIN.delete_topic(name)


@case("admin-subscription")
def _() -> None:
    ADMIN.create_subscription("news", "made", max_delivery_count=4)
    properties = ADMIN.get_subscription("news", "made")
    names = [subscription.name for subscription in ADMIN.list_subscriptions("news")]
    assert "made" in names
    properties.max_delivery_count = 6
    ADMIN.update_subscription("news", properties)
    assert ADMIN.get_subscription("news", "made").max_delivery_count == 6
    ADMIN.delete_subscription("news", "made")


@case("admin-rule")
def _() -> None:
    ADMIN.create_subscription("news", "rules")
    names = [rule.name for rule in ADMIN.list_rules("news", "rules")]
    assert names == ["$Default"], names
    ADMIN.create_rule("news", "rules", "one", filter=SqlRuleFilter("a = 1"))
    rule = ADMIN.get_rule("news", "rules", "one")
    rule.filter = SqlRuleFilter("a = 2")
    ADMIN.update_rule("news", "rules", rule)
    found = ADMIN.get_rule("news", "rules", "one")
    assert found.filter.sql_expression == "a = 2"
    ADMIN.delete_rule("news", "rules", "$Default")
    ADMIN.delete_subscription("news", "rules")


def main() -> None:
    for name, function in _CASES:
        try:
            function()
        except NotOffered as error:
            tell(name, None, str(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            tell(name, False, f"{type(error).__name__}: {error}"[:300])
        else:
            tell(name, True)
    CLIENT.close()
    ADMIN.close()


if __name__ == "__main__":
    main()
