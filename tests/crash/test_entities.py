"""`kill -9`: entities, settings, rules, sessions and special messages survive.

A bus is used by the official SDK, including administration over HTTPS, and killed right
after the last answer. Everything that was confirmed must be there: entities, settings,
rules, sessions, ids of duplicates, scheduled, deferred and dead-lettered messages.
"""

import gc
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusSubQueue,
)
from azure.servicebus.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
)

from bench.free_port import free_port
from crash.server_process import ServerProcess
from twinbus.config.config import ROOT_KEY_NAME

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

LONG_LOCK = timedelta(minutes=5)
SOON = 20.0


class Killable:
    """A bus in a process, and the SDK's clients of it, made anew after each kill."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._opened: list[Any] = []
        server.start_now()
        self._connect()

    def _connect(self) -> None:
        text = (
            f"Endpoint=sb://localhost:{self._server.port};"
            f"SharedAccessKeyName={ROOT_KEY_NAME};SharedAccessKey={self._server.key};"
            "UseDevelopmentEmulator=true"
        )
        authority = next(self._server.data.rglob("ca*.pem"))
        self.administration = self._open(
            ServiceBusAdministrationClient.from_connection_string(
                text, connection_verify=str(authority), retry_total=0
            )
        )
        self.client = self._open(ServiceBusClient.from_connection_string(text))

    def _open(self, handler: Any) -> Any:
        handler.__enter__()
        self._opened.append(handler)
        return handler

    def sender(self, queue: str) -> Any:
        return self._open(self.client.get_queue_sender(queue))

    def topic_sender(self, topic: str) -> Any:
        return self._open(self.client.get_topic_sender(topic))

    def receiver(self, *path: str, **options: Any) -> Any:
        """Of a queue, or of a topic's subscription."""
        make = (
            self.client.get_queue_receiver
            if len(path) == 1
            else self.client.get_subscription_receiver
        )
        return self._open(make(*path, **options))

    def dead_letters(self, *path: str) -> Any:
        return self.receiver(*path, sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    def kill(self) -> None:
        """Kill it at once, start it again, connect anew."""
        self._server.kill()
        self.close()
        self._server.start_now()
        self._connect()

    def close(self) -> None:
        # Whose peer was killed, the SDK forgets to close: not our sockets to miss.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for handler in reversed(self._opened):
                handler.close()
            self._opened.clear()
            del self.client, self.administration
            gc.collect()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Killable]:
    flags = ("--tls-port", str(free_port()))
    with ServerProcess(tmp_path, flags=flags) as server:
        killable = Killable(server)
        yield killable
        killable.close()
        assert "Traceback" not in server.errors


def texts(messages: Any) -> list[str]:
    return [b"".join(message.body).decode() for message in messages]


def receive(receiver: Any, count: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        some = receiver.receive_messages(count - len(messages), max_wait_time=SOON)
        assert some, f"wanted {count} messages, got {len(messages)}"
        messages += some
    return messages


def test_entities_and_their_settings_outlive_a_kill(bus: Killable) -> None:
    """Created, updated and deleted entities are as the last answer said."""
    admin = bus.administration
    admin.create_queue("letters")
    admin.create_queue(
        "q",
        requires_session=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=7),
        lock_duration=timedelta(seconds=33),
        forward_dead_lettered_messages_to="letters",
        user_metadata="made",
    )
    admin.create_topic("t", default_message_time_to_live=timedelta(days=3))
    admin.create_subscription("t", "s", max_delivery_count=4)
    before = [
        str(admin.get_queue("q")),
        str(admin.get_topic("t")),
        str(admin.get_subscription("t", "s")),
    ]
    bus.kill()
    admin = bus.administration
    assert before == [
        str(admin.get_queue("q")),
        str(admin.get_topic("t")),
        str(admin.get_subscription("t", "s")),
    ]
    queue = admin.get_queue("q")
    queue.user_metadata = "changed"
    queue.max_delivery_count = 3
    admin.update_queue(queue)
    admin.delete_subscription("t", "s")
    bus.kill()
    admin = bus.administration
    queue = admin.get_queue("q")
    assert (queue.user_metadata, queue.max_delivery_count) == ("changed", 3)
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription("t", "s")


def test_rules_outlive_a_kill(bus: Killable) -> None:
    """Rules of the last answer select and act after the kill."""
    admin = bus.administration
    admin.create_topic("t")
    admin.create_subscription("t", "s")
    admin.delete_rule("t", "s", "$Default")
    wanted = SqlRuleFilter("n > @least", parameters={"@least": 1})
    action = SqlRuleAction("SET n = n + 10")
    admin.create_rule("t", "s", "sql", filter=wanted, action=action)
    admin.create_rule("t", "s", "label", filter=CorrelationRuleFilter(label="l"))
    bus.kill()
    rules = [rule.name for rule in bus.administration.list_rules("t", "s")]
    assert sorted(rules) == ["label", "sql"]
    sender = bus.topic_sender("t")
    for n in (1, 2):
        sender.send_messages(ServiceBusMessage(str(n), application_properties={"n": n}))
    sender.send_messages(ServiceBusMessage("labelled", subject="l"))
    messages = receive(bus.receiver("t", "s"), 2)
    assert texts(messages) == ["2", "labelled"]
    assert messages[0].application_properties[b"n"] == 12


def test_messages_of_every_kind_outlive_a_kill(bus: Killable) -> None:
    """Active, deferred, scheduled and dead-lettered, of queues and subscriptions."""
    admin = bus.administration
    admin.create_queue("q", lock_duration=LONG_LOCK)
    admin.create_topic("t")
    admin.create_subscription("t", "s", lock_duration=LONG_LOCK)
    paths: list[tuple[str, ...]] = [("q",), ("t", "s")]
    due = datetime.now(UTC) + timedelta(hours=1)
    deferred = {}
    senders = (bus.sender("q"), bus.topic_sender("t"))
    for path, sender in zip(paths, senders, strict=True):
        kinds = ("active", "deferred", "dead", "done")
        sender.send_messages([ServiceBusMessage(kind) for kind in kinds])
        sender.schedule_messages(ServiceBusMessage("scheduled"), due)
        receiver = bus.receiver(*path)
        _, later, dead, done = receive(receiver, 4)
        receiver.defer_message(later)
        receiver.dead_letter_message(dead, reason="r")
        receiver.complete_message(done)
        deferred[path] = later.sequence_number
    bus.kill()
    for path in paths:
        receiver = bus.receiver(*path)
        assert texts(receive(receiver, 1)) == ["active"]
        assert texts(receiver.receive_deferred_messages(deferred[path])) == ["deferred"]
        (dead,) = receive(bus.dead_letters(*path), 1)
        assert (texts([dead]), dead.dead_letter_reason) == (["dead"], "r")
    admin = bus.administration
    assert admin.get_queue_runtime_properties("q").scheduled_message_count == 1
    assert admin.get_topic_runtime_properties("t").scheduled_message_count == 1


def test_session_state_outlives_a_kill(bus: Killable) -> None:
    """The state that was confirmed, and the order of the session's messages."""
    bus.administration.create_queue("q", requires_session=True)
    messages = [ServiceBusMessage(str(n), session_id="s") for n in range(3)]
    bus.sender("q").send_messages(messages)
    receiver = bus.receiver("q", session_id="s")
    (first,) = receive(receiver, 1)
    receiver.complete_message(first)
    receiver.session.set_state(b"one done")
    bus.kill()
    receiver = bus.receiver("q", session_id="s")
    assert receiver.session.get_state() == b"one done"
    assert texts(receive(receiver, 2)) == ["1", "2"]


def test_ids_of_duplicates_outlive_a_kill(bus: Killable) -> None:
    """An id that was accepted is known after the kill, at a queue and at a topic."""
    admin = bus.administration
    admin.create_queue("q", requires_duplicate_detection=True)
    admin.create_topic("t", requires_duplicate_detection=True)
    admin.create_subscription("t", "s")
    for text in ("first", "second"):
        bus.sender("q").send_messages(ServiceBusMessage(text, message_id="id"))
        bus.topic_sender("t").send_messages(ServiceBusMessage(text, message_id="id"))
        bus.kill()
    for path in (("q",), ("t", "s")):
        assert texts(bus.receiver(*path).peek_messages(5)) == ["first"]


def test_forwarding_goes_on_after_a_kill(bus: Killable) -> None:
    """Settings of forwarding are kept, and what was on its way arrives once."""
    admin = bus.administration
    admin.create_queue("target")
    admin.create_queue("source", forward_to="target")
    sent = [str(number) for number in range(200)]
    bus.sender("source").send_messages([ServiceBusMessage(text) for text in sent])
    bus.kill()
    bus.sender("source").send_messages(ServiceBusMessage("last"))
    receiver = bus.receiver("target")
    assert texts(receive(receiver, 201)) == [*sent, "last"]
