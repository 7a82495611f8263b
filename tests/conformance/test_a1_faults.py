"""A1: the four failures are independent, and each can be made alone.

All through the unmodified SDK. What must work while another thing fails is done with
clients that were connected before, and with new ones.
"""

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSender
from azure.servicebus.exceptions import (
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from twinbus.auth.sas import make
from twinbus.owner.owner_state import OwnerState
from twinbus.testing import Bus

from .administration import SyncAdministration
from .sdk import SyncSdk, eventually, receive, text_of, texts_of

# The SDK does not close the socket of a connection that was cut.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.setups("one", "postgres"),
]


class Faulty(SyncSdk):
    """The SDK, connected to a bus that can fail on purpose."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.bus = bus
        self.administration = SyncAdministration(bus)

    def send_from_new_client(self, text: str) -> None:
        client = ServiceBusClient.from_connection_string(
            self.bus.connection_string, retry_total=0
        )
        with client, client.get_queue_sender("orders") as sender:
            sender.send_messages(message(text))


@pytest.fixture
def faulty(new_bus: Callable[..., Any]) -> Iterator[Faulty]:
    """A bus with two queues."""
    with new_bus(tls=True, settings={"allow_faults": True}) as bus:
        bus.create_queue("orders")
        bus.create_queue("other")
        sdk = Faulty(bus)
        yield sdk
        bus.faults.clear()
        sdk.administration.close()
        sdk.close()


def message(text: str) -> ServiceBusMessage:
    return ServiceBusMessage(text)


def test_a1_cannot_send_and_all_else_works(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    sender.send_messages(message("before"))
    bus.faults.set("refuse", operations=["send"], entity="orders")
    with pytest.raises(ServiceBusError, match="refuses the operation 'send'"):
        sender.send_messages(message("refused"))
    (received,) = receive(faulty.receiver("orders"))
    assert text_of(received) == "before"
    assert faulty.administration.get_queue("orders").name == "orders"
    faulty.sender("other").send_messages(message("elsewhere"))
    bus.faults.clear()
    sender.send_messages(message("after"))
    assert texts_of(receive(faulty.receiver("orders"))) == ["after"]


def test_a1_cannot_receive_and_all_else_works(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    holder = faulty.receiver("orders")
    sender.send_messages(message("held"))
    (held,) = receive(holder)
    waiting = faulty.receiver("orders")
    bus.faults.set("refuse", operations=["receive"], entity="orders")
    with pytest.raises(ServiceBusError, match="refuses the operation 'receive'"):
        waiting.receive_messages(max_wait_time=5)
    with pytest.raises(ServiceBusError, match="refuses the operation 'receive'"):
        faulty.receiver("orders")
    sender.send_messages(message("sent meanwhile"))
    # What was received before can be settled.
    holder.complete_message(held)
    bus.faults.clear()
    assert texts_of(receive(faulty.receiver("orders"))) == ["sent meanwhile"]


def test_a1_cannot_manage_and_all_else_works(faulty: Faulty) -> None:
    bus, administration = faulty.bus, faulty.administration
    bus.faults.set("refuse", operations=["manage"])
    with pytest.raises(HttpResponseError, match="refuses the operation 'manage'"):
        administration.create_queue("new")
    faulty.sender("orders").send_messages(message("text"))
    assert texts_of(receive(faulty.receiver("orders"))) == ["text"]
    bus.faults.clear()
    assert administration.create_queue("new").name == "new"


def test_a1_cannot_connect_and_what_is_connected_goes_on(faulty: Faulty) -> None:
    bus = faulty.bus
    sender, receiver = faulty.sender("orders"), faulty.receiver("orders")
    sender.send_messages(message("before"))
    bus.faults.set("refuse", operations=["connect"])
    with pytest.raises((ServiceBusConnectionError, ServiceBusError)):
        faulty.send_from_new_client("not connected")
    sender.send_messages(message("connected"))
    assert sorted(texts_of(receive(receiver, 2))) == ["before", "connected"]
    # Whoever made the fault can end it over a new connection.
    assert [one["operations"] for one in asked(bus, "GET")["faults"]] == [["connect"]]
    asked(bus, "DELETE")
    faulty.send_from_new_client("again")
    assert texts_of(receive(receiver)) == ["again"]


def test_a1_other_requests_of_a_refused_http_connection_are_cut(faulty: Faulty) -> None:
    faulty.bus.faults.set("refuse", operations=["connect"])
    connection = HTTPConnection("localhost", faulty.bus.port, timeout=10)
    with pytest.raises((HTTPException, ConnectionError)):
        connection.request("GET", "/health")
        connection.getresponse()
    connection.close()


def test_a1_dropped_connection_has_sent_nothing(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    sender.send_messages(message("first"))
    bus.faults.set("drop", operations=["send"], entity="orders")
    with pytest.raises(ServiceBusError):
        sender.send_messages(message("dropped"))
    bus.faults.clear()
    sender.send_messages(message("last"))
    found = texts_of(receive(faulty.receiver("orders"), 2))
    assert sorted(found) == ["first", "last"]


def test_a1_unanswered_send_is_stored(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    bus.faults.set("unanswered", operations=["send"], entity="orders")
    with pytest.raises(ServiceBusError):
        sender.send_messages(message("stored"))
    bus.faults.clear()
    assert texts_of(receive(faulty.receiver("orders"))) == ["stored"]


def test_a1_unanswered_completion_has_happened(faulty: Faulty) -> None:
    bus = faulty.bus
    faulty.sender("orders").send_messages(message("text"))
    receiver = faulty.receiver("orders")
    (received,) = receive(receiver)
    bus.faults.set("unanswered", operations=["receive"], entity="orders")
    with pytest.raises(ServiceBusError):
        receiver.complete_message(received)
    bus.faults.clear()
    counts = faulty.administration.get_queue_runtime_properties("orders")
    assert counts.total_message_count == 0


def test_a1_unanswered_creation_has_happened(faulty: Faulty) -> None:
    bus = faulty.bus
    bus.faults.set("unanswered", operations=["manage"], entity="new")
    with pytest.raises(Exception, match=r"(?i)connection|closed|aborted|remote"):
        faulty.administration.create_queue("new")
    bus.faults.clear()
    assert faulty.administration.get_queue("new").name == "new"


def test_a1_server_busy_is_what_the_sdk_raises(faulty: Faulty) -> None:
    faulty.bus.faults.set("busy", entity="ord*")
    with pytest.raises(ServiceBusServerBusyError, match="Wait 10 seconds"):
        faulty.sender("orders").send_messages(message("text"))
    with pytest.raises(ServiceBusServerBusyError):
        faulty.sender("orders").schedule_messages(
            message("text"), faulty.bus.now().replace(year=2100)
        )
    faulty.sender("other").send_messages(message("text"))


@pytest.mark.differs(
    "partitioned", row="T2", why="a message without a key goes to another fragment"
)
def test_a1_failing_commit_refuses_what_it_had(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    bus.faults.set("failing", entity="orders")
    with pytest.raises(ServiceBusServerBusyError, match="nothing of it happened"):
        sender.send_messages(message("not stored"))
    faulty.sender("other").send_messages(message("other entity"))
    bus.faults.clear()
    sender.send_messages(message("stored"))
    assert texts_of(receive(faulty.receiver("orders"))) == ["stored"]


def test_a1_slow_store_answers_later(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    sender.send_messages(message("first"))
    before = time.monotonic()
    bus.faults.set("slow", delay="0.3s")
    sender.send_messages(message("second"))
    assert time.monotonic() - before >= 0.3
    found = texts_of(receive(faulty.receiver("orders"), 2))
    assert sorted(found) == ["first", "second"]


def test_a1_store_that_is_gone_comes_back_when_the_fault_is_cleared(
    faulty: Faulty,
) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    sender.send_messages(message("kept"))
    bus.faults.set("gone")
    with pytest.raises(ServiceBusError):
        sender.send_messages(message("lost with the store"))
    with pytest.raises(ServiceBusServerBusyError):
        sender.send_messages(message("refused"))
    bus.faults.clear()
    bus.advance(11)
    if isinstance(bus, Bus):
        eventually(lambda: _are_serving(bus), "the store is back")
        sender.send_messages(message("after"))
    else:
        # Three brokers: until one has taken it, what is sent is refused.
        eventually(lambda: _is_taken(sender, "after"), "a broker has the store")
    found = texts_of(receive(faulty.receiver("orders"), 2))
    assert sorted(found) == ["after", "kept"]


def _are_serving(bus: Bus) -> bool:
    return all(owner.state is OwnerState.SERVING for owner in bus.server.owners)


def _is_taken(sender: ServiceBusSender, text: str) -> bool:
    try:
        sender.send_messages(message(text))
    except ServiceBusError:
        return False
    return True


def test_a1_fault_ends_by_itself(faulty: Faulty) -> None:
    bus, sender = faulty.bus, faulty.sender("orders")
    bus.faults.set("refuse", operations=["send"], lasts="30s")
    with pytest.raises(ServiceBusError):
        sender.send_messages(message("refused"))
    bus.advance(31)
    sender.send_messages(message("taken"))
    assert bus.faults.active() == []


@pytest.mark.differs(
    "brokers", row="A1", why="each broker draws for the clients that it has"
)
def test_a1_seed_decides_which_operations_are_hit(faulty: Faulty) -> None:
    first = [_is_refused(faulty, number) for number in range(20)]
    assert first == [_is_refused(faulty, number) for number in range(20)]
    assert 0 < sum(first) < 20


def _is_refused(faulty: Faulty, number: int) -> bool:
    """Whether the nth send with the same seed is refused."""
    bus = faulty.bus
    if number == 0:
        bus.faults.clear()
        bus.faults.set("refuse", operations=["send"], probability=0.5, seed=7)
    try:
        faulty.sender("orders").send_messages(message("text"))
    except ServiceBusError:
        return True
    return False


def asked(bus: Bus, method: str, body: object = None, key: str = "") -> Any:
    """The answer of `/$faults` to whoever may manage the namespace."""
    token = make(
        resource=f"sb://localhost:{bus.port}/",
        key_name=bus.key_name,
        key=key or bus.key,
        expires_at=bus.clock.now() + 600_000,
    )
    connection = HTTPConnection("localhost", bus.port, timeout=20)
    content = None if body is None else json.dumps(body)
    connection.request(method, "/$faults", content, {"authorization": token})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return answer


def test_a1_faults_need_the_setting_and_a_key(bus: Bus) -> None:
    assert "--allow-faults" in asked(bus, "GET")["error"]["message"]
    assert asked(bus, "GET", key="wrong")["error"]["condition"].endswith("auth-failed")
    with pytest.raises(ValueError, match="allow_faults"):
        bus.faults.clear()
