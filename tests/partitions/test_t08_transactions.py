"""T8: transactions on partitioned entities, by Qpid Proton.

The SDK for Python has no transactions. Each message needs a key, and all of one
transaction the same; what breaks that is refused, and nothing of it happens.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient

from twinbus.testing import Bus

from .conftest import drained
from .transaction_client import load

# Published as source only: where it could not be built these tests are left out.
proton = pytest.importorskip("proton")
client_module: Any = load("client")
management_module: Any = load("management")

INVALID_OPERATION = "amqp:not-allowed"
KEY = "blue"


@pytest.fixture
def transactions(bus: Bus) -> Iterator[Any]:
    made = client_module.TransactionClient(bus)
    yield made
    made.close()


def message(body: str, **fields: Any) -> Any:
    key = fields.pop("key", None)
    made = proton.Message(body=body, **fields)
    if key is not None:
        made.annotations = {proton.symbol("x-opt-partition-key"): key}
    return made


def bodies(client: ServiceBusClient, queue: str, **options: Any) -> list[str]:
    """What is in a queue; Proton sends strings, which the SDK shows as bytes."""
    return [one.body.decode() for one in drained(client, queue, **options)]


def refused(transactions: Any, steps: list[tuple[str, Any]]) -> str:
    """Send all of this in one transaction; the last must be refused. Its text."""
    transaction = transactions.declare()
    for queue, one in steps[:-1]:
        transaction.send(transactions.sender(queue), one)
    queue, last = steps[-1]
    with pytest.raises(client_module.Refused) as refusal:
        transaction.send(transactions.sender(queue), last)
    assert refusal.value.condition == INVALID_OPERATION
    # What was refused cannot be left out: the transaction can only be rolled back.
    with pytest.raises(client_module.Refused):
        transaction.commit()
    return str(refusal.value)


def test_t08_messages_with_one_key_are_sent_together(
    client: ServiceBusClient, transactions: Any, queue: str
) -> None:
    sender, transaction = transactions.sender(queue), transactions.declare()
    for number in range(5):
        transaction.send(sender, message(str(number), key=KEY))
    with client.get_queue_receiver(queue) as receiver:
        assert receiver.peek_messages(10) == []
    transaction.commit()
    assert bodies(client, queue) == list("01234")


def test_t08_messages_to_several_partitioned_queues_are_sent_together(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    queues = [make_queue() for _ in range(3)]
    for is_committed in (False, True):
        transaction = transactions.declare()
        for queue in queues:
            transaction.send(transactions.sender(queue), message(queue, key=KEY))
        if is_committed:
            transaction.commit()
        else:
            transaction.rollback()
    assert [bodies(client, queue) for queue in queues] == [[one] for one in queues]


def test_t08_message_without_a_key_is_refused(
    client: ServiceBusClient, transactions: Any, queue: str
) -> None:
    assert queue in refused(transactions, [(queue, message("first"))])
    steps = [(queue, message("first", key=KEY)), (queue, message("second"))]
    assert queue in refused(transactions, steps)
    # Without duplicate detection a message id is no key.
    assert queue in refused(transactions, [(queue, message("third", id="an id"))])
    assert bodies(client, queue) == []


def test_t08_message_with_another_key_is_refused(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    queue, other = make_queue(), make_queue()
    for second in (queue, other):
        steps = [(queue, message("a", key=KEY)), (second, message("b", key="red"))]
        assert second in refused(transactions, steps)
    assert bodies(client, queue) == bodies(client, other) == []


def test_t08_message_id_is_the_key_where_duplicates_are_detected(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_duplicate_detection=True)
    steps = [(queue, message("a", id="one")), (queue, message("b", id="other"))]
    refused(transactions, steps)
    transaction = transactions.declare()
    transaction.send(transactions.sender(queue), message("c", id="one"))
    transaction.commit()
    assert bodies(client, queue) == ["c"], "what was refused is not remembered"


def test_t08_session_id_is_the_key_of_a_queue_with_sessions(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    steps = [(queue, message("a", group_id="s")), (queue, message("b", group_id="t"))]
    refused(transactions, steps)
    sender, transaction = transactions.sender(queue), transactions.declare()
    for body in ("c", "d"):
        transaction.send(sender, message(body, group_id="s"))
    transaction.commit()
    assert bodies(client, queue, session_id="s") == ["c", "d"]


def test_t08_conventional_queue_takes_several_sessions(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(enable_partitioning=False, requires_session=True)
    sender, transaction = transactions.sender(queue), transactions.declare()
    for name in ("s", "t"):
        transaction.send(sender, message(f"of {name}", group_id=name))
    transaction.commit()
    for name in ("s", "t"):
        assert bodies(client, queue, session_id=name) == [f"of {name}"]


def test_t08_receive_and_send_are_one_transaction(
    client: ServiceBusClient, transactions: Any, make_queue: Callable[..., str]
) -> None:
    source, target = make_queue(), make_queue()
    transactions.sender(source).send(message("in", key=KEY))
    received = transactions.receive(transactions.receiver(source))
    transaction = transactions.declare()
    transaction.send(transactions.sender(target), message("out", key=KEY))
    transaction.complete(received)
    transaction.commit()
    assert bodies(client, source) == []
    assert bodies(client, target) == ["out"]


def test_t13_rules_cannot_be_changed_inside_a_transaction(
    bus: Bus, transactions: Any
) -> None:
    bus.create_topic("spread", enable_partitioning=True)
    bus.create_subscription("spread", "all")
    node = management_module.Management(transactions, "spread/Subscriptions/all")
    added = {
        "rule-name": "red",
        "rule-description": {
            "sql-filter": {"expression": "colour = 'red'"},
            "sql-rule-action": None,
        },
    }
    for operation, body in (
        ("add-rule", added),
        ("remove-rule", {"rule-name": "$Default"}),
    ):
        answer = node.request(operation, body, transactions.declare())
        assert answer.condition == INVALID_OPERATION, answer
    rules = bus.server.namespace.subscription("spread", "all").rules()
    assert [one.name for one in rules] == ["$Default"]
